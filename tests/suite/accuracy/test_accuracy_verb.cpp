// The program itself: files, exit codes, the JSON that scripts read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/suite/support.h"

namespace benchsuite {
namespace {

const char* kRows = R"([
  {"id": "korthikanti2022.table5.tiny", "source": "paper", "kind": "throughput", "extra": {"deep": [1]},
   "model": {"family": "gpt", "name": "tiny", "layers": 2, "hidden": 1024, "heads": 16, "seq": 1024, "vocab": 51200},
   "cluster": {"gpu": "a100-sxm4-80gb", "gpus": 8, "gpus_per_node": 8},
   "layout": {"tp": 8, "pp": 1, "micro_batch": 1, "global_batch": 4, "precision": "fp16", "recompute": "selective",
              "attention": "unfused", "sequence_parallel": true},
   "measured": {"iteration_s": 0.05}},
  {"id": "moe", "source": "paper", "kind": "throughput", "model": {"family": "moe"}, "cluster": {"gpu": "h100-sxm5-80gb"}},
  17])";

Finished accuracy(const TemporaryFolder& folder, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "accuracy");
  return run_program({.arguments = std::move(arguments), .folder = folder.path(),
                      .environment = {std::string("BENCHSUITE_ROOT=") + BENCHSUITE_SOURCE_DIR}});
}

TEST(AccuracyVerb, EveryRowIsInTheJson) {
  const TemporaryFolder folder;
  write_text(folder.file("rows.json"), kRows);
  const Finished run = accuracy(folder, {"--rows", folder.file("rows.json"), "--json", "-", "--html", folder.file("page.html")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = parse_json(run.out, "output");
  ASSERT_EQ(json["rows"].size(), 3u);
  const Json& row = json["rows"][0];
  EXPECT_EQ(row["id"], "korthikanti2022.table5.tiny");
  EXPECT_EQ(row["mapped"], true);
  EXPECT_TRUE(row["reason"].is_null());
  EXPECT_EQ(row["published"]["iteration_s"], 0.05);
  for (const char* key : {"iteration_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu", "peak_memory_gib"}) {
    EXPECT_TRUE(row["predicted"][key].is_number()) << key;
    EXPECT_GT(row["predicted"][key].get<double>(), 0) << key;
  }
  EXPECT_EQ(row["predicted"]["fits"], true);
  const double predicted = row["predicted"]["iteration_s"].get<double>();
  EXPECT_NEAR(row["error_pct"].get<double>(), 100 * (predicted / 0.05 - 1), 1e-9);
  EXPECT_NEAR(row["predicted"]["tokens_per_s_per_gpu"].get<double>(), 4 * 1024 / predicted / 8, 1e-6);
  ASSERT_EQ(row["interval"].size(), 2u);
  EXPECT_LE(row["interval"][0].get<double>(), row["interval"][1].get<double>());
  EXPECT_TRUE(row["dominant"].is_string());
  EXPECT_EQ(json["rows"][1]["mapped"], false);
  EXPECT_TRUE(json["rows"][1]["reason"].is_string());
  EXPECT_EQ(json["rows"][2]["id"], "row 3");
  EXPECT_EQ(json["rows"][2]["mapped"], false);
  const Json& source = json["sources"][0];
  EXPECT_EQ(source["source"], "paper");
  EXPECT_EQ(source["rows"], 2);
  for (const char* key : {"mean_abs_pct", "max_abs_pct", "bias_pct", "interval_coverage"}) {
    EXPECT_TRUE(source[key].is_number()) << key;
  }
  EXPECT_TRUE(source.contains("rank_correlation"));
  EXPECT_NE(read_text(folder.file("page.html")).find("korthikanti2022.table5.tiny"), std::string::npos);
}

// The layer times of Korthikanti et al., Table 4, have two sub-targets of 6 %: in every format below their set, from the rows'
// own errors; and their scatter plot is one of layer times.
TEST(AccuracyVerb, SubTargetsStandBelowTheirSet) {
  const TemporaryFolder folder;
  const Finished run = accuracy(folder, {"--source", "Korthikanti Table 4", "--json", folder.file("page.json"), "--html",
                                         folder.file("page.html"), "--markdown", folder.file("page.md")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = parse_json(read_text(folder.file("page.json")), "page.json");
  std::map<std::string, double> worst = {{"forward_error_pct", 0}, {"backward_error_pct", 0}};
  for (const Json& row : json["rows"]) {
    for (auto& [key, value] : worst) value = std::max(value, std::abs(row[key].get<double>()));
  }
  const std::string html = read_text(folder.file("page.html")), markdown = read_text(folder.file("page.md"));
  const Json& subs = json["sets"][0]["sub_targets"];
  const std::pair<const char*, double> expected[] = {{"forward alone, worst row", worst["forward_error_pct"]},
                                                     {"backward alone, worst row", worst["backward_error_pct"]}};
  ASSERT_EQ(subs.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto& [name, value] = expected[i];
    const bool met = value <= 6;
    EXPECT_EQ(subs[i], Json({{"name", name}, {"rows", 5}, {"value", value}, {"bound", 6.0}, {"met", met}}));
    const Json& missed = json["sets"][0]["missed_goals"];
    EXPECT_EQ(std::find(missed.begin(), missed.end(), name) == missed.end(), met) << missed;
    EXPECT_NE(markdown.find(fmt::format("| – {} | | 5 | | {:.1f} | ≤ 6.0 |", name, value)), std::string::npos) << markdown;
    EXPECT_NE(html.find(fmt::format("– {}<td><td>5<td class={}>{:.1f}<td>≤ 6.0", name, met ? "met" : "missed", value)), std::string::npos);
    EXPECT_NE(run.out.find(fmt::format("  {} ", name)), std::string::npos) << run.out;
  }
  std::size_t dots = 0;
  for (std::size_t at = html.find("class=dot>"); at != std::string::npos; at = html.find("class=dot>", at + 1)) ++dots;
  EXPECT_EQ(dots, 9u * 5);  // predicted against published, and eight residuals
}

// On one node of tensor ranks: what only replicas or a pipeline do is worth nothing, and every set has every effect.
TEST(AccuracyVerb, AblationSaysWhatEachEffectIsWorth) {
  const TemporaryFolder folder;
  std::string rows = kRows;  // wide enough for the device, not the host, to be what a step waits for
  rows.replace(rows.find("1024, \"heads\": 16"), 17, "8192, \"heads\": 64");
  write_text(folder.file("rows.json"), rows);
  const Finished run = accuracy(folder, {"--rows", folder.file("rows.json"), "--ablate", "--json", "-", "--html",
                                         folder.file("page.html"), "--markdown", folder.file("page.md")});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = parse_json(run.out, "output");
  const double predicted = json["rows"][0]["predicted"]["iteration_s"].get<double>();
  std::map<std::string, double> change;
  for (const Json& row : json["ablation"]) {
    EXPECT_EQ(row["rows"], 1);
    EXPECT_NEAR(row["base_bias_pct"].get<double>(), 100 * (predicted / 0.05 - 1), 1e-9);
    const double step = row["step_change_pct"].get<double>();
    change[row["effect"]] = step;
    EXPECT_NEAR(row["bias_pct"].get<double>(), 100 * (predicted * (1 + step / 100) / 0.05 - 1), 1e-9);
  }
  for (const char* free : {"launches cost nothing", "communication costs nothing", "head and loss cost nothing", "optimizer costs nothing"}) {
    ASSERT_TRUE(change.contains(free)) << free;
    EXPECT_LE(change[free], 0) << free;
  }
  EXPECT_LT(change["communication costs nothing"], -1);
  EXPECT_GT(change["input gradients' collectives exposed"] - change["input gradients' collectives hidden"], 0);
  for (const char* apart : {"gradient reduction hidden", "gradient reduction exposed", "no interleaving"}) EXPECT_EQ(change[apart], 0) << apart;
  for (const char* file : {"page.html", "page.md"}) {
    const std::string page = read_text(folder.file(file));
    for (const auto& [effect, step] : change) {
      const std::string name = effect.substr(effect.find("collectives") == std::string::npos ? 0 : effect.find("collectives"));
      EXPECT_NE(page.find(name), std::string::npos) << file << ": " << effect;
    }
  }
  const std::string command = "`benchsuite accuracy --rows " + folder.file("rows.json") + " --ablate --json - --html ";
  EXPECT_NE(read_text(folder.file("page.md")).find(command), std::string::npos) << "as given";
}

TEST(AccuracyVerb, TablesWithNothingInThemAreNotPrinted) {
  const TemporaryFolder folder;
  Json rows = parse_json(kRows, "rows");
  const auto run = [&] {
    write_text(folder.file("rows.json"), rows.dump());
    const Finished made = accuracy(folder, {"--rows", folder.file("rows.json"), "--html", folder.file("page.html"), "--markdown",
                                            folder.file("page.md")});
    EXPECT_EQ(made.exit_code, 0) << made.err;
    return made.out + read_text(folder.file("page.html")) + read_text(folder.file("page.md"));
  };
  const char* const unmapped[] = {"not mapped because", "Rows that are not mapped", "| rows not mapped |"};
  const std::string all = run();
  for (const char* title : unmapped) EXPECT_NE(all.find(title), std::string::npos) << title;
  EXPECT_NE(all.find("misses of its goals"), std::string::npos) << "a row of Korthikanti Table 5 with a time out of reach";
  rows = Json::array({rows[0]});
  rows[0]["id"] = "mine";
  const std::string one = run();
  for (const char* title : unmapped) EXPECT_EQ(one.find(title), std::string::npos) << title;
  for (const char* title : {"misses of its goals", "What is left"}) EXPECT_EQ(one.find(title), std::string::npos) << title;
}

TEST(AccuracyVerb, EnsemblesRepeatBySeed) {
  const TemporaryFolder folder;
  write_text(folder.file("rows.json"), kRows);
  const auto interval = [&](const char* seed) {
    const Finished run = accuracy(folder, {"--rows", folder.file("rows.json"), "--ensemble", "40", "--seed", seed, "--json", "-"});
    return parse_json(run.out, "output")["rows"][0]["interval"];
  };
  EXPECT_EQ(interval("1"), interval("1"));
  EXPECT_NE(interval("1"), interval("2"));
}

TEST(AccuracyVerb, ExitCodes) {
  const TemporaryFolder folder;
  write_text(folder.file("rows.json"), kRows);
  write_text(folder.file("broken.json"), "[{");
  write_text(folder.file("other.json"), "{}");
  write_text(folder.file("moe.json"), R"([{"id": "a", "model": {"family": "moe"}}])");
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("missing.json")}).exit_code, 2);
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("broken.json")}).exit_code, 2);
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("other.json")}).exit_code, 2);
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("rows.json"), "--source", "nobody"}).exit_code, 4);
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("rows.json"), "--source", "kORTHikanti table 5"}).exit_code, 0);
  EXPECT_EQ(accuracy(folder, {"--rows", folder.file("moe.json")}).exit_code, 5);
  EXPECT_EQ(accuracy(folder, {"--ensemble", "0"}).exit_code, 2);
  const Finished missing = accuracy(folder, {"--rows", folder.file("missing.json")});
  EXPECT_NE(missing.err.find("missing.json"), std::string::npos);
}

TEST(AccuracyVerb, IntervalsAreTheSameOnAnyNumberOfThreads) {
  const TemporaryFolder folder;
  const auto rows_on = [&](const char* jobs, const char* seed) {
    const Finished run = accuracy(folder, {"--source", "Korthikanti Table 5", "--ensemble", "6", "--seed", seed, "--jobs", jobs,
                                           "--json", "-"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return parse_json(run.out, "output")["rows"];
  };
  const Json one = rows_on("1", "3");
  ASSERT_EQ(one.size(), 8u);
  for (const Json& row : one) EXPECT_LT(row["interval"][0].get<double>(), row["interval"][1].get<double>()) << row["id"];
  EXPECT_EQ(rows_on("3", "3"), one);
  EXPECT_NE(rows_on("3", "4"), one);
}

}  // namespace
}  // namespace benchsuite
