// The stack: documented execution features of a training software. Never speed factors.
//
// It decides which kernels are fused, whether dropout masks are stored, in which dtype gradients accumulate and reduce,
// and where the wait of a collective stands (that is overlap).
#pragma once

#include <cstdint>
#include <string>

#include "engine/core/dtype.h"
#include "engine/core/json_reader.h"
#include "engine/program/op.h"

namespace benchsuite {

/// How ZeRO-3 gathers parameters (DeepSpeed stage 3; FSDP). All sizes are elements of whole parameters.
struct ShardedParameterConfig {
  enum class Unit : std::uint8_t {
    parameter,  ///< every parameter by itself, its gradient too (DeepSpeed before coalesced gathers)
    block,      ///< attention and MLP apart, as module hooks see them (DeepSpeed)
    layer       ///< a transformer layer (FSDP)
  };
  Unit unit = Unit::block;
  bool synchronous = false;  ///< the host waits for the device before each gather: nothing but the last one is hidden
  bool by_lists = false;     ///< collectives on lists of one tensor a member: each is copied by a kernel of its own
  std::int64_t prefetch_elements = 50'000'000;          ///< gathered ahead of use (stage3_prefetch_bucket_size)
  std::int64_t max_live_elements = 1'000'000'000;       ///< no prefetch beyond (stage3_max_live_parameters)
  std::int64_t max_reuse_distance = 1'000'000'000;      ///< kept when used again this near (stage3_max_reuse_distance)
  std::int64_t persistence_threshold = 100'000;         ///< parameters up to here stay whole

  friend bool operator==(const ShardedParameterConfig&, const ShardedParameterConfig&) = default;
};

/// What CUDA graphs capture (megatron-core cuda_graph_scope): whole steps, or parts of a layer, one graph each.
struct GraphScope {
  bool full_iteration = true;
  bool attention = false, mlp = false;  ///< not with full_iteration

  friend bool operator==(const GraphScope&, const GraphScope&) = default;
};

/// Where the host stops inside a step until the device has come so far, so that it does not run ahead with its launches.
struct HostWaits {
  bool inputs = false;     ///< a micro-batch's inputs are moved to the device by copies that the host waits for, before its forward
                           ///< passes on the first and the last stage
  bool exchanges = false;  ///< after exchanges with other stages that do not overlap; of a forward-backward pair that is interleaved,
                           ///< after both
  bool pieces = false;     ///< tensors that come in pieces (scatters_pipeline_activations): the host reads, of each, how to join it
  bool objects = false;    ///< activations go to other stages with objects of the host beside them: it waits to copy these to the
                           ///< device before it sends, and to read them behind the receive; gradients go alone
  bool sequence_lengths = false;  ///< attention is told how long sequences are: the host reads it of the device in every forward pass
                                  ///< of a layer, recomputed ones too

  friend bool operator==(const HostWaits&, const HostWaits&) = default;
};

/// What an 8-bit cast scales by: largest magnitudes of former steps, or the tensor's own, for which it is read once more.
enum class Fp8Scaling : std::uint8_t { delayed, current };

struct Stack {
  std::string name;
  std::string title;
  std::string source;  ///< where the features are documented

  bool fused_bias_gelu = true;
  bool fused_bias_dropout_add = true;
  bool fused_norm = true;           ///< RMSNorm is one kernel; else, as with the other fused_* below, the framework's chain of them
  bool fused_softmax = true;        ///< unfused attention: scale, mask and softmax
  std::int64_t fused_softmax_batches = 1;  ///< ... for a multiple of so many heads times sequences; else kernel by kernel in fp32
  bool adds_scores_bias = false;    ///< unfused attention: the scores' product adds to a copy of a bias of the positions (ALiBi)
  bool strided_attention = true;    ///< attention reads and writes the layer's layout; else copies beside its kernels
  bool fused_rope = true;
  bool fused_swiglu = true;
  bool fused_cross_entropy = true;  ///< minus the maximum, exp and sum
  bool stores_dropout_masks = true;      ///< one byte an element; else regenerated in backward
  FusedAttention fused_attention = FusedAttention::usual;  ///< what layout.attention "flash" runs
  Fp8Scaling fp8_scaling = Fp8Scaling::delayed;
  bool transposes_fp8 = true;       ///< 8-bit products sum over the innermost dimension of both operands only (Hopper)
  DType gradient_dtype = DType::fp32;    ///< main gradients and their reduction
  bool fused_gradient_accumulation = true;  ///< weight-gradient products add to the main gradient; else a kernel of its own
  bool casts_added_gradients = false;  ///< ... after another that copies the new gradient to the main one's type
  bool gradients_of_autograd = false;  ///< main gradients are a step's first products, kept until the optimizer has taken them
  bool overlaps_tensor_backward = true;  ///< dX reduction behind the weight gradient, re-gather behind dgrad
  bool overlaps_tensor_gemms = false;    ///< sequence parallel: products in tiles, each behind the exchange of another
  bool framework_loss = false;  ///< every tensor rank gathers whole rows of logits for the framework's cross-entropy (timed only)
  bool separate_gate_linear = false; ///< gate and up are linears of their own: gradients of their input are computed and reduced apart (timed only)
  bool keeps_gathered_inputs = false;  ///< sequence parallel: a column-parallel linear's input is kept whole; else gathered again
  bool recomputes_head = false;  ///< full recompute: the final norm and the head are layers like others, kept by their inputs
  bool keeps_stage_outputs = false;  ///< what a pipeline stage sends on stays until its micro-batch comes back
  bool scatters_pipeline_activations = false;  ///< without sequence parallelism: 1/t is sent, the receiver gathers
  bool overlaps_pipeline = false;        ///< 1F1B and GPipe: send and receive beside compute
  bool overlaps_pipeline_interleaved = true;
  bool overlaps_gradient_reduction = false;
  bool all_reduces_in_fp32 = false;  ///< ZeRO-0 and 1: gradients are widened, all-reduced whole and narrowed again, bucket by bucket
  bool overlaps_parameter_gather = false;  ///< ZeRO-1 and 2: updated parameters are gathered at their first use in the next step
  std::int64_t bucket_elements = 40'000'000;  ///< least elements of a gradient bucket; larger of this and 1 M d
  ShardedParameterConfig sharded_parameters;  ///< ZeRO-3 only

  // Host: how ops reach the device.
  bool cuda_graphs = false;  ///< what cuda_graph_scope names is captured and replayed, the rest launched op by op
  GraphScope cuda_graph_scope;  ///< cuda_graphs only
  HostWaits host_waits;          ///< not where whole steps are captured
  bool launch_blocking = false;  ///< the host waits for each kernel before it launches the next (CUDA_LAUNCH_BLOCKING=1)
  double step_fixed_s = 0;   ///< host work before the first launch of a step; host_source says where that is documented
  std::string host_source;

  // Memory outside the Program, per rank. 0 where no public document states a figure; memory_source says which.
  std::string memory_source;
  std::int64_t context_bytes = 0;       ///< CUDA context and loaded kernels
  std::int64_t communicator_bytes = 0;  ///< NCCL buffers, per communicator
  std::int64_t node_communicator_bytes = 0;  ///< more of each group's that reduces among GPUs of a node, over many channels
  std::int64_t workspace_bytes = 0;     ///< GEMM workspace of the compute stream
  std::int64_t segment_bytes = 0;       ///< the allocator takes memory from the device in multiples of this
  bool caching_allocator = false;       ///< PyTorch's, segment by segment (engine/program/caching_allocator.h); else one range a purpose

  friend bool operator==(const Stack&, const Stack&) = default;
};

/// Where the host stops: nowhere in whole steps that are captured.
HostWaits host_waits_of(const Stack& stack);

/// Reads a stack object. Features that every software has or lacks must be stated; the two tensor- and pipeline-parallel
/// ones of some versions only (overlaps_tensor_gemms, scatters_pipeline_activations), fused_gradient_accumulation,
/// casts_added_gradients, gradients_of_autograd, recomputes_head, keeps_stage_outputs, overlaps_parameter_gather, sharded_parameters, cuda_graphs, bucket_elements, the bytes, what only some software lacks (fused_norm
/// to fused_cross_entropy) or does (fused_attention to launch_blocking where not named here) have the defaults above. `cuda_graph_scope` is "full_iteration", "attn", "mlp" or a list of the latter,
/// `host_waits_for` a list of "inputs", "exchanges", "pieces", "objects", "sequence_lengths".
Stack read_stack(const Json& json, const std::string& file, const std::string& path, std::vector<Violation>& problems);

/// Everything resolved, in the form read_stack() takes.
Json to_json(const Stack& stack);

}  // namespace benchsuite
