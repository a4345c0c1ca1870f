#include "engine/program/op.h"

#include "engine/program/program.h"

namespace benchsuite {

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::gemm: return "gemm";
    case OpKind::attention_scores: return "attention_scores";
    case OpKind::attention_scores_backward_q: return "attention_scores_backward_q";
    case OpKind::attention_scores_backward_k: return "attention_scores_backward_k";
    case OpKind::attention_context: return "attention_context";
    case OpKind::attention_context_backward_p: return "attention_context_backward_p";
    case OpKind::attention_context_backward_v: return "attention_context_backward_v";
    case OpKind::flash_attention: return "flash_attention";
    case OpKind::flash_attention_backward: return "flash_attention_backward";
    case OpKind::embedding: return "embedding";
    case OpKind::embedding_backward: return "embedding_backward";
    case OpKind::position: return "position";
    case OpKind::position_backward: return "position_backward";
    case OpKind::layernorm: return "layernorm";
    case OpKind::layernorm_backward: return "layernorm_backward";
    case OpKind::rmsnorm: return "rmsnorm";
    case OpKind::rmsnorm_backward: return "rmsnorm_backward";
    case OpKind::softmax: return "softmax";
    case OpKind::softmax_backward: return "softmax_backward";
    case OpKind::bias_add: return "bias_add";
    case OpKind::gelu: return "gelu";
    case OpKind::gelu_backward: return "gelu_backward";
    case OpKind::bias_gelu: return "bias_gelu";
    case OpKind::bias_gelu_backward: return "bias_gelu_backward";
    case OpKind::swiglu: return "swiglu";
    case OpKind::swiglu_backward: return "swiglu_backward";
    case OpKind::rope: return "rope";
    case OpKind::rope_backward: return "rope_backward";
    case OpKind::dropout: return "dropout";
    case OpKind::dropout_backward: return "dropout_backward";
    case OpKind::bias_dropout_add: return "bias_dropout_add";
    case OpKind::bias_gradient: return "bias_gradient";
    case OpKind::add: return "add";
    case OpKind::accumulate: return "accumulate";
    case OpKind::sum_pieces: return "sum_pieces";
    case OpKind::cast: return "cast";
    case OpKind::fill: return "fill";
    case OpKind::pack: return "pack";
    case OpKind::unpack: return "unpack";
    case OpKind::ce_max: return "ce_max";
    case OpKind::ce_sum: return "ce_sum";
    case OpKind::ce_loss: return "ce_loss";
    case OpKind::ce_backward: return "ce_backward";
    case OpKind::sum_squares: return "sum_squares";
    case OpKind::clip_coefficient: return "clip_coefficient";
    case OpKind::adamw: return "adamw";
    case OpKind::shift: return "shift";
    case OpKind::all_gather: return "all_gather";
    case OpKind::reduce_scatter: return "reduce_scatter";
    case OpKind::all_reduce: return "all_reduce";
    case OpKind::send: return "send";
    case OpKind::receive: return "receive";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::recompute: return "recompute";
    case Phase::backward: return "backward";
    case Phase::gradient_sync: return "gradient_sync";
    case Phase::optimizer: return "optimizer";
    case Phase::parameter_gather: return "parameter_gather";
  }
  return "?";
}

std::string_view name_of(Site site) {
  switch (site) {
    case Site::embedding: return "embedding";
    case Site::attention: return "attention";
    case Site::mlp: return "mlp";
    case Site::final_norm: return "final_norm";
    case Site::head: return "head";
    case Site::loss: return "loss";
    case Site::pipeline: return "pipeline";
    case Site::gradients: return "gradients";
    case Site::optimizer: return "optimizer";
  }
  return "?";
}

std::string_view name_of(StreamKind stream) {
  switch (stream) {
    case StreamKind::compute: return "compute";
    case StreamKind::tensor: return "tensor";
    case StreamKind::pipeline_send_next: return "pipeline_send_next";
    case StreamKind::pipeline_receive_previous: return "pipeline_receive_previous";
    case StreamKind::pipeline_send_previous: return "pipeline_send_previous";
    case StreamKind::pipeline_receive_next: return "pipeline_receive_next";
    case StreamKind::data: return "data";
    case StreamKind::parameters: return "parameters";
    case StreamKind::embedding: return "embedding";
    case StreamKind::global: return "global";
  }
  return "?";
}

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::inputs: return "inputs";
    case Purpose::outputs: return "outputs";
    case Purpose::parameters: return "parameters";
    case Purpose::gradients: return "gradients";
    case Purpose::master: return "master";
    case Purpose::moments: return "moments";
    case Purpose::activations: return "activations";
    case Purpose::communication: return "communication";
    case Purpose::workspace: return "workspace";
  }
  return "?";
}

std::string_view name_of(GroupKind kind) {
  switch (kind) {
    case GroupKind::tensor: return "tensor";
    case GroupKind::data: return "data";
    case GroupKind::parameters: return "parameters";
    case GroupKind::pipeline_forward: return "pipeline_forward";
    case GroupKind::pipeline_backward: return "pipeline_backward";
    case GroupKind::embedding: return "embedding";
    case GroupKind::model_parallel: return "model_parallel";
    case GroupKind::world: return "world";
  }
  return "?";
}

std::string_view name_of(FusedAttention kernel) {
  constexpr std::string_view names[kFusedAttentions] = {"usual", "flash-attention-1", "flash-attention-2",
                                                        "flash-attention-triton"};
  return names[static_cast<std::size_t>(kernel)];
}

}  // namespace benchsuite
