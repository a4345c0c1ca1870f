// The founding case at reduced size, trained on device cpu: it passes, and notices a recompute that computes something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "engine/core/json_reader.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

struct Judged {
  int exit_code = 0;
  std::map<std::string, std::string> verdicts;              // by expectation
  std::map<std::string, std::vector<double>> curves;        // by variant
};

Judged run_case(std::vector<std::string> more) {
  const TemporaryFolder folder;
  Launch call;
  call.folder = folder.path();
  call.arguments = {"run", "--case", "sp_recompute_loss", "--device", "cpu", "--out", "out", "--no-history"};
  call.arguments.insert(call.arguments.end(), more.begin(), more.end());
  const Finished run = run_program(call);
  Judged judged{.exit_code = run.exit_code};
  const Json result = parse_json_file(folder.path() + "/out/result.json").at("cases").at(0);
  for (const Json& check : result.at("checks")) judged.verdicts[check.at("id")] = check.at("verdict");
  for (const Json& variant : result.at("variants")) judged.curves[variant.at("id")] = variant.at("loss_curve").get<std::vector<double>>();
  return judged;
}

TEST(SpRecomputeLoss, CurvesAreEqualBitForBitAndFall) {
  const Judged run = run_case({});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.verdicts, (std::map<std::string, std::string>{{"bits_full_selective", "PASS"}, {"bits_full_none", "PASS"},
                                                              {"parallel_one_rank", "PASS"}, {"start_full", "PASS"},
                                                              {"start_one_rank", "PASS"}, {"learns_full", "PASS"},
                                                              {"learns_one_rank", "PASS"}}));
  ASSERT_EQ(run.curves.at("full").size(), 10u);
  EXPECT_EQ(run.curves.at("full"), run.curves.at("selective"));
  EXPECT_EQ(run.curves.at("full"), run.curves.at("none"));
}

TEST(SpRecomputeLoss, ARecomputeWithoutItsCollectivesFails) {
  const Judged run = run_case({"--inject", "drop-recomputed-collectives"});
  EXPECT_EQ(run.exit_code, 1);
  for (const char* check : {"bits_full_selective", "bits_full_none", "parallel_one_rank"}) {
    EXPECT_EQ(run.verdicts.at(check), "FAIL") << check;
  }
  EXPECT_EQ(run.curves.at("selective"), run.curves.at("none")) << "neither recomputes a collective";
}

}  // namespace
}  // namespace benchsuite
