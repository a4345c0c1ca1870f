// A model chunk: the consecutive layers one pipeline rank runs in one pass, with the embedding before the first and the head
// after the last; forward beside backward, recompute in between.
#pragma once

#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>

#include "engine/model/attention_block.h"
#include "engine/model/embedding.h"
#include "engine/model/head.h"
#include "engine/model/mlp_block.h"
#include "engine/model/pass_observer.h"
#include "engine/model/recompute.h"

namespace benchsuite {

struct LayerParameters {
  AttentionParameters attention;
  MlpParameters mlp;
};

/// Null where the chunk or the family has none.
struct EndParameters {
  Parameter *words = nullptr, *positions = nullptr;                                ///< embedding (first chunk)
  Parameter *final_gamma = nullptr, *final_beta = nullptr, *head_words = nullptr;  ///< head (last chunk)
};

class Chunk {
 public:
  /// Chunk `index` of the rank: layers [first_layer, first_layer + layers.size()) of the model. `loss`: fp32 scalar the head
  /// adds to. `observer` hears of every part before and after it runs.
  Chunk(ModelContext& context, std::int64_t index, std::int64_t first_layer, const std::vector<LayerParameters>& layers,
        const EndParameters& ends, const Tensor& loss, PassObserver& observer);


  /// Forward of micro-batch `i`. `input` [s/t | s, b, h] is taken over (ignored by the first chunk). Returns the output
  /// for the next stage, or an invalid tensor where the head ends the pass.
  Tensor forward(std::int32_t i, const Tensor& input);

  /// Backward of micro-batch `i`. `doutput` is taken over (ignored where the head starts the pass). Returns the gradient for
  /// the previous stage, or an invalid tensor on the first.
  Tensor backward(std::int32_t i, const Tensor& doutput);

 private:
  struct Layer {
    AttentionBlock attention;
    MlpBlock mlp;
  };
  struct MicroBatchState {
    std::vector<LayerState> layers;       // by layer of the chunk
    std::vector<Tensor> group_inputs;     // by group, recomputed groups only: [s/t | s, b, h], or 1/t of the elements
    Embedding::State embedding;
    Head::State head;
  };

  /// Until it goes, what is recorded is one graph, where the stack captures all these parts of a layer.
  Recorder::LaunchGuard graph(std::initializer_list<Part::Kind> parts);
  Tensor forward_layer(std::int64_t index, const Tensor& x, LayerState& state, bool release_input);
  Tensor backward_layer(std::int64_t index, const Tensor& dy, LayerState& state);
  Tensor keep_piece(const Tensor& input);
  void recompute_group(const LayerGroup& group, MicroBatchState& state, std::size_t group_index);
  MicroBatchState& begin(std::int32_t i);
  MicroBatchState& state_of(std::int32_t i);
  void end(std::int32_t i);
  void enter(std::int32_t i, Phase phase);

  ModelContext& context_;
  PassObserver& observer_;
  std::int64_t index_;
  std::int64_t first_layer_;
  std::deque<Layer> layers_;
  std::vector<LayerGroup> groups_;
  SaveSet keep_;
  bool distributes_;  // of what a recomputed group keeps, each tensor rank keeps its part
  std::optional<Embedding> embedding_;
  std::optional<Head> head_;
  std::vector<std::unique_ptr<MicroBatchState>> states_;  // in flight, by micro-batch
  std::vector<std::unique_ptr<MicroBatchState>> spare_;   // reused, so that a long step does not allocate
};

}  // namespace benchsuite
