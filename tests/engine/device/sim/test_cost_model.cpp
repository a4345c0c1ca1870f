// The cost model: hand-computed times on a tiny profile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/device/sim/cost_support.h"

namespace benchsuite {
namespace {

using ::testing::ElementsAre;

/// Two GPUs and two NICs a node; round numbers: 100 TFLOP/s, 1 TB/s, NVLink ring 200 GB/s, NIC 10 GB/s.
HardwareProfile tiny() {
  HardwareProfile p;
  p.name = "tiny";
  p.gpu = "tiny-gpu";
  p.gpus_per_node = 2;
  p.sm_count = 10;
  p.memory_bandwidth = 1e12;
  p.peak_flops[DType::bf16] = 100e12;
  p.gemm.floor_s = 1e-6;
  p.gemm.efficiency = 0.5;
  p.gemm.k_ramp = 100;
  p.gemm.memory_share = 0.5;
  p.memory_ops["default"] = {0.5, 2e-6};
  p.memory_ops["gelu"] = {0.25, 1e-6};
  p.attention_floor_s = 1e-6;
  // 20 TFLOP/s at a length of 1024, 30 at 3072, 40 for ever; twice that with 128 channels; backward four fifths.
  p.attention = {{64, true, {40e12, 1024, 1}, {32e12, 1024, 1}}, {128, true, {80e12, 1024, 1}, {64e12, 1024, 1}}};
  p.nvlink_bandwidth = 300e9;
  for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "send"})
    p.intra_node.push_back({op, 2, 5e-6, 200e9, 1e-9, "ring"});
  p.nics_per_node = 2;
  p.nic_bandwidth = 10e9;
  p.nic_latency_s = 20e-6;
  p.inter_node = {{"fast start", 10e-6, 2e-6, 1e-6, 0.1, true, false},
                  {"bulk", 50e-6, 4e-6, 3e-6, 1.0, false, false}};
  p.collective_sm_permille = 150;
  p.inter_node_sm_permille = 20;
  return p;
}

class TinyModel : public ::testing::Test {
 protected:
  Picoseconds compute(const OpShape& shape) const { return CostModel(profile_, placement_).compute(shape, Site::mlp); }
  TransferCost transfer(const OpShape& shape, std::vector<int> ranks) const {
    return CostModel(profile_, placement_).transfer(shape, group_of(std::move(ranks)));
  }
  HardwareProfile profile_ = tiny();
  Placement placement_ = nodes_of(4, 2);
};

TEST_F(TinyModel, GemmIsTheLargestOfFloorMathAndTraffic) {
  // 2 1000 1000 (900 + 100) / 50 TFLOP/s = 40 us; traffic 5.6 MB / 0.5 TB/s = 11.2 us
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 900, 1})), 40'000'000);
  // 2 1000 1000 (10 + 100) / 50 TFLOP/s = 4.4 us; traffic (2 10^4 + 10^6) 2 B / 0.5 TB/s = 4.08 us
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 10, 1})), 4'400'000);
  // fp32 output: traffic 40 kB + 4 MB = 8.08 us wins
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 10, 1}, DType::bf16, DType::fp32)), 8'080'000);
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {8, 8, 8, 1})), 1'000'000);
}

TEST_F(TinyModel, SustainedWorkAndLongKernelsMeetThePowerLimit) {
  profile_.gemm.sustained_over_burst = 0.8;
  profile_.gemm.long_kernel = {{-6, -4}, {0, std::log(2.0)}};
  const OpShape shape = shape_of(OpKind::gemm, {1000, 1000, 900, 1});  // 40 us cold: log10 is -4.398
  EXPECT_EQ(compute(shape), 50'000'000);
  const double slowdown = std::pow(2.0, (std::log10(40e-6) + 6) / 2);
  EXPECT_DOUBLE_EQ(CostModel(profile_, placement_).gemm_seconds(shape, GemmRate::burst), 40e-6 * slowdown);
}

TEST_F(TinyModel, SurfaceSlowsFewWavesAndShortLoops) {
  profile_.gemm.memory_share = 1;
  profile_.gemm.k_ramp = 0;
  const double two = std::log(2.0), four = std::log(4.0);
  profile_.gemm.surface_waves = {0, 2};  // one wave (10 SMs x 128 x 128 outputs) and four
  profile_.gemm.surface_k = {8, 10};
  profile_.gemm.surface = {four, two, two, 0};
  // 1280 x 512: four waves, k = 1024 = 2^10: nothing. 2 1280 512 1024 / 50 TFLOP/s
  const double plain = 2.0 * 1280 * 512 * 1024 / 50e12;
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1280, 512, 1024, 1})), std::llround(plain * 1e12));
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1280, 512, 256, 1})), std::llround(plain / 4 * 2 * 1e12));
  // k = 512: half way, a factor of sqrt(2). n = 128: one wave, a factor of 2.
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1280, 512, 512, 1})), std::llround(plain / 2 * std::sqrt(2.0) * 1e12));
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1280, 128, 1024, 1})), std::llround(plain / 4 * 2 * 1e12));
  // Batch counts as outputs: four of them fill four waves.
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1280, 128, 1024, 4})), std::llround(plain * 1e12));
  // Less than a quarter of a wave takes as long as a quarter.
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {128, 256, 1024, 1})), compute(shape_of(OpKind::gemm, {160, 256, 1024, 1})));
}

TEST_F(TinyModel, ProductsOfFewTermsWaitForTheirOutputs) {
  profile_.gemm.k_ramp = 0;
  profile_.gemm.surface_waves = {0, 2};
  profile_.gemm.surface_k = {9, 10};
  profile_.gemm.surface = {std::log(2.0), std::log(2.0), 0, 0};
  profile_.gemm.short_products = 1.5;
  // At k = 512 the surface alone: 2 10^6 512 2 / 50 TFLOP/s = 40.96 us. Outputs are written in 2 MB / 0.5 TB/s = 4 us.
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 512, 1})), 40'960'000);
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 480, 1})), 40'960'000) << "no longer than with more terms";
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 384, 1})), 30'720'000 + 6'000'000);
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 128, 1})), 10'240'000 + 6'000'000);
  profile_.gemm.short_products = 0;
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 128, 1})), 10'240'000);
}

TEST_F(TinyModel, UnalignedRowsRunAtTheRateOfTheirAlignment) {
  profile_.gemm.alignment[DType::bf16] = {0.8, 0.5};
  const auto product = [&](std::int64_t n, DType type = DType::bf16) { return compute(shape_of(OpKind::gemm, {1000, n, 896, 1}, type)); };
  const auto aligned = [](std::int64_t n) { return 2.0 * 1000 * static_cast<double>(n) * (896 + 100) / 50e12 * 1e12; };
  EXPECT_EQ(product(1000), std::llround(aligned(1000)));
  EXPECT_EQ(product(1004), std::llround(aligned(1004) / 0.8)) << "8 bytes";
  EXPECT_EQ(product(1002), std::llround(aligned(1002) / 0.8)) << "4 bytes";
  EXPECT_EQ(product(1001), std::llround(aligned(1001) / 0.5)) << "one element";
  profile_.peak_flops[DType::fp16] = 100e12;
  EXPECT_EQ(product(1001, DType::fp16), std::llround(aligned(1001))) << "no rates of this type";
  // Traffic too: 1001 x 1001 outputs of 4 bytes and two vectors, at 0.5 TB/s and half the rate; arithmetic would take 4.05 us.
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1001, 1001, 1, 1}, DType::bf16, DType::fp32)),
            std::llround((2.0 * (1001 + 1001) + 4.0 * 1001 * 1001) / 0.5e12 / 0.5 * 1e12));
}

TEST_F(TinyModel, AccumulationChargesTheTrafficTheLoopDoesNotHide) {
  OpShape shape = shape_of(OpKind::gemm, {1000, 1000, 900, 1}, DType::bf16, DType::fp32);
  shape.accumulate = true;
  EXPECT_EQ(compute(shape), 40'000'000);  // hidden: 11.6 MB / 0.5 TB/s = 23.2 us
  profile_.gemm.accumulate_exposed = 0.5;
  EXPECT_EQ(compute(shape), 46'000'000);  // half of 6 more bytes an output at 0.5 TB/s
  shape.accumulate = false;
  EXPECT_EQ(compute(shape), 42'000'000);  // half of 2 more
}

TEST_F(TinyModel, EightBitProductsRunFasterAndTheirOperandsAreCastApart) {
  profile_.peak_flops[DType::fp8] = 200e12;
  profile_.gemm.fp8_over_bf16 = 1.6;
  profile_.gemm.fp8_cast_share = 0.5;
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1000, 1000, 900, 1}, DType::fp8)), 25'000'000);  // 40 us / 1.6
  const Picoseconds floor = compute(shape_of(OpKind::cast, {0}, DType::bf16, DType::fp8));
  const auto cast = [&](std::int64_t copies, std::int64_t measured, DType from) {
    return compute(shape_of(OpKind::cast, {900'000, 0, copies, measured}, from, DType::fp8)) - floor;
  };
  EXPECT_EQ(cast(1, 0, DType::bf16), 5'400'000);  // 900,000 elements x (2 read + 1 written) / 0.5 TB/s
  EXPECT_EQ(cast(2, 0, DType::bf16), 7'200'000);  // and the transposed copy
  EXPECT_EQ(cast(1, 1, DType::bf16), 9'000'000);  // read twice
  EXPECT_EQ(cast(1, 0, DType::fp8), 3'600'000);   // a transpose
}

TEST_F(TinyModel, TilesRoundUpToWholeWaves) {
  profile_.gemm.memory_share = 1;
  profile_.gemm.tiles = {{100, 100, 1.0}};
  // 10 tiles = one wave; 11 = two, as many as 20.
  const Picoseconds one = compute(shape_of(OpKind::gemm, {1000, 100, 900, 1}));
  const Picoseconds two = compute(shape_of(OpKind::gemm, {1100, 100, 900, 1}));
  EXPECT_EQ(one, 4'000'000);  // 2 10 10^4 1000 / 50 TFLOP/s
  EXPECT_EQ(two, 8'000'000);
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {2000, 100, 900, 1})), two);
  // 44 tiles, five waves of 25,000 outputs at half the rate: as long as 250,000 outputs, more than 200,000.
  profile_.gemm.tiles.push_back({50, 50, 0.5});
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1100, 100, 900, 1})), two);
  profile_.gemm.tiles.back().relative = 0.8;  // 156,250 outputs' worth
  EXPECT_EQ(compute(shape_of(OpKind::gemm, {1100, 100, 900, 1})), 6'250'000);
  // Half of the rounding: the geometric mean of 200,000 and 110,000 outputs.
  profile_.gemm.tiles.pop_back();
  profile_.gemm.wave_share = 0.5;
  EXPECT_NEAR(static_cast<double>(compute(shape_of(OpKind::gemm, {1100, 100, 900, 1}))),
              2 * std::sqrt(200'000.0 * 110'000.0) * 1000 / 50, 1);
}

TEST_F(TinyModel, UnfusedAttentionIsABatchedProductAndComputesTheMaskedHalf) {
  OpShape scores = shape_of(OpKind::attention_scores, {1000, 2, 3, 100});
  // 6 heads: 2 6 10^6 (100 + 100) / 50 TFLOP/s = 48 us; traffic (2 6 10^5 + 6 10^6) 2 B / 0.5 TB/s = 28.8 us
  EXPECT_EQ(compute(scores), 48'000'000);
  scores.causal = true;
  EXPECT_EQ(compute(scores), 48'000'000);
}

TEST_F(TinyModel, FlashAttentionRatesGrowWithLengthAndHead) {
  OpShape flash = shape_of(OpKind::flash_attention, {1024, 5, 2, 64, 0, 1});  // 80 blocks on ten SMs
  flash.causal = true;
  const double work = 4.0 * 5 * 2 * 1024 * 1024 * 64 / 2;  // causal half
  const auto expected = [](double flops, double tflops) {
    return static_cast<Picoseconds>(std::llround((1e-6 + flops / (tflops * 1e12)) * 1e12));
  };
  EXPECT_EQ(compute(flash), expected(work, 20));
  flash.dims[0] = 3072;
  EXPECT_EQ(compute(flash), expected(9 * work, 30));
  flash.dims[3] = 96;  // half way in head dimension: 30 and 60
  EXPECT_EQ(compute(flash), expected(9 * 1.5 * work, 45));
  flash.dims[3] = 32;  // below the smallest: proportional
  EXPECT_EQ(compute(flash), expected(4.5 * work, 15));
  flash.dims[3] = 64;
  flash.kind = OpKind::flash_attention_backward;
  EXPECT_EQ(compute(flash), expected(2.5 * 9 * work, 24));
}

TEST_F(TinyModel, TheSlowestGpuSlowsWhatClocksLimitAndAKernelsFactorThatKernelAlone) {
  OpShape flash = shape_of(OpKind::flash_attention, {1024, 5, 2, 64, 0, 1});
  flash.causal = true;
  const OpShape product = shape_of(OpKind::gemm, {1000, 1000, 900, 1}), sum = shape_of(OpKind::add, {1'000'000});
  const Picoseconds attention = compute(flash), floor = 1'000'000, streamed = compute(sum);
  profile_.slowest_gpu_factor = 1.25;
  EXPECT_EQ(compute(product), 50'000'000);  // 40 us
  EXPECT_NEAR(static_cast<double>(compute(flash) - floor), 1.25 * static_cast<double>(attention - floor), 1);
  EXPECT_EQ(compute(sum), streamed);
  profile_.slowest_gpu_factor = 1;
  profile_.attention_time_factor = 3;  // of the usual kernel
  profile_.other_attention = {{"flash-attention-1", profile_.attention}, {"flash-attention-triton", profile_.attention}};
  profile_.kernel_time_factor["flash-attention-triton"] = 1.5;
  flash.attention = FusedAttention::flash_1;
  EXPECT_EQ(compute(flash), attention);
  flash.attention = FusedAttention::triton;
  EXPECT_NEAR(static_cast<double>(compute(flash) - floor), 1.5 * static_cast<double>(attention - floor), 1);
}

TEST_F(TinyModel, FewBlocksOfQueriesLeaveSmsIdle) {
  OpShape small = shape_of(OpKind::flash_attention, {512, 1, 1, 64, 0, 1});  // four blocks on ten SMs
  small.causal = true;
  const double seconds = 4.0 * 512 * 512 * 64 / 2 / (40e12 / 3);
  EXPECT_EQ(compute(small), std::llround((1e-6 + seconds / 0.4) * 1e12));
  // Down to a quarter block per SM measured: twice as slow there, and below that the time stays.
  profile_.attention_occupancy = {{-2, 0}, {std::log(2.0), 0}};
  EXPECT_EQ(compute(small), std::llround((1e-6 + seconds * std::exp2(-std::log2(0.4) / 2)) * 1e12));
  small.dims[0] = 256;  // two blocks count as a quarter of ten, at twice the time
  EXPECT_EQ(compute(small), std::llround((1e-6 + 4.0 * 256 * 256 * 64 / 2 / 8e12 * 2 * 2.5 / 2) * 1e12));
}

TEST_F(TinyModel, MemoryOpsUseTheirShare) {
  EXPECT_EQ(compute(shape_of(OpKind::add, {1'000'000})), 14'000'000);    // 2 us + 6 MB / 0.5 TB/s
  EXPECT_EQ(compute(shape_of(OpKind::gelu, {1000, 1000})), 17'000'000);  // 1 us + 4 MB / 0.25 TB/s
}

// A copy in parts by kernels of their own pays the floor for each.
TEST_F(TinyModel, EveryKernelOfACopyHasItsFloor) {
  const Picoseconds once = compute(shape_of(OpKind::cast, {1'000'000}));
  EXPECT_EQ(once, 2'000'000 + 8'000'000);  // 2 us + 4 MB / 0.5 TB/s
  EXPECT_EQ(compute(shape_of(OpKind::cast, {1'000'000, 5})), once + 4 * 2'000'000);
}

TEST_F(TinyModel, CollectivesInsideANode) {
  // 1 MB: 5 us + 1 MB (1/2) / 200 GB/s + 1 ns sqrt(10^6) = 5 + 2.5 + 1 us
  const TransferCost gather = transfer(shape_of(OpKind::all_gather, {500'000}), {0, 1});
  EXPECT_EQ(gather.latency, 5'000'000);
  EXPECT_EQ(gather.duration, 8'500'000);
  EXPECT_TRUE(gather.links.empty());
  EXPECT_EQ(gather.sm_permille, 150);
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {500'000}), {0, 1}).duration, 11'000'000);
  EXPECT_EQ(transfer(shape_of(OpKind::send, {500'000}), {0, 1}).duration, 11'000'000);
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {500'000}), {1}).duration, 0);
}

// A copy from neighbour to neighbour, all at once: what a send takes, twice its memory traffic, no SM.
TEST_F(TinyModel, AShiftIsASendThatOccupiesNoSm) {
  const TransferCost shift = transfer(shape_of(OpKind::shift, {500'000, 1}), {0, 1});
  const TransferCost send = transfer(shape_of(OpKind::send, {500'000}), {0, 1});
  EXPECT_EQ(shift.duration, send.duration);
  EXPECT_EQ(shift.sm_permille, 0);
  EXPECT_GT(send.memory_permille, 0);
  EXPECT_NEAR(shift.memory_permille, 2 * send.memory_permille, 1);
  // Across nodes every NIC of the group carries a piece out and one in.
  EXPECT_THAT(transfer(shape_of(OpKind::shift, {500'000, 1}), {0, 1, 2, 3}).links, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST_F(TinyModel, CollectivesAcrossNodesRunOnTheNicsTheirRanksReach) {
  // Four ranks on two nodes reach two NICs a node: 20 GB/s. 40 MB all_gather: 40 MB (3/4) / 20 GB/s = 1500 us,
  // latency 50 + 1 (4 + 3) us.
  const OpShape gather = shape_of(OpKind::all_gather, {20'000'000});
  const TransferCost wide = transfer(gather, {0, 1, 2, 3});
  EXPECT_EQ(wide.latency, 57'000'000);
  EXPECT_EQ(wide.duration, 1'557'000'000);
  EXPECT_EQ(wide.sm_permille, 20);
  EXPECT_THAT(wide.links, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  // One rank a node: one NIC, 10 GB/s, (1/2); no hop inside a node.
  const TransferCost narrow = transfer(gather, {1, 3});
  EXPECT_EQ(narrow.latency, 54'000'000);
  EXPECT_EQ(narrow.duration, 54'000'000 + 2'000'000'000);
  EXPECT_THAT(narrow.links, ElementsAre(2, 3, 6, 7));
  // Three ranks: the node with one rank bounds the ring to one NIC. 40 MB (2/3) / 10 GB/s.
  EXPECT_EQ(transfer(gather, {0, 1, 2}).duration, 57'000'000 + 2'666'666'667);
  // Four nodes, all_reduce, two passes of three steps: 50 + 6 (4 + 3) us + 40 MB (7/4) / 20 GB/s.
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {20'000'000}), {0, 1, 2, 3, 4, 5, 6, 7}).duration,
            92'000'000 + 3'500'000'000);
  // Small: the low-latency protocol, on a tree of depth 2: 10 + 2 2 (2 + 1) us + 8 B (7/4) / 2 GB/s.
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {4}), {0, 1, 2, 3, 4, 5, 6, 7}).duration, 22'007'000);
  // all_gather never takes the tree: 10 + 3 (2 + 1) us + 8 B (7/8) / 2 GB/s.
  EXPECT_EQ(transfer(shape_of(OpKind::all_gather, {4}), {0, 1, 2, 3, 4, 5, 6, 7}).duration, 19'003'500);
}

TEST_F(TinyModel, TwoWholeNodesMayAllReduceByATree) {
  profile_.inter_node.push_back({"pair", 100e-6, 0, 0, 1.0, false, true});
  const OpShape reduce = shape_of(OpKind::all_reduce, {20'000'000});
  // Each node sends 40 MB once over its two NICs: 2000 us, against a ring's 40 MB (3/2) / 20 GB/s = 3000.
  EXPECT_EQ(transfer(reduce, {0, 1, 2, 3}).duration, 100'000'000 + 2'000'000'000);
  // Not for one rank a node, nor for three nodes, nor for other operations.
  EXPECT_EQ(transfer(reduce, {1, 3}).duration, 58'000'000 + 4'000'000'000);
  EXPECT_EQ(transfer(reduce, {0, 1, 2, 3, 4, 5}).duration, 78'000'000 + 3'333'333'333);
  EXPECT_EQ(transfer(shape_of(OpKind::all_gather, {20'000'000}), {0, 1, 2, 3}).duration, 1'557'000'000);
}

TEST(Collectives, SevenEighthsOfTheNicsCountAsAWholeNode) {
  HardwareProfile p = tiny();
  p.gpus_per_node = p.nics_per_node = 8;
  p.inter_node.push_back({"pair", 100e-6, 0, 0, 1.0, false, true});
  const auto algorithm = [&](int ranks) {
    return collective_time(p, Collective::all_reduce, 40e6, even_span(p, ranks, 2)).algorithm;
  };
  EXPECT_EQ(algorithm(16), "two-node tree");
  EXPECT_EQ(algorithm(14), "two-node tree");
  EXPECT_EQ(algorithm(12), "ring");
}

TEST_F(TinyModel, FillingThePipeShowsWhereTheProfileSaysSo) {
  profile_.pipeline_fill = true;
  // Hops 4 + 3 us, wire 1500 us: 50 + (sqrt(7) + sqrt(1500))^2 us.
  const double us = 50 + std::pow(std::sqrt(7.0) + std::sqrt(1500.0), 2);
  EXPECT_EQ(transfer(shape_of(OpKind::all_gather, {20'000'000}), {0, 1, 2, 3}).duration, std::llround(us * 1e6));
}

TEST_F(TinyModel, SwitchReductionSendsItsBytesOnce) {
  profile_.intra_node[0] = {"all_reduce", 2, 0, 10e12, 0, "nvls"};
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {150'000'000}), {0, 1}).duration, 1'000'000'000);  // 300 MB / 300 GB/s
  profile_.intra_node[0].algorithm = "ring";  // 2 (1/2) of them: the same here, twice that with many ranks
  EXPECT_EQ(transfer(shape_of(OpKind::all_reduce, {150'000'000}), {0, 1}).duration, 1'000'000'000);
}

TEST(Collectives, AllToAllLeavesByTheRanksOwnNics) {
  HardwareProfile p = tiny();
  p.intra_node.push_back({"all_to_all", 2, 5e-6, 200e9, 0, "ring"});
  // Four ranks on two nodes, one NIC each: half of 40 MB leaves at 10 GB/s.
  const CollectiveTime time = collective_time(p, Collective::all_to_all, 40e6, even_span(p, 4, 2));
  EXPECT_NEAR(time.seconds, 20e-6 + 20e6 / 10e9, 1e-12);
}

TEST(Collectives, StartUpGrowsBeyondTheMeasuredRanks) {
  HardwareProfile p = tiny();
  p.gpus_per_node = 16;
  p.intra_node = {{"all_gather", 2, 5e-6, 200e9, 0, "ring"}, {"all_gather", 4, 9e-6, 200e9, 0, "ring"}};
  EXPECT_NEAR(collective_time(p, Collective::all_gather, 8, even_span(p, 4, 1)).seconds, 9e-6, 1e-10);
  EXPECT_NEAR(collective_time(p, Collective::all_gather, 8, even_span(p, 8, 1)).seconds, 17e-6, 1e-10);
}

TEST(Collectives, ARampSlowsTheSizesItNames) {
  HardwareProfile p = tiny();
  p.collective_ramps["all_gather"] = {{{10, 20}, {0, std::log(2.0)}}, false};
  const auto time = [&](double bytes) { return collective_time(p, Collective::all_gather, bytes, {2, 1, 2, 1}).seconds; };
  const auto plain = [](double bytes) { return 5e-6 + bytes / 2 / 200e9 + 1e-9 * std::sqrt(bytes); };
  EXPECT_DOUBLE_EQ(time(1024), plain(1024));
  EXPECT_DOUBLE_EQ(time(1 << 20), 2 * plain(1 << 20));
  EXPECT_DOUBLE_EQ(time(1 << 15), std::sqrt(2.0) * plain(1 << 15));
  // Where thresholds grow with the ranks, 2^20 bytes of two ranks are 2^19 for each.
  p.collective_ramps["all_gather"].per_rank = true;
  EXPECT_DOUBLE_EQ(time(1 << 21), 2 * plain(1 << 21));
  EXPECT_DOUBLE_EQ(time(1 << 16), std::sqrt(2.0) * plain(1 << 16));
}

TEST_F(TinyModel, DemandsOnSharedResources) {
  const CostModel costs(profile_, placement_);
  // Bound by arithmetic: all SMs; 5.6 MB in 40 us of 1 TB/s.
  const ComputeCost math = costs.compute_cost(shape_of(OpKind::gemm, {1000, 1000, 900, 1}), Site::mlp);
  EXPECT_EQ(math.sm_permille, 1000);
  EXPECT_EQ(math.memory_permille, 140);
  // Bound by memory: 6 MB in 14 us.
  const ComputeCost memory = costs.compute_cost(shape_of(OpKind::add, {1'000'000}), Site::mlp);
  EXPECT_EQ(memory.sm_permille, 0);
  EXPECT_EQ(memory.memory_permille, 429);
  // A gather of 1 MB on two ranks: half of it read, half written, in 8.5 us.
  EXPECT_EQ(costs.transfer(shape_of(OpKind::all_gather, {500'000}), group_of({0, 1})).memory_permille, 118);
}

TEST(Host, GraphsLaunchAtOnceAndEagerOpsAtTheHostsPace) {
  HardwareProfile p = tiny();
  p.host_eager_s = 20e-6;
  EXPECT_EQ(host_cost(p, LaunchMode::eager, 0.5).per_op, 20'000'000);
  EXPECT_EQ(host_cost(p, LaunchMode::eager, 0.5).first, 500'000'000'000);
  EXPECT_EQ(host_cost(p, LaunchMode::graph, 0).per_op, 0);
}

TEST(Attention, WhatStandsInForANamedKernelIsSaid) {
  HardwareProfile p = tiny();
  p.attention.emplace_back();
  p.attention_kernel = "cuDNN fused attention";
  p.other_attention["flash-attention-2"].emplace_back();
  EXPECT_EQ(attention_stand_in(p, FusedAttention::usual), "");
  EXPECT_EQ(attention_stand_in(p, FusedAttention::flash_2), "");
  EXPECT_EQ(attention_stand_in(p, FusedAttention::triton),
            p.name + " has no rates of flash-attention-triton: cuDNN fused attention stands in");
  p.attention.clear();  // `ideal`: every fused kernel runs at peak
  EXPECT_EQ(attention_stand_in(p, FusedAttention::triton), "");
}

// 1,000 pieces of 1 KB: device floors of 2 us each, unless the host's loop launches them 10 us apart.
TEST_F(TinyModel, PiecesFollowEachOtherNoFasterThanTheHostLaunchesThem) {
  const OpShape pieces = shape_of(OpKind::cast, {500'000, 1000});
  const Picoseconds device = CostModel(profile_, placement_).compute(pieces, Site::mlp);
  profile_.host_library_s = 10e-6;
  EXPECT_LT(device, 10'000'000'000);
  EXPECT_EQ(CostModel(profile_, placement_).compute(pieces, Site::mlp), 10'000'000'000);
  EXPECT_EQ(CostModel(profile_, placement_).compute(shape_of(OpKind::cast, {500'000, 1}), Site::mlp),
            CostModel(profile_, placement_).compute(shape_of(OpKind::cast, {500'000}), Site::mlp));
  profile_.host_library_s = 1e-9;
  EXPECT_EQ(CostModel(profile_, placement_).compute(pieces, Site::mlp), device);
}

TEST_F(TinyModel, ARingIsNeverFasterThanItsNvlinkPart) {
  profile_.nic_bandwidth = 500e9;
  EXPECT_EQ(transfer(shape_of(OpKind::all_gather, {20'000'000}), {0, 1, 2, 3}).duration, 57'000'000 + 150'000'000);
}

TEST_F(TinyModel, ASendTakesOneNicOutAndOneIn) {
  const TransferCost cost = transfer(shape_of(OpKind::send, {5'000'000}), {1, 2});
  EXPECT_EQ(cost.latency, 20'000'000);
  EXPECT_EQ(cost.duration, 1'020'000'000);
  EXPECT_THAT(cost.links, ElementsAre(2, 5));  // node 0 NIC 1 egress, node 1 NIC 0 ingress
  const TransferCost receive = transfer(shape_of(OpKind::receive, {5'000'000}), {1, 2});
  EXPECT_EQ(receive.duration, cost.duration);
  EXPECT_EQ(receive.links, cost.links);
}

TEST_F(TinyModel, OneNicANodeIsSharedByAllSlots) {
  profile_.nics_per_node = 1;
  EXPECT_EQ(CostModel(profile_, placement_).link_count(), 8);
  EXPECT_THAT(transfer(shape_of(OpKind::send, {1}), {1, 2}).links, ElementsAre(0, 3));
  EXPECT_EQ(transfer(shape_of(OpKind::all_gather, {20'000'000}), {0, 1, 2, 3}).duration, 57'000'000 + 3'000'000'000);
}

TEST_F(TinyModel, Refusals) {
  EXPECT_THROW(CostModel(profile_, nodes_of(1, 8)), Error);
  EXPECT_THROW(compute(shape_of(OpKind::gemm, {8, 8, 8, 1}, DType::fp8)), Error);
  profile_.nics_per_node = 0;
  EXPECT_THROW(transfer(shape_of(OpKind::all_gather, {8}), {0, 2}), Error);
}

}  // namespace
}  // namespace benchsuite
