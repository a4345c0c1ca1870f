// A ParallelContext with the model's dimensions as this rank sees them.
#pragma once

#include "engine/model/config.h"
#include "engine/model/terms.h"
#include "engine/parallel/context.h"

namespace benchsuite {

/// The input tensors of one micro-batch, filled by the host before the step.
struct MicroBatchInputs {
  Tensor tokens;   // [s, b] int32, first stage only
  Tensor labels;   // [s, b] int32, last stage only
  Tensor samples;  // [b + 2] int32: sample indices, step, seed
};

struct ModelContext : ParallelContext {
  ModelContext(const ModelConfig& model_in, const Layout& layout_in, const Stack& stack_in, const RankGrid& grid_in,
               Recorder& recorder, int rank_in, const Faults& faults_in);

  const ModelConfig& model;
  const std::int64_t s;        ///< the rank's part of the sequence: whole, or 1/c of it under context parallelism
  const std::int64_t s_local;  ///< s, or s/t under sequence parallelism
  const std::int64_t b, h;
  const std::int64_t a_local;  ///< heads on this rank
  const std::int64_t kv_local;  ///< key-value heads on this rank
  const std::int64_t d;        ///< head size
  const std::int64_t f_local;  ///< feed-forward width on this rank
  const std::int64_t v_local;  ///< vocabulary rows on this rank, padded
  const float dropout;
  std::vector<MicroBatchInputs> inputs;  ///< by micro-batch

  const MicroBatchInputs& current_inputs() const { return inputs[static_cast<std::size_t>(rec.at().micro_batch)]; }
  /// Of the packed queries, keys and values: [u, a/u + 2, d], each key-value head with the query heads it serves.
  std::int64_t qkv_width() const { return (a_local + 2 * kv_local) * d; }
  std::int64_t first_position() const { return sequence_parallel() ? at.tp * s_local : 0; }

  bool drops() const { return dropout > 0; }
  bool stores_masks() const { return drops() && stack.stores_dropout_masks; }

  Tensor activation(Term term, std::int64_t positions, std::int64_t width) {
    return rec.allocate(Purpose::activations, index_of(term), dtype, {1, positions, b, width});
  }
};

}  // namespace benchsuite
