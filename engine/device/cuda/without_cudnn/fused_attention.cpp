#include "engine/device/cuda/fused_attention.h"

namespace benchsuite::cuda {

struct FusedAttention::Plans {
  Say say;
};

FusedAttention::FusedAttention(Say say) : plans_(std::make_unique<Plans>(std::move(say))) {}
FusedAttention::~FusedAttention() = default;

void FusedAttention::plan(const OpShape&) {
  if (plans_->say)
    plans_->say("flash attention runs as matrix products around one softmax kernel: built without cuDNN 9.16 or later");
}

bool FusedAttention::takes(const OpShape&) const { return false; }

std::uint64_t FusedAttention::workspace(const OpShape&) const { return 0; }
void FusedAttention::run(const KernelCall& call) { CHECK(false) << name_of(call.shape.kind) << " without cuDNN"; }

}  // namespace benchsuite::cuda
