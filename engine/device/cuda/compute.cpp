#include "engine/device/cuda/compute.h"

#include "engine/device/cuda/attention.h"
#include "engine/device/cuda/kernels/dispatch.h"
#include "engine/device/op_table.h"

namespace benchsuite::cuda {

namespace {

bool is_flash(OpKind kind) { return kind == OpKind::flash_attention || kind == OpKind::flash_attention_backward; }
bool is_product(const OpShape& shape) { return matrix_product_of(shape).batch > 0; }

}  // namespace

std::uint64_t Compute::workspace(const OpShape& shape) {
  if (is_communication(shape.kind)) return 0;
  if (is_flash(shape.kind)) {
    fused_.plan(shape);
    return fused_.takes(shape) ? fused_.workspace(shape) : gemm_workspace_ + flash_workspace(shape);
  }
  return is_product(shape) ? gemm_workspace_ : workspace_bytes(shape);
}

void Compute::prepare(const KernelCall& call) {
  if (is_flash(call.shape.kind) && fused_.takes(call.shape)) return;
  const std::span<std::byte> scratch = call.workspace.first(is_flash(call.shape.kind) || is_product(call.shape) ? gemm_workspace_ : 0);
  if (is_flash(call.shape.kind)) {
    KernelCall rest = call;
    rest.workspace = call.workspace.subspan(gemm_workspace_);
    const UnfusedAttention attention = unfused(rest);
    for (const auto* products : {&attention.before, &attention.after}) {
      for (const GemmCall& product : *products) gemm_.prepare(product, scratch, call.stream);
    }
  } else if (is_product(call.shape)) {
    for (const GemmCall& product : products_of(call)) gemm_.prepare(product, scratch, call.stream);
  }
}

void Compute::run(const KernelCall& call) {
  if (is_flash(call.shape.kind) && fused_.takes(call.shape)) {
    fused_.run(call);
  } else if (is_flash(call.shape.kind)) {
    const std::span<std::byte> scratch = call.workspace.first(gemm_workspace_);
    KernelCall rest = call;
    rest.workspace = call.workspace.subspan(gemm_workspace_);
    const UnfusedAttention attention = unfused(rest);
    for (const GemmCall& product : attention.before) gemm_.run(product, scratch, call.stream);
    if (attention.backward()) {
      attention_softmax_backward(attention.softmax, attention.scores, attention.lse, attention.dprobabilities, attention.dropped,
                                 attention.dscores, call.stream);
    } else {
      attention_softmax(attention.softmax, attention.scores, attention.dropped, attention.lse, call.stream);
    }
    for (const GemmCall& product : attention.after) gemm_.run(product, scratch, call.stream);
  } else if (is_product(call.shape)) {
    for (const GemmCall& product : products_of(call)) gemm_.run(product, call.workspace.first(gemm_workspace_), call.stream);
  } else {
    run_kernel(call);
  }
}

}  // namespace benchsuite::cuda
