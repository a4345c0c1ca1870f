// What one layer keeps from its forward pass for its backward pass of one micro-batch, and the policy that decides it.
#pragma once

#include <array>
#include <cstdint>

#include "engine/model/terms.h"
#include "engine/parallel/context.h"

namespace benchsuite {

/// Everything a layer could keep. Each becomes a term of the memory report.
enum class Save : std::uint8_t {
  attention_input, attention_statistics, attention_norm, qkv,
  softmax_output, softmax_dropout_mask, softmax_dropped, attention_log_sum, context, attention_output_mask,
  mlp_input, mlp_statistics, mlp_norm, fc1_output, gelu_output, mlp_output_mask,
  attention_scaled, context_copy, mlp_scaled, silu_output, rotated, context_operand,
};
inline constexpr int kSaves = 22;

/// The memory term of a kept tensor; the two lists run in parallel.
constexpr Term term_of(Save save) {
  return static_cast<Term>(index_of(Term::attention_input) + static_cast<std::uint32_t>(save));
}
static_assert(term_of(Save::context_operand) == Term::context_operand);

/// A set of Saves.
class SaveSet {
 public:
  static constexpr SaveSet all() { return SaveSet((1u << kSaves) - 1); }
  static constexpr SaveSet none() { return SaveSet(0); }
  constexpr SaveSet without(std::initializer_list<Save> saves) const {
    std::uint32_t bits = bits_;
    for (const Save save : saves) bits &= ~(1u << static_cast<int>(save));
    return SaveSet(bits);
  }
  constexpr bool contains(Save save) const { return bits_ >> static_cast<int>(save) & 1u; }

 private:
  constexpr explicit SaveSet(std::uint32_t bits) : bits_(bits) {}
  std::uint32_t bits_;
};

/// The tensors kept by one layer for one micro-batch. Every kept tensor goes through `finish`; every one is taken or
/// dropped exactly once.
class LayerState {
 public:
  explicit LayerState(SaveSet keep = SaveSet::none()) : keep_(keep) {}

  bool keeps(Save save) const { return keep_.contains(save); }

  /// The forward pass is done with `tensor`: keep it for the backward pass, or release it.
  void finish(ParallelContext& context, Save save, const Tensor& tensor) {
    if (!keep_.contains(save)) return context.rec.release(tensor);
    slot(save) = tensor;
    if (context.rec.at().phase == Phase::forward) context.rec.mark_saved(tensor, index_of(term_of(save)));
  }
  /// Puts a tensor back that a recompute made.
  void put(Save save, const Tensor& tensor) { slot(save) = tensor; }

  bool has(Save save) const { return slots_[static_cast<int>(save)].valid(); }
  const Tensor& get(Save save) const {
    const Tensor& tensor = slots_[static_cast<int>(save)];
    CHECK(tensor.valid()) << "the forward pass kept no tensor " << static_cast<int>(save);
    return tensor;
  }
  /// The backward pass is done with it.
  void drop(ParallelContext& context, Save save) {
    context.rec.release(get(save));
    slot(save) = {};
  }

 private:
  Tensor& slot(Save save) { return slots_[static_cast<int>(save)]; }

  SaveSet keep_;
  std::array<Tensor, kSaves> slots_{};
};

/// Whether fused attention takes copies in a layout of its own (Stack::strided_attention): with one sequence the layer's is the same.
inline bool copies_context(const Layout& layout, const Stack& stack) {
  return layout.attention == AttentionKernel::flash && !stack.strided_attention && layout.micro_batch > 1;
}

/// Whether unfused attention takes copies of queries, keys and values: the linear's output goes, and they are as large.
inline bool copies_queries(const Layout& layout, const Stack& stack) {
  return layout.attention == AttentionKernel::unfused && !stack.strided_attention && layout.micro_batch > 1;
}

/// Memory that a framework's elementary operations keep for their backward passes and no op of ours reads: it is only there.
inline void keep_beside(ParallelContext& context, std::int64_t elements, Save save, LayerState& state) {
  if (elements == 0) return;
  state.finish(context, save,
               context.rec.allocate(Purpose::activations, index_of(term_of(save)), context.dtype, {1, 1, 1, elements}));
}

}  // namespace benchsuite
