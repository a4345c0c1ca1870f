// What a layer needs to know to record itself on one rank: the layout, the stack, the rank's groups, the recorder.
#pragma once

#include <cstdint>

#include "engine/parallel/layout.h"
#include "engine/parallel/rank_grid.h"
#include "engine/parallel/stack.h"
#include "engine/program/recorder.h"

namespace benchsuite {

/// Ways to break a recording on purpose, so that tests can see the suite notice.
struct Faults {
  bool drop_recomputed_collectives = false;
  bool drop_tied_embedding_reduce = false;
};

class ParallelContext {
 public:
  ParallelContext(const Layout& layout, const Stack& stack, const RankGrid& grid, Recorder& recorder, int rank,
                  const Faults& faults);

  const Layout& layout;
  const Stack& stack;
  const RankGrid& grid;
  Recorder& rec;
  const Faults faults;
  const int rank;
  const Coordinates at;
  const DType dtype;  ///< of parameters and activations; fp8 casts the operands of layers' products alone

  bool first_stage() const { return at.pp == 0; }
  bool last_stage() const { return at.pp == layout.pp - 1; }
  bool sequence_parallel() const { return layout.sequence_parallel && layout.tp > 1; }
  /// Kernels that add `vectors` new gradients of biases or norms to the accumulated ones: none where the op's own does.
  std::uint8_t vector_additions(int vectors) const {
    if (stack.fused_gradient_accumulation) return 0;
    return static_cast<std::uint8_t>(stack.casts_added_gradients ? 2 * vectors : vectors);
  }
  /// This rank's place among layout.replicas(), as RankGrid::data orders them.
  std::int64_t replica() const { return at.dp * layout.cp + at.cp; }
  /// Whether inputs of column-parallel linears come whole to them (Stack::keeps_gathered_inputs).
  bool keeps_gathered() const { return stack.keeps_gathered_inputs && sequence_parallel(); }
  /// Extent of a sequence of `s` on this rank outside the tensor-parallel regions.
  std::int64_t local_sequence(std::int64_t s) const { return sequence_parallel() ? div_exact(s, layout.tp) : s; }

  std::uint32_t tensor_group, data_group, parameter_group, model_parallel_group, world_group, embedding_group;
  std::uint32_t to_next, from_previous, to_previous, from_next;  ///< kNone when p = 1
};

}  // namespace benchsuite
