// The founding case: what it holds, that it passes, and that it notices when recomputed collectives are missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "suite/report/result_json.h"
#include "suite/run/selection.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;

const SelectedCase& founding_case() {
  static const SelectedCase selected = [] {
    std::vector<Violation> problems;
    Selection selection;
    selection.names = {"sp_recompute_13b"};
    auto found = select_cases(selection, DataRoot(BENCHSUITE_SOURCE_DIR), problems);
    for (const Violation& problem : problems) ADD_FAILURE() << to_string(problem);
    return found.at(0);
  }();
  return selected;
}

const ResolvedVariant& variant(const std::string& id) {
  for (const ResolvedVariant& candidate : founding_case().resolved.variants) {
    if (candidate.id == id) return candidate;
  }
  throw std::out_of_range(id);
}

TEST(SpRecompute, IsDocument000sConfiguration) {
  const TrainConfig& config = variant("full_m128").config;
  EXPECT_EQ(config.model.layers, 40);
  EXPECT_EQ(config.model.hidden, 5120);
  EXPECT_EQ(config.model.heads, 40);
  EXPECT_EQ(config.model.seq, 2048);
  EXPECT_EQ(config.layout.tp, 4);
  EXPECT_EQ(config.layout.pp, 4);
  EXPECT_EQ(config.layout.world(), 16);
  EXPECT_EQ(config.layout.micro_batch, 4);
  EXPECT_EQ(config.layout.global_batch, 512);
  EXPECT_TRUE(config.layout.sequence_parallel);
  EXPECT_EQ(config.layout.attention, AttentionKernel::unfused);
  EXPECT_EQ(config.layout.recompute.granularity, RecomputeGranularity::full);
  EXPECT_EQ(config.layout.recompute.method, RecomputeMethod::uniform);
  EXPECT_EQ(config.layout.recompute.num_layers, 1);
}

TEST(SpRecompute, Variants) {
  for (const char* granularity : {"full", "selective", "none"}) {
    EXPECT_EQ(variant(std::string(granularity) + "_m8").config.layout.micro_batches(), 8);
    EXPECT_EQ(variant(std::string(granularity) + "_m128").config.layout.micro_batches(), 128);
    EXPECT_EQ(name_of(variant(std::string(granularity) + "_m8").config.layout.recompute.granularity), granularity);
  }
  for (const char* fabric : {"8x100g", "1x100g"}) {
    for (const char* granularity : {"full", "selective"}) {
      const ResolvedVariant& across = variant(std::string(granularity) + "_across_" + fabric);
      EXPECT_EQ(across.hardware_name, std::string("dgx-h100-") + fabric);
      EXPECT_EQ(across.config.layout.placement, TensorPlacement::across_nodes);
      EXPECT_EQ(name_of(across.config.layout.recompute.granularity), granularity);
    }
  }
  EXPECT_EQ(variant("full_flash").config.layout.attention, AttentionKernel::flash);
  EXPECT_EQ(variant("selective_flash").config.layout.attention, AttentionKernel::flash);
  EXPECT_EQ(variant("full_ideal").hardware_name, "ideal");
  EXPECT_EQ(variant("full_m8").hardware_name, "dgx-h100");
  EXPECT_TRUE(variant("full_m8").config.layout.recompute.selects(RecomputeModule::core_attn) == false);
  EXPECT_TRUE(variant("selective_m8").config.layout.recompute.selects(RecomputeModule::core_attn));
}

TEST(SpRecompute, ExpectationsCarrySourcesAndClaimsArithmetic) {
  ASSERT_TRUE(founding_case().expected.has_value());
  EXPECT_TRUE(founding_case().as_written);
  std::map<ExpectationKind, int> kinds;
  for (const Expectation& expectation : founding_case().expected->expectations) {
    ++kinds[expectation.kind];
    EXPECT_FALSE(expectation.source.empty()) << expectation.id;
    if (expectation.kind != ExpectationKind::claim) continue;
    EXPECT_THAT(expectation.source, HasSubstr("document 000")) << expectation.id;
    EXPECT_TRUE(std::any_of(expectation.explanation.begin(), expectation.explanation.end(),
                            [](unsigned char letter) { return std::isdigit(letter); }) ||
                expectation.verdict == "needs-measurement")
        << expectation.id << " has no arithmetic";
  }
  EXPECT_GE(kinds[ExpectationKind::measurement], 2);
  EXPECT_GE(kinds[ExpectationKind::claim], 20);
  EXPECT_EQ(kinds[ExpectationKind::baseline], 0);
  for (const Expectation& expectation : founding_case().expected->expectations) {
    if (expectation.id != "ratio_m8" && expectation.id != "ratio_m128") continue;
    EXPECT_EQ(expectation.pass->low, 1.20);
    EXPECT_EQ(expectation.pass->high, 1.40);
    EXPECT_EQ(expectation.warn->low, 1.10);
    EXPECT_EQ(expectation.warn->high, 1.50);
  }
}

Finished run_case(const TemporaryFolder& folder, const std::string& out, std::vector<std::string> more = {}) {
  Launch launch;
  launch.arguments = {"run", "--case", "sp_recompute_13b", "--out", out};
  launch.arguments.insert(launch.arguments.end(), more.begin(), more.end());
  launch.folder = folder.path();
  launch.environment = {std::string("BENCHSUITE_ROOT=") + BENCHSUITE_SOURCE_DIR};
  return run_program(launch);
}

Json result_of(const TemporaryFolder& folder, const std::string& out) {
  return Json::parse(read_text(folder.file(out + "/result.json")));
}

TEST(SpRecompute, PassesOnAHealthyTree) {
  const TemporaryFolder folder;
  const Finished run = run_case(folder, "r");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  const Json result = result_of(folder, "r")["cases"][0];
  for (const Json& check : result["checks"]) {
    EXPECT_TRUE(check["verdict"] == "PASS" || check["verdict"] == "WARN" || check["verdict"] == "SHOWN")
        << check.dump(2);
  }
  EXPECT_GE(result["waterfall"].size(), 6u);
  for (const Json& variant : result["variants"]) EXPECT_TRUE(variant["gpu_busy"].is_number());
}

TEST(SpRecompute, NoticesDroppedRecomputedCollectives) {
  const TemporaryFolder folder;
  const Finished run = run_case(folder, "r", {"--inject", "drop-recomputed-collectives"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  const Json result = result_of(folder, "r")["cases"][0];
  EXPECT_EQ(result["status"], "FAIL");
  int failed = 0;
  for (const Json& check : result["checks"]) {
    const std::string metric = check["metric"];
    const bool recomputed = metric.starts_with("full") && metric.find("communication_bytes") != std::string::npos &&
                            metric.find("(recomputed)") != std::string::npos;
    EXPECT_EQ(check["verdict"] == "FAIL", recomputed && check["gates"] == true) << check.dump(2);
    failed += check["verdict"] == "FAIL";
  }
  EXPECT_EQ(failed, 10) << "all-gather and reduce-scatter of the five fully recomputing variants";
}

TEST(SpRecompute, NoticesSelectiveRecomputeThatRepeatsCollectives) {
  const TemporaryFolder folder;
  const Finished run = run_case(folder, "r", {"--variant", "selective_m8", "--set",
                                              R"(layout.recompute={"granularity":"selective","modules":["core_attn","mlp"]})"});
  int failed = 0;
  const Json result = result_of(folder, "r")["cases"][0];
  for (const Json& check : result["checks"]) {
    const std::string id = check["id"];
    const bool repeats = id.starts_with("selective_adds_no");
    if (repeats) { EXPECT_EQ(check["verdict"], "FAIL") << check.dump(2); }
    failed += check["verdict"] == "FAIL";
  }
  EXPECT_EQ(failed, 2) << run.out << run.err;
}

TEST(SpRecompute, AFormulaThatZeroLacksIsNoReferenceAndNoError) {
  const TemporaryFolder folder;
  const Finished run = run_case(folder, "r", {"--set", "layout.dp=2", "--set", "layout.zero_stage=3", "--variant", "*_m8"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  int without = 0;
  const Json result = result_of(folder, "r")["cases"][0];
  for (const Json& check : result["checks"]) {
    EXPECT_TRUE(check["verdict"] == "PASS" || check["verdict"] == "SHOWN" || check["verdict"] == "NOREF") << check.dump(2);
    without += check["explanation"].get<std::string>().find("no closed formula") != std::string::npos;
  }
  EXPECT_GE(without, 1);
}

TEST(SpRecompute, UnwritableOutputShowsBeforeTheRun) {
  const TemporaryFolder folder;
  for (const char* flag : {"--json", "--junit"}) {
    const Finished run = run_case(folder, "r", {flag, "/no/such/folder/x"});
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr(std::string(flag) + " = /no/such/folder/x: can't be written"));
    EXPECT_FALSE(std::filesystem::exists(folder.file("r")));
  }
}

TEST(SpRecompute, TwoRunsAreIdentical) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_case(folder, "a").exit_code, 0);
  ASSERT_EQ(run_case(folder, "b").exit_code, 0);
  Json first = result_of(folder, "a"), second = result_of(folder, "b");
  EXPECT_NE(first["run_id"], second["run_id"]);
  for (Json* result : {&first, &second}) {
    for (const std::string_view key : volatile_keys()) {
      result->erase(std::string(key));
      for (Json& entry : (*result)["cases"]) entry.erase(std::string(key));
    }
    result->erase("argv");  // names the two folders
  }
  EXPECT_TRUE(first == second);
}

}  // namespace
}  // namespace benchsuite
