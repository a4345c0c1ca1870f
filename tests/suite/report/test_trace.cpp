#include "suite/report/trace.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "engine/core/json_reader.h"

namespace benchsuite {
namespace {

TEST(Trace, ParsesIsSortedAndNamesRanksAndStreams) {
  std::vector<TraceSpan> spans;
  spans.push_back({1, "tensor", "all_gather \"x\"", "tensor", 2'500'001, 4'000'000, 3, 7, 0, 1024});
  spans.push_back({0, "compute", "gemm", "forward", 1'000'000, 2'500'001});
  spans.push_back({1, "compute", "gemm", "forward", 1'000'000, 1'000'000, 0});
  spans.push_back({0, "tensor", "reduce_scatter", "tensor", 0, 1, -1, -1, -1, 0});
  std::ostringstream out;
  write_trace(out, spans);
  const Json json = parse_json(out.str(), "trace");
  std::map<std::pair<int, int>, std::string> threads;
  std::map<int, std::string> processes;
  std::vector<Json> complete;
  for (const Json& event : json.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "thread_name")
      threads[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      processes[event.at("pid")] = event.at("args").at("name");
    if (event.at("ph") == "X") complete.push_back(event);
  }
  EXPECT_EQ(processes, (std::map<int, std::string>{{0, "rank 0"}, {1, "rank 1"}}));
  EXPECT_EQ(threads, (std::map<std::pair<int, int>, std::string>{
                         {{0, 0}, "tensor"}, {{0, 1}, "compute"}, {{1, 0}, "tensor"}, {{1, 1}, "compute"}}));
  ASSERT_EQ(complete.size(), 4u);
  for (std::size_t i = 1; i < complete.size(); ++i)
    EXPECT_LE(complete[i - 1].at("ts").get<double>(), complete[i].at("ts").get<double>());
  EXPECT_EQ(complete[0].at("name"), "reduce_scatter");
  EXPECT_EQ(complete[1].at("pid"), 0);  // equal start: by rank
  EXPECT_EQ(complete[2].at("pid"), 1);
  const Json& gather = complete[3];
  EXPECT_EQ(gather.at("name"), "all_gather \"x\"");
  EXPECT_EQ(gather.at("cat"), "tensor");
  EXPECT_DOUBLE_EQ(gather.at("ts").get<double>(), 2.500001);
  EXPECT_DOUBLE_EQ(gather.at("dur").get<double>(), 1.499999);
  EXPECT_EQ(gather.at("args"), (Json{{"micro_batch", 3}, {"layer", 7}, {"chunk", 0}, {"bytes", 1024}}));
  EXPECT_TRUE(complete[1].at("args").empty());
}

TEST(Trace, FlowsJoinTheMembersOfACollective) {
  std::vector<TraceSpan> spans;
  for (int rank : {2, 0, 1}) {
    spans.push_back({rank, "embedding", "all_reduce", "backward", 1'000'000, 3'000'000});
    spans.back().flow = 7;
  }
  // A transfer from rank 2 to rank 1: the arrow starts at the sender, whatever the order of ranks.
  spans.push_back({1, "pipeline", "receive", "backward", 4'000'000, 6'000'000});
  spans.back().flow = 8;
  spans.push_back({2, "pipeline", "send", "backward", 5'000'000, 6'000'000});
  spans.back().flow = 8;
  spans.back().flow_source = true;
  // The only recorded member of its group.
  spans.push_back({0, "tensor", "all_gather", "forward", 0, 1});
  spans.back().flow = 9;
  std::ostringstream out;
  write_trace(out, spans);
  std::map<int, std::vector<Json>> flows;
  const Json json = parse_json(out.str(), "trace");
  for (const Json& event : json.at("traceEvents")) {
    const std::string kind = event.at("ph");
    if (kind == "s" || kind == "t" || kind == "f") flows[event.at("id")].push_back(event);
  }
  ASSERT_EQ(flows.size(), 2u);
  const auto kinds = [&](int id) {
    std::map<int, std::string> by_rank;
    for (const Json& event : flows[id]) by_rank[event.at("pid")] = event.at("ph");
    return by_rank;
  };
  EXPECT_EQ(kinds(7), (std::map<int, std::string>{{0, "s"}, {1, "t"}, {2, "f"}}));
  EXPECT_EQ(kinds(8), (std::map<int, std::string>{{2, "s"}, {1, "f"}}));
  for (const Json& event : flows[8]) EXPECT_DOUBLE_EQ(event.at("ts").get<double>(), 5.0);  // not before it was sent
}

TEST(Trace, EmptyIsValidAndBackwardsIsRefused) {
  std::ostringstream out;
  write_trace(out, {});
  EXPECT_TRUE(parse_json(out.str(), "trace").at("traceEvents").empty());
  const std::vector<TraceSpan> backwards{{0, "compute", "gemm", "forward", 2, 1}};
  EXPECT_THROW(write_trace(out, backwards), Error);
}

}  // namespace
}  // namespace benchsuite
