// Reading nccl-tests: every layout it has printed, and what the rows alone say about collective and ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suite/calibrate/nccl_tests.h"
#include "suite/report/format.h"

namespace benchsuite {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CollectiveTable only_table(const std::string& text) {
  const NcclTestsFile file = read_nccl_tests(text, "log");
  EXPECT_EQ(file.tables.size(), 1u);
  return file.tables.empty() ? CollectiveTable{} : file.tables.front();
}

// Since 2022: root column, #wrong. 8 ranks: busbw / algbw = 2 (n - 1) / n = 1.75.
const char* const kNew =
    "# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 "
    "validation: 1 graph: 0\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid 100 on node01 device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 101 on node01 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  2 Group  0 Pid 102 on node02 device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  3 Group  0 Pid 103 on node02 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
    "     1048576        262144     float     sum      -1    40.00   26.21   39.32      0    50.00   20.97   31.46     "
    " 0\n"
    "     2097152        524288     float     sum      -1    60.00   34.95   52.43      3    55.00   38.13   57.20     "
    " 0\n"
    "# Out of bounds values : 1 FAILED\n"
    "# Avg bus bandwidth    : 45.1\n";

TEST(NcclTests, NewLayoutWithHeader) {
  const CollectiveTable table = only_table(kNew);
  EXPECT_THAT(table.op_candidates, ElementsAre("all_reduce"));
  EXPECT_EQ(table.ranks_low, 4);
  EXPECT_EQ(table.ranks_high, 4);
  EXPECT_EQ(table.nodes, 2);
  EXPECT_EQ(table.gpu, "NVIDIA H100 80GB HBM3");
  EXPECT_THAT(table.software, HasSubstr("2.17.6"));
  EXPECT_EQ(table.out_of_bounds, true);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].size, 1048576);
  EXPECT_DOUBLE_EQ(table.rows[0].best_s(), 40e-6);
  EXPECT_DOUBLE_EQ(table.rows[1].best_s(), 55e-6);
  EXPECT_DOUBLE_EQ(table.rows[1].busbw, 52.43e9);
  EXPECT_EQ(table.rows[1].wrong, 3);
}

TEST(NcclTests, OldLayoutWithALogLineInside) {
  // To 2022: no root, `error` instead of #wrong; a library's line between heading and rows.
  const CollectiveTable table = only_table(
      "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
      "host:3442:3442 [0] NCCL INFO Launch mode Parallel\n"
      "     8388608       2097152   float     sum   116.5   72.01  126.0   1e-06   116.9   71.8   125.6    N/A\n"
      "host:3442:3442 [0] NCCL INFO comm 0x7f rank 0\n"
      "    16777216       4194304   float     sum   180.2   93.10  162.9   2e-06   181.0   92.7   162.2    N/A\n");
  EXPECT_THAT(table.op_candidates, ElementsAre("all_reduce"));
  EXPECT_EQ(table.ranks_low, 8);
  EXPECT_EQ(table.ranks_high, 8);
  EXPECT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1].wrong, 0) << "a deviation is not a count of wrong elements";
}

TEST(NcclTests, TheRowsAloneTellAllGatherFromAllReduce) {
  // size = 16 x count x 4 bytes: 16 ranks, and no reduction: all_gather or alltoall.
  const CollectiveTable gather = only_table(
      "  1073741824      16777216     float  none      -1   3265.0  328.86  308.31      0   3260.0  329.37  308.78    "
      "N/A\n");
  EXPECT_THAT(gather.op_candidates, ElementsAre("all_gather", "alltoall"));
  EXPECT_EQ(gather.ranks_low, 16);
  EXPECT_TRUE(gather.ranks_known());
  const CollectiveTable scatter = only_table(
      "  1073741824      16777216     float   sum      -1   3265.0  328.86  308.31      0   3260.0  329.37  308.78     "
      " 0\n");
  EXPECT_THAT(scatter.op_candidates, ElementsAre("reduce_scatter"));
  const CollectiveTable broadcast = only_table(
      "  1073741824     268435456     float  none       0   3265.0  328.86  328.86      0   3260.0  329.37  329.37     "
      " 0\n");
  EXPECT_THAT(broadcast.op_candidates, ElementsAre("broadcast"));
  const CollectiveTable send = only_table(
      "  1073741824     268435456     float  none      -1   3265.0  328.86  328.86      0   3260.0  329.37  329.37    "
      "N/A\n");
  EXPECT_THAT(send.op_candidates, ElementsAre("send"));
  EXPECT_FALSE(send.ranks_known());
}

TEST(NcclTests, PrintedDigitsBoundTheRanks) {
  // 2 (n - 1) / n = 1.97 or so: 64 ranks and their neighbours print alike.
  const CollectiveTable table = only_table(
      "   268435456     67108864     float   sum      122131   2.20   4.33  2e-06  122165  2.20  4.33  2e-06\n");
  EXPECT_LE(table.ranks_low, 64);
  EXPECT_GT(table.ranks_high, 64);
  EXPECT_LT(table.ranks_high, 80);
  // A second table of the log says it: 268435456 / (1048576 x 4) = 64.
  const NcclTestsFile both = read_nccl_tests(
      "   268435456     67108864     float   sum      122131   2.20   4.33  2e-06  122165  2.20  4.33  2e-06\n"
      "   268435456      1048576     float     -      520935   0.52   0.51  0e+00  519562  0.52  0.51  1e+00\n",
      "log");
  ASSERT_EQ(both.tables.size(), 2u);
  for (const CollectiveTable& each : both.tables) {
    EXPECT_EQ(each.ranks_low, 64);
    EXPECT_EQ(each.ranks_high, 64);
  }
}

TEST(NcclTests, AContradictionInTheLastDigitDoesNotHideTheRanks) {
  // 4294967296 / 42715.00 us is 100.5494 GB/s, and 188.53 of it would be 1.87500: true only for a time that was
  // rounded.
  const CollectiveTable table =
      only_table("4294967296 1073741824 float sum 42715.000 100.55 188.52 0 42677.000 100.64 188.70 0\n");
  EXPECT_EQ(table.ranks_low, 16);
  EXPECT_EQ(table.ranks_high, 16);
}

TEST(NcclTests, WhatMayStandAroundARow) {
  const std::string row = "  1048576 262144 float sum -1 40.00 26.21 39.32 0 41.00 25.58 38.36 0";
  const std::vector<std::string> same = {
      row + "\n",
      row + " 2026-03-01 10:11:12\n",    // -S
      "[1,0]<stdout>:" + row + "\n",     // mpirun --tag-output
      "0: " + row + "\n",                // srun --label
      "\x1b[32m" + row + "\x1b[0m\r\n",  // colours, carriage return
      "size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n" + row + "\n",  // '#' lost
      "# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min "
      "i_max "
      "i_p99 i_cv%\n  1048576 262144 float sum -1 40.00 26.21 39.32 0 38 44 43 2.5 41.00 25.58 38.36 0 39 45 44 "
      "2.6\n",  // -I
      "  1048576 262144 float sum -1 40.00 26.21 39.32 0 N/A N/A N/A N/A\n",
      "  1048576 262144 float sum -1 40.00 26.21 39.32 0\n",                       // in place blank
      "  1048576 262144 float sum 40.00 26.21 39.32 N/A 41.00 25.58 38.36 N/A\n",  // no root
  };
  for (const std::string& text : same) {
    const CollectiveTable table = only_table(text);
    SCOPED_TRACE(text);
    ASSERT_EQ(table.rows.size(), 1u);
    EXPECT_EQ(table.rows[0].size, 1048576);
    EXPECT_DOUBLE_EQ(table.rows[0].out_of_place_s, 40e-6);
    EXPECT_DOUBLE_EQ(table.rows[0].busbw, 39.32e9);
    EXPECT_THAT(table.op_candidates, ElementsAre("all_reduce"));
    EXPECT_EQ(table.ranks_low, 4);
  }
}

TEST(NcclTests, BrokenRowsAreNamedAndLeftOut) {
  const NcclTestsFile file = read_nccl_tests(
      "  1048576 262144 float sum -1 40.00 26.21 39.32 0 41.00 25.58 38.36 0\n"
      "  2097152 524288 float sum -1 60.00 node7:12:13 [0] NCCL INFO x\n"
      "  4194304 1048576 float sum -1 90.00 46.60 69.91 0 91.00 46.09 69.14 0\n"
      "  8388608 2097152 fl",
      "log");
  ASSERT_EQ(file.tables.size(), 1u);
  EXPECT_EQ(file.tables[0].rows.size(), 2u);
  EXPECT_THAT(file.warnings, ElementsAre(HasSubstr("line 2")));
  EXPECT_THAT(read_nccl_tests("nothing to see\n", "log").tables, IsEmpty());
  EXPECT_THAT(read_nccl_tests("", "log").tables, IsEmpty());
  EXPECT_THAT(read_nccl_tests("1 9223372036854775807 double sum -1 1.0 1.0 1.0 0\n", "log").tables, IsEmpty());
}

TEST(NcclTests, ASecondRunStartsWhereSizesFallBack) {
  const std::string rows =
      "  1048576 262144 float sum -1 40.00 26.21 39.32 0 41.00 25.58 38.36 0\n"
      "  2097152 524288 float sum -1 60.00 34.95 52.43 0 61.00 34.38 51.57 0\n";
  EXPECT_EQ(read_nccl_tests(rows + rows, "log").tables.size(), 2u);
}

TEST(NcclTests, JsonOfNcclTestsAndOfRccl) {
  const CollectiveTable table =
      only_table(R"({"version": 3, "nccl_version": 22807, "args": ["/opt/all_gather_perf", "-J"],
    "config": {"devices": [{"rank": 0, "hostname": "a", "device_info": "GPU"}, {"rank": 1, "hostname": "b", "device_info": "GPU"}]},
    "results": [{"size": 1048576, "count": 131072, "type": "float", "redop": "none", "root": "-1",
      "out_of_place": {"time": 40.0, "alg_bw": 26.2144, "bus_bw": 13.1072, "nwrong": 0}, "in_place": {"time": 30.0}}],
    "out_of_bounds": {"count": 0, "okay": true}})");
  EXPECT_THAT(table.op_candidates, ElementsAre("all_gather"));
  EXPECT_EQ(table.ranks_low, 2);
  EXPECT_EQ(table.nodes, 2);
  EXPECT_EQ(table.out_of_bounds, false);
  EXPECT_DOUBLE_EQ(table.rows.at(0).best_s(), 30e-6);

  const CollectiveTable rccl = only_table(
      R"({"#wrong":"0","algBw":26.2,"busBw":39.3,"gpus":4,"inPlace":0,"name":"AllReduce","redop":"sum","size":1048576,"time":40.0,"type":"float"})"
      "\n"
      R"({"#wrong":"0","algBw":25.0,"busBw":38.0,"gpus":4,"inPlace":1,"name":"AllReduce","redop":"sum","size":1048576,"time":42.0,"type":"float"})"
      "\n");
  EXPECT_THAT(rccl.op_candidates, ElementsAre("all_reduce"));
  EXPECT_EQ(rccl.ranks_low, 4);
  EXPECT_DOUBLE_EQ(rccl.rows.at(0).out_of_place_s, 40e-6);
  EXPECT_DOUBLE_EQ(rccl.rows.at(0).in_place_s, 42e-6);
}

TEST(CollectiveCsv, ReadsSummariesAndNamesEveryBadLine) {
  const NcclTestsFile file = read_collective_csv(
      "# from a ticket\nbusbw, size, op, ranks, nodes\n180, 1073741824, all_reduce_perf, 16, "
      "2\n13.1,1073741824,sendrecv,2,2\n",
      "t.csv");
  ASSERT_EQ(file.tables.size(), 2u);
  const CollectiveTable& reduce = file.tables[0];
  EXPECT_THAT(reduce.op_candidates, ElementsAre("all_reduce"));
  EXPECT_EQ(reduce.nodes, 2);
  EXPECT_DOUBLE_EQ(reduce.rows[0].best_s(), 1073741824.0 * 2 * 15 / 16 / 180e9);
  EXPECT_THAT(file.tables[1].op_candidates, ElementsAre("send"));

  try {
    read_collective_csv("op,ranks,size,busbw\nall_reduse,16,1024,1\nall_reduce,1,0,-3\n", "t.csv");
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.violations().size(), 4u);
  }
  EXPECT_THROW(read_collective_csv("op,size,busbw\nall_reduce,1024,1\n", "t.csv"), Error);
}

}  // namespace
}  // namespace benchsuite
