// The names of everything a step allocates: what a byte of memory is for. `saved` terms are what Korthikanti et al. 2022
// (section 4) count; the coefficient of s b h (or a s^2 b) in bytes at 16 bit stands beside each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace benchsuite {

enum class Term : std::uint32_t {
  // inputs and outputs of the step
  tokens, labels, samples, step_scalars, loss, gradient_norm,
  // state
  parameter_bucket, gradient_bucket, master_bucket, first_moment, second_moment,
  parameter_shard, gathered_parameters, unreduced_gradients, reduced_gradients,  // ZeRO-2 and 3
  // kept from forward to backward, per layer
  attention_input,        // 2 sbh
  attention_statistics,   // 8 sb
  attention_norm,         // 2 sbh
  qkv,                    // 6 sbh
  softmax_output,         // 2 a s^2 b
  softmax_dropout_mask,   // 1 a s^2 b
  softmax_dropped,        // 2 a s^2 b
  attention_log_sum,      // 4 a s b (flash)
  context,                // 2 sbh
  attention_output_mask,  // 1 sbh
  mlp_input,              // 2 sbh
  mlp_statistics,         // 8 sb
  mlp_norm,               // 2 sbh
  fc1_output,             // 2 sbf
  gelu_output,            // 2 sbf
  mlp_output_mask,        // 1 sbh
  // kept by a framework's elementary operations beside these
  attention_scaled,       // 4 sbh: the norm before gamma, and fp32 in place of its input
  context_copy,           // 2 sbh (flash)
  mlp_scaled,             // 4 sbh
  silu_output,            // 2 sbf
  rotated,                // 4 sbh: queries and keys beside the linear's output
  context_operand,        // 1 sbh (fp8)
  layer_group_input,      // 2 sbh: the checkpoint of full recompute
  // kept at the ends of the model
  embedding_mask,         // 1 sbh
  final_input,            // 2 sbh
  final_statistics,       // 8 sb
  final_norm,             // 2 sbh
  logits,                 // 4 sbV
  // used and released inside one pass
  transient, operand, bias_sum, attention_scores, logits_16bit, cross_entropy_rows,
  layer_output, gradient_of_output, gradient_of_input, gradient_inside, weight_gradient,
  // communication buffers
  gathered, reduced, received_activation, received_gradient, packed_gradients,
  count
};

inline constexpr std::uint32_t index_of(Term term) { return static_cast<std::uint32_t>(term); }

/// Names by index, as the Recorder wants them.
std::vector<std::string> term_names();

}  // namespace benchsuite
