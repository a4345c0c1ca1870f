#include "engine/model/chunk.h"

#include <algorithm>

#include "engine/parallel/tensor_region.h"

namespace benchsuite {

Chunk::Chunk(ModelContext& context, std::int64_t index, std::int64_t first_layer,
             const std::vector<LayerParameters>& layers, const EndParameters& ends, const Tensor& loss,
             PassObserver& observer)
    : context_(context),
      observer_(observer),
      index_(index),
      first_layer_(first_layer),
      groups_(layer_groups(context.layout.recompute, static_cast<std::int64_t>(layers.size()))),
      keep_(kept_by_layer(context.layout.recompute)),
      distributes_(context.layout.recompute.distribute_saved_activations),
      states_(static_cast<std::size_t>(context.layout.micro_batches())) {
  for (const LayerParameters& layer : layers) {
    layers_.push_back({AttentionBlock(context, layer.attention), MlpBlock(context, layer.mlp)});
  }
  if (ends.words) embedding_.emplace(context, *ends.words, ends.positions);
  if (ends.head_words) head_.emplace(context, *ends.final_gamma, ends.final_beta, *ends.head_words, loss);
}

void Chunk::enter(std::int32_t i, Phase phase) {
  context_.rec.at().micro_batch = i;
  context_.rec.at().phase = phase;
  context_.rec.at().layer = -1;
}

Chunk::MicroBatchState& Chunk::begin(std::int32_t i) {
  auto& state = states_[static_cast<std::size_t>(i)];
  CHECK(!state) << "micro-batch " << i << " is forwarded twice";
  if (spare_.empty()) {
    state = std::make_unique<MicroBatchState>();
    state->layers.resize(layers_.size());
    state->group_inputs.resize(groups_.size());
  } else {
    state = std::move(spare_.back());
    spare_.pop_back();
  }
  return *state;
}

Chunk::MicroBatchState& Chunk::state_of(std::int32_t i) {
  CHECK(states_[static_cast<std::size_t>(i)]) << "micro-batch " << i << " goes backward before forward";
  return *states_[static_cast<std::size_t>(i)];
}

void Chunk::end(std::int32_t i) { spare_.push_back(std::move(states_[static_cast<std::size_t>(i)])); }

Recorder::LaunchGuard Chunk::graph(std::initializer_list<Part::Kind> parts) {
  const GraphScope& scope = context_.stack.cuda_graph_scope;
  const auto captured = [&](Part::Kind part) { return part == Part::Kind::attention ? scope.attention : scope.mlp; };
  return context_.rec.launch_together(context_.stack.cuda_graphs && !scope.full_iteration &&
                                      std::all_of(parts.begin(), parts.end(), captured));
}

Tensor Chunk::forward_layer(std::int64_t index, const Tensor& x, LayerState& state, bool release_input) {
  context_.rec.at().layer = static_cast<std::int16_t>(first_layer_ + index);
  Layer& layer = layers_[static_cast<std::size_t>(index)];
  const Part attention{Part::Kind::attention, index}, mlp{Part::Kind::mlp, index};
  const auto whole = graph({Part::Kind::attention, Part::Kind::mlp});
  observer_.begin(index_, attention);
  auto first = graph({Part::Kind::attention});
  const Tensor middle = layer.attention.forward(x, state, release_input);
  first.end();
  observer_.end(index_, attention);
  observer_.begin(index_, mlp);
  auto second = graph({Part::Kind::mlp});
  const Tensor y = layer.mlp.forward(middle, state);
  second.end();
  observer_.end(index_, mlp);
  return y;
}

Tensor Chunk::backward_layer(std::int64_t index, const Tensor& dy, LayerState& state) {
  context_.rec.at().layer = static_cast<std::int16_t>(first_layer_ + index);
  Layer& layer = layers_[static_cast<std::size_t>(index)];
  const Part attention{Part::Kind::attention, index}, mlp{Part::Kind::mlp, index};
  const auto whole = graph({Part::Kind::attention, Part::Kind::mlp});
  observer_.begin(index_, mlp);
  auto first = graph({Part::Kind::mlp});
  const Tensor dmiddle = layer.mlp.backward(dy, state);
  first.end();
  observer_.end(index_, mlp);
  observer_.begin(index_, attention);
  auto second = graph({Part::Kind::attention});
  const Tensor dx = layer.attention.backward(dmiddle, state);
  second.end();
  observer_.end(index_, attention);
  context_.rec.release(dmiddle);
  return dx;
}

Tensor Chunk::forward(std::int32_t i, const Tensor& input) {
  enter(i, Phase::forward);
  MicroBatchState& state = begin(i);
  Tensor x = input;
  if (embedding_) {
    observer_.begin(index_, {Part::Kind::embedding});
    x = embedding_->forward(state.embedding);
    observer_.end(index_, {Part::Kind::embedding});
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const LayerGroup& group = groups_[g];
    const Tensor input_of_group = x;
    if (group.recomputed && !distributes_) context_.rec.mark_saved(x, index_of(Term::layer_group_input));
    for (std::int64_t index = group.first; index < group.first + group.count; ++index) {
      LayerState& layer = state.layers[static_cast<std::size_t>(index)];
      layer = LayerState(group.recomputed ? SaveSet::none() : keep_);
      const bool release_input = !(group.recomputed && index == group.first);
      x = forward_layer(index, x, layer, release_input);
    }
    if (group.recomputed) state.group_inputs[g] = distributes_ ? keep_piece(input_of_group) : input_of_group;
  }
  context_.rec.at().layer = -1;
  if (!head_) return x;
  observer_.begin(index_, {Part::Kind::head});
  head_->forward(x, state.head);
  observer_.end(index_, {Part::Kind::head});
  return {};
}

Tensor Chunk::backward(std::int32_t i, const Tensor& doutput) {
  enter(i, Phase::backward);
  MicroBatchState& state = state_of(i);
  Tensor gradient = doutput;
  if (head_) {
    observer_.begin(index_, {Part::Kind::head});
    gradient = head_->backward(state.head);
    observer_.end(index_, {Part::Kind::head});
  }
  for (std::size_t g = groups_.size(); g-- > 0;) {
    const LayerGroup& group = groups_[g];
    if (group.recomputed) recompute_group(group, state, g);
    for (std::int64_t index = group.first + group.count; index-- > group.first;) {
      const Tensor dx = backward_layer(index, gradient, state.layers[static_cast<std::size_t>(index)]);
      context_.rec.release(gradient);
      gradient = dx;
    }
  }
  if (embedding_) {
    context_.rec.at().layer = -1;
    observer_.begin(index_, {Part::Kind::embedding});
    embedding_->backward(gradient, state.embedding);
    observer_.end(index_, {Part::Kind::embedding});
    context_.rec.release(gradient);
    gradient = {};
  }
  end(i);
  return gradient;
}

/// Copies this rank's part of the input of a group, all that is kept of it, and releases the whole.
Tensor Chunk::keep_piece(const Tensor& input) {
  Recorder& rec = context_.rec;
  const Tensor mine = piece_of(context_, input);
  const Tensor kept =
      rec.allocate(Purpose::activations, index_of(Term::layer_group_input), input.dtype, {1, 1, 1, mine.elements()});
  rec.record({.kind = OpKind::cast, .dtype = mine.dtype, .out_dtype = mine.dtype, .dims = {mine.elements()}},
             {reads(mine), writes(kept)});
  rec.mark_saved(kept, index_of(Term::layer_group_input));
  rec.release(input);
  return kept;
}

void Chunk::recompute_group(const LayerGroup& group, MicroBatchState& state, std::size_t group_index) {
  context_.rec.at().phase = Phase::recompute;
  Tensor x = state.group_inputs[group_index];
  if (distributes_) {
    context_.rec.at().layer = static_cast<std::int16_t>(first_layer_ + group.first);
    context_.rec.at().site = Site::attention;
    x = gather_pieces(context_, x, {1, context_.s, context_.b, context_.h}, index_of(Term::gathered));
  }
  for (std::int64_t index = group.first; index < group.first + group.count; ++index) {
    LayerState& layer = state.layers[static_cast<std::size_t>(index)];
    layer = LayerState(SaveSet::all());
    x = forward_layer(index, x, layer, true);
  }
  context_.rec.release(x);  // the group's output: its gradient is already here
  context_.rec.at().phase = Phase::backward;
}

}  // namespace benchsuite
