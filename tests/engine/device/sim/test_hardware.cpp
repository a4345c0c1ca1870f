// Profiles: the committed files load and say where every constant comes from; a bad file lists everything wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "engine/device/sim/hardware.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;

std::string profile_path(const std::string& name) {
  return std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/" + name + ".json";
}

/// Every object with a "value" must have a unit and a source; a fitted one its error and rows.
void expect_sourced(const Json& node, const std::string& path) {
  if (!node.is_structured()) return;
  if (node.is_object() && node.contains("value")) {
    EXPECT_TRUE(node.contains("unit") && node.contains("source")) << path;
    if (node.contains("fit_error")) {
      EXPECT_TRUE(node.contains("rows")) << path;
    }
  }
  for (const auto& [key, child] : node.items()) expect_sourced(child, path + "." + key);
}

TEST(Hardware, EveryCommittedProfileLoads) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(BENCHSUITE_SOURCE_DIR "/cases/hardware")) {
    const HardwareProfile p = load_hardware(entry.path().string());
    EXPECT_EQ(p.name, entry.path().stem().string());
    expect_sourced(p.raw, p.name);
    ++count;
  }
  EXPECT_EQ(count, 1 + 5 * 10 + 1 + 4);
}

// Datasheet values, and the fabrics by definition: 8 x 24 GB/s, 8 x 47, 8 x 12, 1 x 12.
TEST(Hardware, DatasheetValues) {
  const HardwareProfile a100 = load_hardware(profile_path("dgx-a100-80g"));
  EXPECT_DOUBLE_EQ(a100.peak_flops.at(DType::bf16), 312e12);
  EXPECT_EQ(a100.sm_count, 108);
  EXPECT_DOUBLE_EQ(a100.memory_bandwidth, 2039e9);
  EXPECT_EQ(a100.memory_bytes, std::int64_t{80} << 30);
  EXPECT_DOUBLE_EQ(a100.nics_per_node * a100.nic_bandwidth, 8 * 24e9);
  EXPECT_EQ(a100.collective_sm_permille, 150);
  EXPECT_EQ(a100.inter_node_sm_permille, 20);
  const HardwareProfile h100 = load_hardware(profile_path("dgx-h100"));
  EXPECT_DOUBLE_EQ(h100.peak_flops.at(DType::bf16), 989.4e12);
  EXPECT_EQ(h100.sm_count, 132);
  EXPECT_DOUBLE_EQ(h100.nics_per_node * h100.nic_bandwidth, 8 * 47e9);
  EXPECT_DOUBLE_EQ(load_hardware(profile_path("dgx-h100-8x100g")).nic_bandwidth, 12e9);
  EXPECT_DOUBLE_EQ(load_hardware(profile_path("dgx-a100-80g-4x400g")).nic_bandwidth, 47e9);
  EXPECT_EQ(load_hardware(profile_path("dgx-a100-80g-4x400g")).nics_per_node, 4);
  EXPECT_DOUBLE_EQ(load_hardware(profile_path("dgx-a100-40g")).memory_bandwidth, 1555e9);
  EXPECT_DOUBLE_EQ(load_hardware(profile_path("dgx-h200")).memory_bandwidth, 4800e9);
  EXPECT_DOUBLE_EQ(load_hardware(profile_path("hgx-b200")).peak_flops.at(DType::bf16), 2250e12);
  EXPECT_EQ(load_hardware(profile_path("gb200-nvl72")).gpus_per_node, 72);
  EXPECT_EQ(load_hardware(profile_path("dgx-2-v100")).gpus_per_node, 16);
  EXPECT_EQ(load_hardware(profile_path("v100-1x100g")).nics_per_node, 1);
  EXPECT_EQ(load_hardware(profile_path("gh200-4x200g")).gpus_per_node, 4);
  EXPECT_EQ(load_hardware(profile_path("dgx-h100-1x100g")).nics_per_node, 1);
}

// FlashAttention-2 on H100 reaches 0.55 to 0.6 of cuDNN's rate (FlashAttention-3's figure, causal, head size 128: 298 of 484
// TFLOP/s forward at 2,048, 335 of 539 at 16,384).
TEST(Hardware, H100HasTheFlashAttentionOfEarlierSoftware) {
  const HardwareProfile p = load_hardware(profile_path("dgx-h100"));
  const auto forward = [](const std::vector<AttentionRate>& rates, std::int64_t seq) {
    for (const AttentionRate& rate : rates) {
      if (rate.causal && rate.head_dim == 128) return rate.forward.at(seq);
    }
    return 0.0;
  };
  const auto& second = p.other_attention.at("flash-attention-2");
  EXPECT_NEAR(forward(second, 2048) / forward(p.attention, 2048), 298.0 / 484.0, 0.03);
  EXPECT_NEAR(forward(second, 16384) / forward(p.attention, 16384), 335.0 / 539.0, 0.03);
  EXPECT_TRUE(p.other_attention.contains("flash-attention-1"));
}

TEST(Hardware, RatesStayBelowTheDatasheet) {
  for (const char* name : {"dgx-a100-80g", "dgx-h100", "dgx-h200", "hgx-b200", "gb200-nvl72", "dgx-2-v100"}) {
    const HardwareProfile p = load_hardware(profile_path(name));
    const double peak = p.peak_flops.at(DType::fp16);
    EXPECT_GT(p.host_eager_s, p.host_library_s) << name;
    EXPECT_GT(p.host_library_s, 0) << name;
    for (const AttentionRate& rate : p.attention) {
      EXPECT_LT(rate.forward.rate, peak);
      EXPECT_LT(rate.backward.rate, peak);
    }
    for (const CollectiveFit& fit : p.intra_node) {
      // In-switch reduction sends an all_reduce's bytes once, so its busbw may pass the link rate by its factor.
      const double factor = fit.op == "all_reduce" && fit.algorithm == "nvls" ? 2.0 * (fit.ranks - 1) / fit.ranks : 1.0;
      EXPECT_LE(fit.busbw, p.nvlink_bandwidth * factor * 1.0001) << fit.op << fit.ranks;
    }
  }
}

TEST(Hardware, BadProfileListsEveryProblem) {
  Json json = parse_json_file(profile_path("dgx-h100"));
  json["gpus_per_nod"] = 8;
  json["sm_count"]["value"] = 1.5;
  json["memory_bandwidth"]["unit"] = "TB/s";
  json["gemm"]["floor"].erase("value");
  json["gemm"]["memory_share"]["value"] = 1.5;
  json["gemm"]["memory_share"]["source"] = "hearsay";
  json["gemm"]["surface"]["log2_k"][0] = 99;
  json["gemm"]["burst_efficiency"]["range"] = {0.9, 0.95};
  json["memory_ops"]["shares"]["gellu"] = json["memory_ops"]["shares"]["gelu"];
  json["memory_ops"]["shares"]["dropout"].erase("reason");
  json["attention"]["rates"][0]["head_dim"] = 0;
  json["nvlink"]["collectives"][0]["op"] = "all_gathr";
  json["fabric"]["nics_per_node"]["value"] = 9;
  json["free_sites"] = {"heads"};
  std::vector<Violation> problems;
  read_hardware(json, "bad.json", problems);
  std::string all;
  for (const Violation& problem : problems) all += to_string(problem) + "\n";
  for (const char* text : {"gpus_per_nod", "sm_count = ", "memory_bandwidth.unit", "gemm.floor.value", "log2_k",
                           "gemm.burst_efficiency.range", "gemm.memory_share.value = 1.5", "\"hearsay\" is not a key", "memory_ops.shares.gellu",
                           "did you mean \"gelu\"", "memory_ops.shares.dropout.reason", "attention.rates[0].head_dim",
                           "did you mean \"all_gather\"", "more NICs than GPUs", "did you mean \"head\""}) {
    EXPECT_THAT(all, HasSubstr(text));
  }
  EXPECT_EQ(problems.size(), 14u) << all;
  for (const Violation& problem : problems) {
    EXPECT_EQ(problem.file, "bad.json");
    EXPECT_FALSE(problem.remedy.empty());
  }
}

// How good the fits are on rows that they did not see: the aims, and where a table is too irregular for them, what is
// reached. A profile that misses an aim says, in a note with numbers, what its rows allow at best.
TEST(Hardware, HeldBackErrors) {
  struct Limit {
    const char* name;
    std::vector<double> gemm, attention, inside, between;
  };
  const std::vector<double> gemm{0.03, 0.12}, attention{0.05, 0.15}, inside{0.05, 0.15}, between{0.12, 0.25};
  const std::vector<Limit> limits{
      {"dgx-a100-80g", gemm, attention, inside, between},
      {"dgx-h100", gemm, attention, inside, between},
      {"dgx-h200", gemm, attention, {0.05, 0.2}, between},
      {"hgx-b200", {0.04, 0.12}, attention, inside, between},
      {"gb200-nvl72", {0.05, 0.22}, attention, inside, between},
      {"gh200-4x200g", gemm, attention, {0.05, 0.2}, {0.12, 0.27}},
      {"v100-1x100g", {0.04, 0.12}, attention, inside, {0.12, 0.35}}};
  for (const Limit& limit : limits) {
    const Json raw = load_hardware(profile_path(limit.name)).raw;
    const auto check = [&](const Json& section, const std::vector<double>& most, const std::vector<double>& aim,
                           const char* what) {
      const double median = section["held_back"]["median"].get<double>();
      const double p90 = section["held_back"]["p90"].get<double>();
      EXPECT_GE(section["held_back"]["rows"].get<int>(), 3) << limit.name << " " << what;
      EXPECT_LE(median, most[0]) << limit.name << " " << what;
      EXPECT_LE(p90, most[1]) << limit.name << " " << what;
      if (median <= aim[0] && p90 <= aim[1]) return;
      EXPECT_THAT(section.value("note", ""), HasSubstr("% (median)")) << limit.name << " " << what;
    };
    check(raw["gemm"], limit.gemm, gemm, "gemm");
    check(raw["attention"], limit.attention, attention, "attention");
    check(raw["nvlink"], limit.inside, inside, "collectives inside a node");
    check(raw["fabric"]["ring"], limit.between, between, "collectives between nodes");
  }
}

// What a draw errs by: other machines where there are any, else rows held back, else those of the fit.
TEST(Hardware, ErrorsAreThoseOfTheRowsFarthestFromTheFit) {
  Json json = parse_json_file(profile_path("dgx-h100"));
  json["gemm"]["fit_error"] = {{"median", 0.01}, {"p90", 0.02}};
  json["gemm"]["held_back"] = {{"rows", 9}, {"median", 0.03}, {"p90", 0.04}};
  json["gemm"]["other_machines"] = {
      {"rows", 9}, {"median", 0.05}, {"p90", 0.06}, {"of_size", {{"median", 0.07}, {"p90", 0.08}}}};
  std::vector<Violation> problems;
  const auto expect = [&](double median, double p90, double size_median, double size_p90) {
    const ModelError error = read_hardware(json, profile_path("dgx-h100"), problems).gemm.error;
    EXPECT_EQ(error.median, median);
    EXPECT_EQ(error.p90, p90);
    EXPECT_EQ(error.size_median, size_median);
    EXPECT_EQ(error.size_p90, size_p90);
  };
  expect(0.05, 0.06, 0.07, 0.08);
  json["gemm"].erase("other_machines");
  expect(0.03, 0.04, 0, 0);
  json["gemm"].erase("held_back");
  expect(0.01, 0.02, 0, 0);
  EXPECT_TRUE(problems.empty());
}

TEST(Hardware, AVariantIsItsBaseWithAnotherFabric) {
  const Json base = load_hardware(profile_path("dgx-h100")).raw;
  const Json variant = load_hardware(profile_path("dgx-h100-1x100g")).raw;
  EXPECT_EQ(variant["gemm"], base["gemm"]);
  EXPECT_EQ(variant["nvlink"], base["nvlink"]);
  EXPECT_NE(variant["fabric"]["nics_per_node"], base["fabric"]["nics_per_node"]);
  EXPECT_EQ(variant["name"], "dgx-h100-1x100g");

  std::vector<Violation> problems;
  const Json lost = {{"name", "x"}, {"based_on", "dgx-h1000"}};
  read_hardware(lost, profile_path("x"), problems);
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0].key, "based_on");
  EXPECT_THAT(problems[0].remedy, HasSubstr("same folder"));
}

TEST(Hardware, EmptyObjectNamesWhatIsMissing) {
  std::vector<Violation> problems;
  read_hardware(Json::object(), "empty.json", problems);
  std::string all;
  for (const Violation& problem : problems) all += problem.key + " ";
  for (const char* key : {"name", "title", "gpu", "sources", "gpus_per_node", "sm_count", "memory", "memory_bandwidth",
                          "peak", "gemm", "memory_ops", "nvlink"})
    EXPECT_THAT(all, HasSubstr(key));
}

}  // namespace
}  // namespace benchsuite
