// The cost model on the committed profiles: physical bounds and monotony over random shapes, and what shapes decide.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "engine/core/rng.h"
#include "engine/device/op_table.h"
#include "tests/engine/device/sim/cost_support.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kMi = 1 << 20;

/// Every committed profile but `ideal`, which is free of bounds by definition.
std::vector<std::string> machines() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware")) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "ideal") names.insert(entry.path().stem());
  }
  return {names.begin(), names.end()};
}

/// The profiles that state a GPU of their own; the others take one and change the fabric.
std::vector<std::string> gpus() {
  std::vector<std::string> names;
  for (const std::string& name : machines()) {
    const std::string file = std::string(BENCHSUITE_SOURCE_DIR) + "/cases/hardware/" + name + ".json";
    if (!parse_json_file(file).contains("based_on")) names.push_back(name);
  }
  return names;
}

/// Draws in [1, limit] on a log scale.
class Draws {
 public:
  std::int64_t operator()(std::int64_t limit) {
    const double u = uniform_from(philox(17, {counter_++, 0, 0, 0})[0]);
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::exp(u * std::log(static_cast<double>(limit)))));
  }

 private:
  std::uint32_t counter_ = 0;
};

TEST(CostBounds, ComputeNeverBeatsPeakOrMemory) {
  for (const std::string& name : gpus()) {
    const HardwareProfile p = committed(name);
    const Placement placement = nodes_of(1, p.gpus_per_node);
    const CostModel costs(p, placement);
    const DType type = p.peak_flops.count(DType::bf16) ? DType::bf16 : DType::fp16;
    Draws draw;
    for (int i = 0; i < 3000; ++i) {
      const auto kind = static_cast<OpKind>(i % static_cast<int>(OpKind::all_gather));
      OpShape shape = shape_of(kind, {draw(16384), draw(64), draw(64), draw(256), 0, 0}, type, type);
      if (kind == OpKind::gemm) shape.dims = {draw(16384), draw(16384), draw(16384), draw(4)};
      shape.causal = i % 2 == 0;
      const bool fused = kind == OpKind::flash_attention || kind == OpKind::flash_attention_backward;
      const double seconds = 1e-12 * static_cast<double>(costs.compute(shape, Site::mlp)) + 1e-12;
      const double flops = flops_of(shape) * (fused && shape.causal ? 0.5 : 1.0);
      ASSERT_GE(seconds, flops / p.peak_flops.at(type)) << name << " " << name_of(kind);
      if (kind <= OpKind::attention_context_backward_v) {
        ASSERT_GE(costs.gemm_seconds(shape, GemmRate::burst) + 1e-12, flops / p.peak_flops.at(type)) << name;
        ASSERT_GE(costs.gemm_seconds(shape, GemmRate::burst) + 1e-12, bytes_of(shape) / p.memory_bandwidth) << name;
      }
      ASSERT_GE(seconds, bytes_of(shape) / p.memory_bandwidth) << name << " " << name_of(kind);
    }
  }
}

// Twice the rows, columns, depth or batch never takes less time, but where rows come to lie better aligned; nor do longer
// sequences, more heads or larger tensors.
TEST(CostBounds, MoreWorkIsNeverFaster) {
  for (const std::string& name : gpus()) {
    const HardwareProfile p = committed(name);
    const Placement placement = nodes_of(1, p.gpus_per_node);
    const CostModel costs(p, placement);
    const DType type = p.peak_flops.count(DType::bf16) ? DType::bf16 : DType::fp16;
    Draws draw;
    for (int i = 0; i < 4000; ++i) {
      const auto kind = static_cast<OpKind>(i % static_cast<int>(OpKind::all_gather));
      OpShape shape = shape_of(kind, {draw(16384), draw(64), draw(64), draw(256), 0, 0}, type, type);
      if (kind == OpKind::gemm) shape.dims = {draw(16384), draw(16384), draw(16384), draw(4)};
      shape.causal = i % 2 == 0;
      const Picoseconds before = costs.compute(shape, Site::mlp);
      const bool head = kind != OpKind::gemm && kind <= OpKind::flash_attention_backward;
      for (std::size_t dim = 0; dim < (head ? 3u : 4u); ++dim) {
        OpShape larger = shape;
        larger.dims[dim] *= 2;
        if (row_alignment_of(larger) != row_alignment_of(shape)) continue;
        ASSERT_GE(costs.compute(larger, Site::mlp), before)
            << name << " " << name_of(kind) << " dim " << dim << " of " << shape.dims[0] << " " << shape.dims[1] << " "
            << shape.dims[2] << " " << shape.dims[3];
      }
    }
  }
}

// EleutherAI/cookbook, sizing/results/transformer_data/h_sweep.out (27dff48d): 64 heads of 2,048 positions in fp16, TFLOP/s.
TEST(CostBounds, UnfusedAttentionTakesWhatItTookOthers) {
  const HardwareProfile p = committed("dgx-a100-40g");
  const Placement placement = nodes_of(1, p.gpus_per_node);
  const auto over_measured = [&](OpKind kind, std::int64_t head, double tflops) {
    const OpShape shape = shape_of(kind, {2048, 4, 16, head, 0, 0}, DType::fp16, DType::fp16);
    return 1e-12 * static_cast<double>(CostModel(p, placement).compute(shape, Site::attention)) / (flops_of(shape) / (1e12 * tflops));
  };
  // Scores have few terms; head sizes that are no multiples of 8 unaligned rows.
  EXPECT_NEAR(over_measured(OpKind::attention_scores, 128, 91.589), 1, 0.1);
  EXPECT_NEAR(over_measured(OpKind::attention_scores, 192, 114.075), 1, 0.1);
  EXPECT_NEAR(over_measured(OpKind::attention_scores, 256, 128.216), 1, 0.1);
  EXPECT_NEAR(over_measured(OpKind::attention_scores, 320, 141.041), 1, 0.1);
  EXPECT_NEAR(over_measured(OpKind::attention_scores, 150, 77.971), 1, 0.2);
  EXPECT_NEAR(over_measured(OpKind::attention_context, 128, 134.750), 1, 0.1);
  EXPECT_NEAR(over_measured(OpKind::attention_context, 150, 93.695), 1, 0.25);
}

/// Bytes one GPU must at least send or receive, whatever the algorithm.
double wire_bytes(OpKind kind, double bytes, double ranks) {
  return kind == OpKind::all_gather || kind == OpKind::reduce_scatter ? bytes * (ranks - 1) / ranks : bytes;
}

/// Groups of every kind of placement on nodes of `gpus`: part of a node, a whole one, across nodes evenly and not.
std::vector<std::vector<int>> groups_on(int gpus) {
  std::vector<int> whole, pair, ragged, spread;
  for (int rank = 0; rank < gpus; ++rank) whole.push_back(rank);
  for (int rank = 0; rank < 2 * gpus; ++rank) pair.push_back(rank);
  for (int node = 0; node < 5; ++node) spread.push_back(node * gpus + gpus / 2);
  ragged = {0, 1, 2, 3, 8 * gpus, 8 * gpus + 1};
  return {{0, 1}, {0, 1, 2}, whole, {0, gpus}, {0, 1, gpus, gpus + 1}, spread, ragged, pair};
}

TEST(CostBounds, TransfersNeverBeatTheirLinksAndGrowWithBytes) {
  ASSERT_GE(machines().size(), 50u);
  for (const std::string& name : machines()) {
    const HardwareProfile p = committed(name);
    const Placement placement = nodes_of(16, p.gpus_per_node);
    const CostModel costs(p, placement);
    for (const std::vector<int>& ranks : groups_on(p.gpus_per_node)) {
      const bool crosses = ranks.back() >= p.gpus_per_node;
      for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce, OpKind::send}) {
        if (kind == OpKind::send && ranks.size() != 2) continue;
        Picoseconds before = 0;
        for (std::int64_t n = 1; n < std::int64_t{1} << 33; n = n * 3 + 1) {
          const TransferCost cost = costs.transfer(shape_of(kind, {n}), group_of(ranks));
          const double seconds = 1e-12 * static_cast<double>(cost.duration);
          const double bytes = wire_bytes(kind, 2.0 * static_cast<double>(n), static_cast<double>(ranks.size()));
          ASSERT_GE(seconds, bytes / p.nvlink_bandwidth) << name << " " << name_of(kind) << " " << n;
          ASSERT_GE(cost.duration, before) << name << " " << name_of(kind) << " " << n;
          ASSERT_GE(cost.duration, cost.latency);
          if (crosses) {
            // A node's share of the data has to pass the node's NICs: half of it at the very least.
            ASSERT_GE(seconds, bytes / 2 / (p.nics_per_node * p.nic_bandwidth))
                << name << " " << name_of(kind) << " " << n;
          }
          ASSERT_EQ(cost.links.empty(), !crosses);
          before = cost.duration;
        }
      }
    }
  }
}

TEST(CostBounds, AllToAllNeverBeatsItsLinksAndGrowsWithBytes) {
  for (const std::string& name : machines()) {
    const HardwareProfile p = committed(name);
    const bool inside = std::any_of(p.intra_node.begin(), p.intra_node.end(),
                                    [](const CollectiveFit& fit) { return fit.op == "all_to_all"; });
    if (!inside) continue;  // V100: no public table
    for (const int nodes : {1, 2, 16}) {
      const CollectiveSpan span = even_span(p, nodes * p.gpus_per_node, nodes);
      const double ranks = span.ranks, leaving = 1 - 1.0 / nodes;
      double before = 0;
      for (double bytes = 8; bytes < 1e11; bytes *= 3) {
        const double seconds = collective_time(p, Collective::all_to_all, bytes, span).seconds;
        // What a rank keeps it doesn't send; what leaves the node passes a NIC.
        ASSERT_GE(seconds * (1 + 1e-12), bytes * (nodes == 1 ? (ranks - 1) / ranks : 0) / p.nvlink_bandwidth) << name;
        ASSERT_GE(seconds * p.nic_bandwidth * (1 + 1e-12), bytes * leaving) << name << " on " << nodes << " nodes";
        ASSERT_GE(seconds, before) << name << " " << bytes;
        before = seconds;
      }
    }
  }
}

// 4 GFLOP each: square against a thin row-parallel slice (k ramp) and a tall one (traffic).
TEST(CostShape, GemmTimeDependsOnShapeNotOnlyOnFlops) {
  for (const char* name : {"dgx-a100-80g", "dgx-h100"}) {
    const HardwareProfile p = committed(name);
    const Placement placement = nodes_of(1, 8);
    const CostModel costs(p, placement);
    const auto time = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
      return costs.compute(shape_of(OpKind::gemm, {m, n, k, 1}), Site::mlp);
    };
    EXPECT_GT(time(8192, 8192, 128), time(2048, 2048, 2048) * 5 / 4) << name;
    EXPECT_GT(time(8192, 8192, 128), time(8192, 2048, 512)) << name;
  }
}

TEST(CostShape, TensorParallelGroupsAcrossNodesAreSlower) {
  Placement packed = nodes_of(2, 8), dealt = packed;
  for (int rank = 0; rank < 16; ++rank) {
    dealt.node[static_cast<std::size_t>(rank)] = rank % 2;
    dealt.slot[static_cast<std::size_t>(rank)] = rank / 2;
  }
  const OpShape gather = shape_of(OpKind::all_gather, {40 * kMi});  // 2048 x 4 x 5120 activations in bf16: 80 MiB
  Picoseconds slowest = 0;
  for (const char* name : {"dgx-h100", "dgx-h100-8x100g", "dgx-h100-1x100g"}) {
    const HardwareProfile p = committed(name);
    const CostModel inside(p, packed), across(p, dealt);
    const Group group = group_of({0, 1, 2, 3});
    const Picoseconds dealt_time = across.transfer(gather, group).duration;
    EXPECT_GT(dealt_time, inside.transfer(gather, group).duration) << name;
    EXPECT_GT(dealt_time, slowest) << name;
    slowest = dealt_time;
  }
}

TEST(CostIdeal, OnlyLayersCostAndMatrixProductsRunAtPeak) {
  const HardwareProfile p = committed("ideal");
  const Placement placement = nodes_of(2, 8);
  const CostModel costs(p, placement);
  const OpShape gemm = shape_of(OpKind::gemm, {512, 256, 128, 1});
  EXPECT_EQ(costs.compute(gemm, Site::attention),
            static_cast<Picoseconds>(std::llround(2.0 * 512 * 256 * 128 / 989.4e12 * 1e12)));
  EXPECT_EQ(costs.compute(shape_of(OpKind::add, {kMi}), Site::mlp),
            static_cast<Picoseconds>(std::llround(6.0 * kMi / 3350e9 * 1e12)));
  OpShape flash = shape_of(OpKind::flash_attention, {512, 1, 2, 128, 0, 1});
  flash.causal = true;
  EXPECT_EQ(costs.compute(flash, Site::attention),
            static_cast<Picoseconds>(std::llround(4.0 * 2 * 512 * 512 * 128 / 2 / 989.4e12 * 1e12)));
  for (const Site site :
       {Site::embedding, Site::final_norm, Site::head, Site::loss, Site::pipeline, Site::gradients, Site::optimizer})
    EXPECT_EQ(costs.compute(gemm, site), 0) << name_of(site);
  const TransferCost free = costs.transfer(shape_of(OpKind::all_reduce, {kMi}), group_of({0, 8}));
  EXPECT_EQ(free.duration, 0);
  EXPECT_TRUE(free.links.empty());
}

}  // namespace
}  // namespace benchsuite
