// Programs written by hand, whose ops carry their own price: the duration stands in the shape.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "engine/device/sim/priced_world.h"
#include "engine/program/program.h"

namespace benchsuite::toy {

/// What a toy transfer costs alone.
struct Price {
  Picoseconds duration = 0;
  Picoseconds latency = 0;
  std::int64_t sm_permille = 0;
  std::int64_t memory_permille = 0;
};

/// Label of an op.
struct At {
  Phase phase = Phase::forward;
  std::int32_t micro_batch = -1;
  std::int16_t chunk = -1;
  std::int16_t layer = -1;
};

class Builder {
 public:
  explicit Builder(int rank) { program.rank = rank; }

  OpId compute(Picoseconds duration, const std::vector<OpId>& waits = {}, At at = {}) {
    return compute(ComputeCost{duration}, waits, at);
  }

  OpId compute(ComputeCost cost, const std::vector<OpId>& waits = {}, At at = {}) {
    OpShape shape;
    shape.kind = OpKind::gemm;
    shape.dims = {0, cost.duration, cost.sm_permille, cost.memory_permille, 0, 0};
    return add(shape, StreamKind::compute, kNone, waits, at);
  }

  OpId transfer(OpKind kind, StreamKind stream, const Group& group, Price price, const std::vector<OpId>& waits = {},
                At at = {}, std::int64_t elements = 1) {
    OpShape shape;
    shape.kind = kind;
    shape.dims = {elements, price.duration, price.latency, price.sm_permille, price.memory_permille, 0};
    auto found = std::find(program.groups.begin(), program.groups.end(), group);
    const auto local = static_cast<std::uint32_t>(found - program.groups.begin());
    if (found == program.groups.end()) {
      program.groups.push_back(group);
      sequence_.push_back(0);
    }
    const OpId id = add(shape, stream, local, waits, at);
    program.ops[id].group_sequence = sequence_[local]++;
    return id;
  }

  Program program;

 private:
  OpId add(const OpShape& shape, StreamKind stream, std::uint32_t group, const std::vector<OpId>& waits, At at) {
    auto found = std::find(program.shapes.begin(), program.shapes.end(), shape);
    Op op;
    op.kind = shape.kind;
    op.phase = at.phase;
    op.site = Site::mlp;
    op.stream = stream;
    op.shape = static_cast<std::uint32_t>(found - program.shapes.begin());
    if (found == program.shapes.end()) program.shapes.push_back(shape);
    op.first_wait = static_cast<std::uint32_t>(program.waits.size());
    op.wait_count = static_cast<std::uint16_t>(waits.size());
    program.waits.insert(program.waits.end(), waits.begin(), waits.end());
    op.group = group;
    op.micro_batch = at.micro_batch;
    op.chunk = at.chunk;
    op.layer = at.layer;
    program.ops.push_back(op);
    return static_cast<OpId>(program.ops.size() - 1);
  }

  std::vector<std::uint32_t> sequence_;
};

using Links = std::function<std::vector<LinkId>(const OpShape&, const Group&)>;

/// Prices from the shapes; `links` says which links a transfer loads (none by default).
inline CostSource costs(Links links = {}, HostCost host = {}) {
  return {[](const OpShape& shape, Site) {
            return ComputeCost{shape.dims[1], static_cast<std::int32_t>(shape.dims[2]),
                               static_cast<std::int32_t>(shape.dims[3])};
          },
          [links](const OpShape& shape, const Group& group) {
            TransferCost cost;
            cost.duration = shape.dims[1];
            cost.latency = shape.dims[2];
            cost.sm_permille = static_cast<std::int32_t>(shape.dims[3]);
            cost.memory_permille = static_cast<std::int32_t>(shape.dims[4]);
            if (links) cost.links = links(shape, group);
            return cost;
          },
          host};
}

inline std::vector<const Program*> programs_of(const std::vector<Builder>& builders) {
  std::vector<const Program*> programs;
  for (const Builder& builder : builders) programs.push_back(&builder.program);
  return programs;
}

inline ReplayResult run_whole(const std::vector<Builder>& builders, const CostSource& source = costs()) {
  return replay(price(whole_world(programs_of(builders)), source));
}

inline void expect_span(const Span& span, Picoseconds ready, Picoseconds start, Picoseconds end) {
  EXPECT_EQ(span.ready, ready);
  EXPECT_EQ(span.start, start);
  EXPECT_EQ(span.end, end);
}

}  // namespace benchsuite::toy
