#include "suite/accuracy/row_kernels.h"

#include "engine/core/error.h"

namespace benchsuite {

std::string apply_kernels(const Json& attention_kernel, const Json& rmsnorm_kernel, AttentionKernel attention,
                          Stack& stack) {
  if (rmsnorm_kernel.is_boolean()) stack.fused_norm = rmsnorm_kernel.get<bool>();
  const std::string word = attention_kernel.is_string() ? attention_kernel.get<std::string>() : "";
  const auto says = [&](const char* part) { return word.find(part) != std::string::npos; };
  if (attention == AttentionKernel::unfused) {
    if (says("unfused") || rmsnorm_kernel.is_boolean()) stack.fused_softmax = says("fused softmax");
  } else if (word.empty() || says("unfused")) {
    return "";
  } else if (says("flash2")) {
    stack.fused_attention = FusedAttention::flash_2;
  } else if (says("flash1")) {
    stack.fused_attention = FusedAttention::flash_1;
  } else if (says("triton")) {
    stack.fused_attention = FusedAttention::triton;
  } else {
    return "layout.attention_kernel = \"" + word + "\" is none that a profile has rates of";
  }
  return "";
}

LayerSplit split_of(const Json& word, std::int64_t layers, std::int64_t pp, std::int64_t vpp) {
  LayerSplit split;
  if (pp == 1) return split;
  const std::int64_t chunks = pp * vpp;
  const bool counted = layers % chunks != 0 && (layers + 2) % chunks == 0;
  if (word == Json("embedding and loss")) {
    split.counts_embedding = split.counts_loss = counted;
  } else if (word == Json("layers in turn")) {
    const std::int64_t most = div_ceil(layers, pp), last = layers - most * (pp - 1);
    if (counted) {
      split.counts_embedding = split.counts_loss = true;
    } else if (layers % chunks != 0 && last > 0) {
      split.stages.assign(static_cast<std::size_t>(pp), most);
      split.stages.back() = last;
    }
  } else if (word == Json("uniform modules")) {
    constexpr std::int64_t kBefore = 1, kAfter = 2;  // embedding; norm and head
    const std::int64_t modules = layers + kBefore + kAfter, least = modules / pp, larger = modules % pp;
    for (std::int64_t stage = 0; stage < pp; ++stage) split.stages.push_back(least + (stage < larger ? 1 : 0));
    split.stages.front() -= kBefore;
    split.stages.back() -= kAfter;
    if (split.stages.front() < 1 || split.stages.back() < 1) split.stages.clear();
  }
  return split;
}

}  // namespace benchsuite
