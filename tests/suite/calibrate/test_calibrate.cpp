// calibrate: the fit against its own formula, and verdicts on shortened public tables of healthy and broken clusters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "suite/calibrate/calibrate.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::vector<CollectiveRow> rows_of(double a, double busbw, double c, double factor) {
  std::vector<CollectiveRow> rows;
  for (std::int64_t size = 512; size <= (std::int64_t{1} << 30); size *= 4) {
    CollectiveRow row;
    row.size = size;
    row.out_of_place_s = a + static_cast<double>(size) * factor / busbw + c * std::sqrt(static_cast<double>(size));
    rows.push_back(row);
  }
  return rows;
}

TEST(CollectiveFit, FindsTheConstantsThatMadeTheRows) {
  for (const double c : {0.0, 10e-9, 100e-9}) {
    const auto fit = fit_collective(rows_of(15e-6, 480e9, c, 1.75), 1.75);
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->a_s, 15e-6, 15e-9) << c;
    EXPECT_NEAR(fit->busbw, 480e9, 2e9) << c;
    EXPECT_NEAR(fit->c_s, c, 0.2e-9);
    EXPECT_LT(fit->p90_error, 1e-3);
    EXPECT_EQ(fit->rows, 11u);
  }
}

TEST(CollectiveFit, ADisturbedRowDoesNotBendIt) {
  auto rows = rows_of(20e-6, 200e9, 20e-9, 1.75);
  rows[3].out_of_place_s *= 20;
  const auto fit = fit_collective(rows, 1.75);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->a_s, 20e-6, 2e-6);
  EXPECT_NEAR(fit->busbw, 200e9, 10e9);
}

TEST(CollectiveFit, RefusesWhatCannotTellThreeTermsApart) {
  auto rows = rows_of(20e-6, 200e9, 0, 1.75);
  rows.resize(4);
  EXPECT_FALSE(fit_collective(rows, 1.75));
  std::vector<CollectiveRow> close(6);
  for (int i = 0; i < 6; ++i) {
    close[i].size = (4 + i) << 20;
    close[i].out_of_place_s = 1e-3;
  }
  EXPECT_FALSE(fit_collective(close, 1.75));
}

/// A committed profile with another node and fabric: the judgement is tested, not which profiles exist.
HardwareProfile profile(const std::string& name, int gpus, int nics, double gigabytes) {
  HardwareProfile p = load_hardware(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/" + name + ".json");
  p.gpus_per_node = gpus;
  p.nics_per_node = nics;
  p.nic_bandwidth = gigabytes * 1e9;
  return p;
}
// NVIDIA/nccl-tests issues 119 and 290: usable 24 GB/s of a 200 Gb/s NIC, 12 of 100, 47 of 400.
HardwareProfile a100() { return profile("dgx-a100-80g", 8, 8, 24); }
HardwareProfile h100() { return profile("dgx-h100", 8, 8, 47); }

struct Measured {
  std::int64_t size;
  double microseconds, algbw, busbw;  ///< out of place, as printed
};

/// An all_reduce of floats in the layout without root.
std::string all_reduce_log(const std::vector<Measured>& rows) {
  std::string text;
  char line[200];
  for (const Measured& r : rows) {
    std::snprintf(line, sizeof line, "%12lld %12lld float sum %.6g %.2f %.2f N/A %.6g %.2f %.2f N/A\n",
                  static_cast<long long>(r.size), static_cast<long long>(r.size / 4), r.microseconds, r.algbw, r.busbw,
                  r.microseconds, r.algbw, r.busbw);
    text += line;
  }
  return text;
}

Judgement judge(const std::vector<Measured>& rows, const HardwareProfile& hardware,
                const ReadingOptions& options = {}) {
  const NcclTestsFile file = read_nccl_tests(all_reduce_log(rows), "log");
  EXPECT_EQ(file.tables.size(), 1u);
  return judge_table(file.tables.at(0), options, &hardware);
}

// NVIDIA/deepops, docs/k8s-cluster/nvidia-network-operator.md: 2 DGX A100, 8 x 200 Gb/s; excerpt.
const std::vector<Measured> kTwoDgxA100 = {{8, 38.63, 0.00, 0.00},
                                           {1024, 40.97, 0.02, 0.05},
                                           {16777216, 301.9, 55.57, 104.19},
                                           {1073741824, 11085, 96.87, 181.62},
                                           {4294967296, 42715, 100.55, 188.53}};

TEST(Verdict, HealthyTwoNodes) {
  const Judgement judgement = judge(kTwoDgxA100, a100());
  EXPECT_TRUE(judgement.judged);
  EXPECT_TRUE(judgement.healthy()) << judgement.findings.front().text;
  EXPECT_EQ(judgement.reading.ranks, 16);
  EXPECT_EQ(judgement.reading.nodes, 2);
}

/// The same cluster with every message `times` as long.
std::vector<Measured> slower(std::vector<Measured> rows, double times, std::int64_t from = 0) {
  for (Measured& row : rows) {
    if (row.size < from) continue;
    row.microseconds *= times;
    row.algbw = static_cast<double>(row.size) / row.microseconds / 1e3;
    row.busbw = row.algbw * 2 * 15 / 16;
  }
  return rows;
}

std::string first_code(const Judgement& judgement) {
  return judgement.healthy() ? "healthy" : judgement.findings.front().code;
}

TEST(Verdict, NamesHowMuchOfTheBandwidthIsLeft) {
  // Large messages only: the small ones stay as they are, so that nothing but the plateau is off.
  const std::int64_t from = 1 << 20;
  EXPECT_EQ(first_code(judge(slower(kTwoDgxA100, 1.2, from), a100())), "healthy");
  EXPECT_EQ(first_code(judge(slower(kTwoDgxA100, 2, from), a100())), "half-bandwidth");
  EXPECT_EQ(first_code(judge(slower(kTwoDgxA100, 8, from), a100())), "few-nics");  // 24 GB/s: one NIC of eight
  EXPECT_EQ(first_code(judge(slower(kTwoDgxA100, 40, from), a100())), "no-rdma");
  EXPECT_THAT(judge(slower(kTwoDgxA100, 8, from), a100()).findings.front().text, HasSubstr("what 1 of 8 NICs carry"));
}

TEST(Verdict, LatencyFloorAloneIsEnough) {
  auto rows = kTwoDgxA100;
  for (Measured& row : rows)
    if (row.size <= 16384) row.microseconds *= 20;
  EXPECT_EQ(first_code(judge(rows, a100())), "latency-floor");
}

TEST(Verdict, WrongElementsAreUnhealthyWhateverTheSpeed) {
  NcclTestsFile file = read_nccl_tests(all_reduce_log(kTwoDgxA100), "log");
  file.tables[0].rows[2].wrong = 12;
  const HardwareProfile hardware = a100();
  const Judgement judgement = judge_table(file.tables[0], {}, &hardware);
  EXPECT_EQ(first_code(judgement), "wrong-results");
  EXPECT_THAT(judgement.findings[0].text, HasSubstr("12 wrong elements at 16.0 MiB"));
}

// The four public raw tables of broken clusters, shortened.

TEST(Verdict, IpoibInsteadOfRdma) {
  // Azure/aks-rdma-infiniband, tests/expected-output.md section 3.1: 2 nodes of 8 x 200 Gb/s, TCP over IPoIB.
  const Judgement judgement = judge({{8, 82.21, 0.00, 0.00},
                                     {2048, 92.53, 0.02, 0.04},
                                     {8388608, 5563.0, 1.51, 2.83},
                                     {536870912, 320846, 1.67, 3.14},
                                     {2147483648, 1270070, 1.69, 3.17},
                                     {8589934592, 5111454, 1.68, 3.15}},
                                    a100());
  EXPECT_EQ(first_code(judgement), "no-rdma");
  EXPECT_EQ(judgement.reading.ranks, 16);
}

TEST(Verdict, SocketsOnSlingshot) {
  // eth-cscs/cscs-docs, docs/software/communication/nccl.md: 2 nodes of 4 GH200, 4 x 200 Gb/s, without the network
  // plugin.
  const Judgement judgement = judge({{8, 85.47, 0.00, 0.00},
                                     {16384, 108.7, 0.15, 0.26},
                                     {8388608, 2437.7, 3.44, 6.02},
                                     {16777216, 5036.9, 3.33, 5.83},
                                     {33554432, 17388, 1.93, 3.38},
                                     {67108864, 21253, 3.16, 5.53},
                                     {134217728, 43293, 3.10, 5.43}},
                                    profile("dgx-h100", 4, 4, 24));
  EXPECT_EQ(first_code(judgement), "no-rdma");
  EXPECT_EQ(judgement.reading.nodes, 2);
  EXPECT_THAT(judgement.notes, testing::Contains(HasSubstr("dip at 32.0 MiB")));
  // The same nodes as they should be.
  EXPECT_EQ(
      first_code(judge({{8, 17.93, 0.00, 0.00}, {33554432, 686.5, 48.88, 85.54}, {134217728, 1916.4, 70.04, 122.57}},
                       profile("dgx-h100", 4, 4, 24))),
      "healthy");
}

TEST(Verdict, CollapseAcrossRacks) {
  // NVIDIA/nccl issue 1453: 3 nodes of 8 H100 on two racks; falls from 29.5 to 5.3 GB/s at 64 MiB.
  const Judgement judgement = judge({{8388608, 992.6, 8.45, 16.20},
                                     {16777216, 1334.9, 12.57, 24.09},
                                     {33554432, 2180.1, 15.39, 29.50},
                                     {67108864, 24410, 2.75, 5.27},
                                     {134217728, 49264, 2.72, 5.22},
                                     {536870912, 193909, 2.77, 5.31}},
                                    h100());
  EXPECT_EQ(first_code(judgement), "cliff");
  EXPECT_THAT(judgement.findings[0].text, HasSubstr("cliff at 64.0 MiB"));
  EXPECT_EQ(judgement.reading.ranks, 24);
}

TEST(Verdict, EightV100NodesOnOneSlowLink) {
  // NVIDIA/nccl-tests issue 78: 8 nodes of 8 V100, one 100 Gb/s link each; all_reduce and alltoall.
  const NcclTestsFile file = read_nccl_tests(
      "   268435456     67108864     float   sum      122131   2.20   4.33  2e-06  122165  2.20  4.33  2e-06\n"
      "   536870912    134217728     float   sum      244833   2.19   4.32  2e-06  244844  2.19  4.32  2e-06\n"
      "   268435456      1048576     float     -      520935   0.52   0.51  0e+00  519562  0.52  0.51  1e+00\n"
      "   536870912      2097152     float     -     1041974   0.52   0.51  0e+00 1041299  0.52  0.51  1e+00\n",
      "log");
  const HardwareProfile hardware = profile("dgx-a100-80g", 8, 1, 12);
  ASSERT_EQ(file.tables.size(), 2u);
  for (const CollectiveTable& table : file.tables) {
    const Judgement judgement = judge_table(table, {}, &hardware);
    EXPECT_EQ(first_code(judgement), "no-rdma");
    EXPECT_EQ(judgement.reading.ranks, 64);
    EXPECT_EQ(judgement.reading.nodes, 8);
  }
}

TEST(Verdict, NeedsNoProfileForACliffAndNoneWithout) {
  const NcclTestsFile healthy = read_nccl_tests(all_reduce_log(kTwoDgxA100), "log");
  const Judgement judgement = judge_table(healthy.tables.at(0), {}, nullptr);
  EXPECT_FALSE(judgement.judged);
  EXPECT_TRUE(judgement.healthy());
  const auto rows = slower(kTwoDgxA100, 30, 1 << 30);
  const NcclTestsFile fallen = read_nccl_tests(all_reduce_log(rows), "log");
  EXPECT_EQ(first_code(judge_table(fallen.tables.at(0), {}, nullptr)), "cliff");
}

TEST(Verdict, AnOddCountThatNobodyMeasuredIsNotJudged) {
  // VIA-Research/vTrain traces: 5 V100 of a node without switch, half of what 4 reach. busbw / algbw = 1.6.
  const Judgement judgement = judge({{std::int64_t{1} << 29, 23156, 23.18, 37.10}}, a100());
  EXPECT_EQ(judgement.reading.ranks, 5);
  EXPECT_FALSE(judgement.judged);
  EXPECT_THAT(judgement.notes, testing::Contains(HasSubstr("was not measured with 5 GPUs")));
}

TEST(Reading, AsksWhereTheDataCannotTell) {
  const HardwareProfile hardware = h100();
  // Small messages print too few digits for a ratio.
  const NcclTestsFile small = read_nccl_tests(all_reduce_log({{8, 72.0, 0.00, 0.00}, {1024, 76.8, 0.01, 0.03}}), "log");
  EXPECT_THROW(judge_table(small.tables.at(0), {}, &hardware), Error);
  EXPECT_EQ(judge_table(small.tables.at(0), {"", 128, 0}, &hardware).reading.nodes, 16);
  // NVIDIA/nccl-tests issue 232: 2 ranks at one NIC's rate are two nodes that are well, or one node that is not.
  const std::vector<Measured> pair = {{4194304, 154.4, 27.16, 27.16}, {33554432, 812.3, 41.31, 41.31}};
  try {
    judge(pair, hardware);
    FAIL() << "nothing asked";
  } catch (const Error& error) {
    EXPECT_EQ(error.violations().at(0).key, "--nodes");
  }
  EXPECT_EQ(first_code(judge(pair, hardware, {"", 0, 2})), "healthy");
  EXPECT_EQ(first_code(judge(pair, hardware, {"", 0, 1})), "no-nvlink");
}

TEST(Reading, ABrokenNodeIsNotTakenForManyHealthyOnes) {
  // microsoft/superbenchmark tests/data, all_reduce on 8 A100 of one node: 235 GB/s; here at half of it. Eight nodes
  // with one GPU each could reach 24 GB/s only: that this is more makes them no better an explanation.
  const Judgement judgement =
      judge({{1 << 30, 16000, 67.11, 117.44}, {std::int64_t{1} << 33, 127792, 67.22, 117.63}}, a100());
  EXPECT_EQ(first_code(judgement), "half-bandwidth");
  EXPECT_EQ(judgement.reading.nodes, 1);
}

TEST(Reading, TheHeaderAndOptionsBeforeTheRatio) {
  CollectiveTable table = read_nccl_tests(all_reduce_log(kTwoDgxA100), "log").tables.at(0);
  const HardwareProfile hardware = a100();
  table.nodes = 4;
  EXPECT_EQ(readings_of(table, {}, &hardware).front().nodes, 4);
  EXPECT_EQ(readings_of(table, {"", 0, 8}, &hardware).front().nodes, 8);
  EXPECT_EQ(readings_of(table, {"reduce_scatter", 0, 0}, &hardware).front().op, "reduce_scatter");
  EXPECT_THROW(readings_of(table, {"", 0, 32}, &hardware), Error);
}

}  // namespace
}  // namespace benchsuite
