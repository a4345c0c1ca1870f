// The vocabulary of a Program: what an op is, on which stream it runs, what it touches.
//
// What each kind computes, its operands in order and its dimensions stand in engine/device/op_table.h;
// here are only the words.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "engine/core/dtype.h"

namespace benchsuite {

enum class OpKind : std::uint8_t {
  // matrix products
  gemm,
  attention_scores, attention_scores_backward_q, attention_scores_backward_k,
  attention_context, attention_context_backward_p, attention_context_backward_v,
  flash_attention, flash_attention_backward,
  // memory-bound layers
  embedding, embedding_backward, position, position_backward,
  layernorm, layernorm_backward, rmsnorm, rmsnorm_backward,
  softmax, softmax_backward,
  bias_add, gelu, gelu_backward, bias_gelu, bias_gelu_backward, swiglu, swiglu_backward,
  rope, rope_backward,
  dropout, dropout_backward, bias_dropout_add, bias_gradient,
  add, accumulate, sum_pieces, cast, fill, pack, unpack,
  // vocabulary-parallel cross-entropy
  ce_max, ce_sum, ce_loss, ce_backward,
  // optimizer
  sum_squares, clip_coefficient, adamw,
  // communication
  all_gather, reduce_scatter, all_reduce, shift, send, receive,
};
inline constexpr int kOpKinds = static_cast<int>(OpKind::receive) + 1;

constexpr bool is_communication(OpKind kind) { return kind >= OpKind::all_gather; }
constexpr bool is_point_to_point(OpKind kind) { return kind == OpKind::send || kind == OpKind::receive; }

/// Why an op runs. `recompute` is a forward op run again for the backward pass.
enum class Phase : std::uint8_t { forward, recompute, backward, gradient_sync, optimizer, parameter_gather };
inline constexpr int kPhases = 6;

/// Which part of the model or of the step an op belongs to.
enum class Site : std::uint8_t { embedding, attention, mlp, final_norm, head, loss, pipeline, gradients, optimizer };
inline constexpr int kSites = 9;

/// One stream per (group, direction); all members of a group post on it in the same order.
enum class StreamKind : std::uint8_t {
  compute,
  tensor,             ///< tensor-parallel collectives
  pipeline_send_next, pipeline_receive_previous,  ///< activations
  pipeline_send_previous, pipeline_receive_next,  ///< gradients
  data,               ///< gradient reductions; gathers of updated parameters
  parameters,         ///< ZeRO-3: gathers before use
  embedding,          ///< tied-embedding gradient all-reduce
  global,             ///< gradient norm, loss
};
inline constexpr int kStreams = 10;

/// What a collective does with its elements.
enum class Reduction : std::uint8_t { none, sum, max };

/// Which generation of fused attention runs: the GPU's usual one, or one that a software names.
enum class FusedAttention : std::uint8_t { usual, flash_1, flash_2, triton };
inline constexpr int kFusedAttentions = 4;
std::string_view name_of(FusedAttention kernel);

/// Everything that decides what an op computes and what it costs, apart from where its operands lie.
/// Interned per Program: two equal shapes have one index, so a device prices each shape once.
struct OpShape {
  OpKind kind{};
  DType dtype{};                       ///< of the inputs
  DType out_dtype{};                   ///< of the output
  bool transpose_a = false;            ///< gemm: A is stored [k, m]
  bool transpose_b = false;            ///< gemm: B is stored [n, k]
  bool accumulate = false;             ///< output += result
  bool causal = false;                 ///< attention and softmax: upper triangle masked
  bool stores_mask = false;            ///< dropout: the mask is an operand (else regenerated)
  bool eager = false;                  ///< kernel by kernel, as a framework computes what it has no fused kernel for
  std::uint8_t extra_kernels = 0;      ///< small ones launched beside it: copies of what it permutes, additions of vectors
  Reduction reduction = Reduction::none;
  FusedAttention attention{};          ///< fused attention only
  std::array<std::int64_t, 6> dims{};  ///< meaning by kind, see op_table.h
  std::array<float, 2> scalars{};      ///< dropout probability, scale, ...: meaning by kind

  friend bool operator==(const OpShape&, const OpShape&) = default;
};

using OpId = std::uint32_t;     ///< index into Program::ops, which is recording order
using BufferId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xFFFFFFFFu;

enum class Access : std::uint8_t { read, write, read_write };

/// A byte range an op touches.
struct Operand {
  std::uint64_t offset = 0;  ///< bytes from the start of the buffer
  std::uint64_t bytes = 0;
  BufferId buffer = kNone;
  Access access = Access::read;
};

struct Op {
  OpKind kind{};
  Phase phase{};
  Site site{};
  StreamKind stream{};
  std::uint16_t operand_count = 0;
  std::uint16_t wait_count = 0;
  std::uint32_t shape = 0;          ///< index into Program::shapes
  std::uint32_t first_operand = 0;  ///< index into Program::operands
  std::uint32_t first_wait = 0;     ///< index into Program::waits
  std::uint32_t group = kNone;      ///< index into Program::groups, communication only
  std::uint32_t group_sequence = 0; ///< how many ops of this group came before on this rank
  std::int32_t micro_batch = -1;    ///< -1: belongs to the whole step
  std::int16_t layer = -1;          ///< global layer index, -1: none
  std::int16_t chunk = -1;          ///< model chunk of the interleaved schedule
  bool joins_launch = false;        ///< the host issues it with the op recorded before it, by the same call
  bool host_waits = false;          ///< the host issues it, and what is recorded after it, only when it can start (recorder.h)
};

std::string_view name_of(OpKind kind);
std::string_view name_of(Phase phase);
std::string_view name_of(Site site);
std::string_view name_of(StreamKind stream);

}  // namespace benchsuite
