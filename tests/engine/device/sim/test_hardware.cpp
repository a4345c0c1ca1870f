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
  EXPECT_GE(count, 5);
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
  EXPECT_EQ(load_hardware(profile_path("dgx-h100-1x100g")).nics_per_node, 1);
}

TEST(Hardware, RatesStayBelowTheDatasheet) {
  for (const char* name : {"dgx-a100-80g", "dgx-h100", "dgx-h100-8x100g", "dgx-h100-1x100g"}) {
    const HardwareProfile p = load_hardware(profile_path(name));
    const double peak = p.peak_flops.at(DType::bf16);
    for (const AttentionPoint& point : p.attention) {
      EXPECT_LT(point.forward_tflops * 1e12, peak);
      EXPECT_LT(point.backward_tflops * 1e12, peak);
    }
    for (const CollectiveFit& fit : p.intra_node) {
      // In-switch reduction sends an all_reduce's bytes once, so its busbw may pass the link rate by its factor.
      const double factor = fit.op == "all_reduce" ? 2.0 * (fit.ranks - 1) / fit.ranks : 1.0;
      EXPECT_LE(fit.busbw, p.nvlink_bandwidth * factor * 1.0001) << fit.op << fit.ranks;
    }
  }
}

TEST(Hardware, BadProfileListsEveryProblem) {
  Json json = parse_json_file(profile_path("dgx-h100"));
  json["gpus_per_nod"] = 8;
  json["sm_count"]["value"] = 1.5;
  json["memory_bandwidth"]["unit"] = "TB/s";
  json["gemm"]["k_ramp"].erase("value");
  json["gemm"]["memory_share"]["value"] = 1.5;
  json["gemm"]["floor"]["source"] = "hearsay";
  json["memory_ops"]["shares"]["gellu"] = json["memory_ops"]["shares"]["gelu"];
  json["memory_ops"]["shares"]["dropout"].erase("reason");
  json["attention"]["points"][0]["seq"] = 0;
  json["nvlink"]["collectives"][0]["op"] = "all_gathr";
  json["fabric"]["nics_per_node"]["value"] = 9;
  json["free_sites"] = {"heads"};
  std::vector<Violation> problems;
  read_hardware(json, "bad.json", problems);
  std::string all;
  for (const Violation& problem : problems) all += to_string(problem) + "\n";
  for (const char* text : {"gpus_per_nod", "sm_count = ", "memory_bandwidth.unit", "gemm.k_ramp.value",
                           "gemm.memory_share.value = 1.5", "\"hearsay\" is not a key", "memory_ops.shares.gellu",
                           "did you mean \"gelu\"", "memory_ops.shares.dropout.reason", "attention.points[0].seq",
                           "did you mean \"all_gather\"", "more NICs than GPUs", "did you mean \"head\""}) {
    EXPECT_THAT(all, HasSubstr(text));
  }
  EXPECT_EQ(problems.size(), 12u) << all;
  for (const Violation& problem : problems) {
    EXPECT_EQ(problem.file, "bad.json");
    EXPECT_FALSE(problem.remedy.empty());
  }
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
