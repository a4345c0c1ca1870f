#include "suite/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {
namespace {

std::string quoted(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Picoseconds as microseconds, in integers: nothing is lost.
void append_microseconds(std::string& out, Picoseconds time) {
  const Picoseconds magnitude = time < 0 ? -time : time;
  fmt::format_to(std::back_inserter(out), "{}{}.{:06}", time < 0 ? "-" : "", magnitude / 1'000'000,
                 magnitude % 1'000'000);
}

}  // namespace

void write_trace(std::ostream& out, std::span<const TraceSpan> spans) {
  std::map<std::string_view, std::size_t> thread_of;
  std::vector<std::string_view> streams;
  std::set<std::pair<int, std::size_t>> lanes;
  std::vector<std::size_t> thread(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    CHECK(spans[i].end >= spans[i].start)
        << "span " << spans[i].name << " of rank " << spans[i].rank << " ends before it starts";
    const auto [place, added] = thread_of.try_emplace(spans[i].stream, streams.size());
    if (added) streams.push_back(spans[i].stream);
    thread[i] = place->second;
    lanes.emplace(spans[i].rank, thread[i]);
  }
  std::vector<std::size_t> order(spans.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tuple(spans[a].start, spans[a].rank, thread[a]) < std::tuple(spans[b].start, spans[b].rank, thread[b]);
  });

  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  const char* separator = "\n";
  int last_rank = -1;
  bool first = true;
  for (const auto& [rank, lane] : lanes) {
    if (first || rank != last_rank) {
      fmt::format_to(
          std::back_inserter(text),
          "{}{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"tid\":0,\"args\":{{\"name\":\"rank {}\"}}}}",
          separator, rank, rank);
      separator = ",\n";
      fmt::format_to(
          std::back_inserter(text),
          "{}{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{},\"tid\":0,\"args\":{{\"sort_index\":{}}}}}",
          separator, rank, rank);
    }
    first = false;
    last_rank = rank;
    fmt::format_to(std::back_inserter(text),
                   "{}{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":{}}}}}",
                   separator, rank, lane, quoted(streams[lane]));
    fmt::format_to(
        std::back_inserter(text),
        "{}{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}",
        separator, rank, lane, lane);
  }
  // The members of each flow in the order of its arrows; one recorded member alone has none.
  std::map<std::int64_t, std::vector<std::size_t>> members;
  for (std::size_t i : order) {
    if (spans[i].flow < 0) continue;
    std::vector<std::size_t>& flow = members[spans[i].flow];
    flow.insert(spans[i].flow_source ? flow.begin() : flow.end(), i);
  }
  std::map<std::string_view, std::string> quotes;  // few names, many spans
  const auto quote = [&](std::string_view word) -> const std::string& {
    const auto place = quotes.find(word);
    return place != quotes.end() ? place->second : quotes.emplace(word, quoted(word)).first->second;
  };
  for (std::size_t i : order) {
    const TraceSpan& span = spans[i];
    text += separator;
    separator = ",\n";
    fmt::format_to(std::back_inserter(text), "{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":", span.rank, thread[i]);
    append_microseconds(text, span.start);
    text += ",\"dur\":";
    append_microseconds(text, span.end - span.start);
    text += ",\"name\":" + quote(span.name) + ",\"cat\":" + quote(span.category) + ",\"args\":{";
    const char* comma = "";
    const auto argument = [&](const char* key, std::int64_t value) {
      if (value < 0) return;
      fmt::format_to(std::back_inserter(text), "{}\"{}\":{}", comma, key, value);
      comma = ",";
    };
    argument("micro_batch", span.micro_batch);
    argument("layer", span.layer);
    argument("chunk", span.chunk);
    argument("bytes", span.bytes);
    text += "}}";
    if (span.flow >= 0 && members[span.flow].size() > 1) {
      const std::vector<std::size_t>& flow = members[span.flow];
      const bool starts = flow.front() == i, ends = flow.back() == i;
      fmt::format_to(std::back_inserter(text), ",\n{{\"ph\":\"{}\",\"id\":{},\"pid\":{},\"tid\":{},\"ts\":",
                     starts ? "s" : ends ? "f" : "t", span.flow, span.rank, thread[i]);
      // Not before the arrow begins, and inside the span, which is how a viewer finds it.
      append_microseconds(text, std::min(span.end, std::max(span.start, spans[flow.front()].start)));
      text += ",\"name\":" + quote(span.name) + ",\"cat\":\"flow\"" + (starts ? "" : ",\"bp\":\"e\"") + "}";
    }
    if (text.size() > (1u << 20)) {
      out << text;
      text.clear();
    }
  }
  text += "\n]}\n";
  out << text;
}

}  // namespace benchsuite
