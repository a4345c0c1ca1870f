#include "engine/device/cuda/fused_attention.h"

#include <fmt/format.h>

#include "engine/device/cuda/cudnn/plan.h"

namespace benchsuite::cuda {

namespace {

/// Earlier backward kernels read beyond the last key where their number is no multiple of 128 (cudnn-frontend pads for
/// them).
constexpr std::size_t kLeastVersion = 91600;
constexpr std::uintptr_t kAlignment = 16;  // bytes, that the graphs state

/// Why no kernel of the library is asked at all; null when one is.
const char* why_not(const OpShape& shape) {
  if (shape.dtype != DType::bf16 || shape.out_dtype != DType::bf16) return "cuDNN's fused kernels compute in bf16 only";
  if (shape.scalars[1] > 0) return "cuDNN's fused kernels do not draw our dropout masks";
  if (cudnnGetVersion() < kLeastVersion) return "cuDNN is older than 9.16";
  return nullptr;
}

/// From this compute capability on (B200) the backward kernel is deterministic in one configuration of the library's
/// engine only, by its own front end, which sets it by hand (CompositeSDPABackwardNode); we take what is proposed.
constexpr int kNoBackwardFrom = 10;

int compute_capability_major() {
  int device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  cudaDeviceProp properties;
  CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return properties.major;
}

class Handle {
 public:
  Handle() { CUDNN_CHECK(cudnnCreate(&handle_)); }
  ~Handle() { cudnnDestroy(handle_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  cudnnHandle_t get() const { return handle_; }

 private:
  cudnnHandle_t handle_ = nullptr;
};

/// The library, once a shape has been found that it may take.
struct Library {
  Handle handle;
  Descriptor gpu = current_gpu();
  int major = compute_capability_major();
};

}  // namespace

struct FusedAttention::Plans {
  Say say;
  std::optional<Library> library;
  std::map<AttentionKey, std::optional<AttentionPlan>> plans;

  void left_out(const std::string& why) const {
    if (say) say("flash attention runs as matrix products around one softmax kernel: " + why);
  }
  const AttentionPlan& of(const OpShape& shape) const {
    const auto found = plans.find(attention_key(shape));
    CHECK(found != plans.end() && found->second) << name_of(shape.kind) << " without a plan";
    return *found->second;
  }
};

FusedAttention::FusedAttention(Say say) : plans_(std::make_unique<Plans>()) { plans_->say = std::move(say); }
FusedAttention::~FusedAttention() = default;

void FusedAttention::plan(const OpShape& shape) {
  if (const char* const why = why_not(shape)) return plans_->left_out(why);
  const AttentionKey key = attention_key(shape);
  if (plans_->plans.contains(key)) return;
  if (!plans_->library) plans_->library.emplace();
  if (key.backward && plans_->library->major >= kNoBackwardFrom) {
    plans_->plans.emplace(key, std::nullopt);
    return plans_->left_out("cuDNN's backward kernels for this GPU are not taken, since nothing shows them deterministic");
  }
  std::string why;
  const auto& plan = plans_->plans.emplace(key, AttentionPlan::make(key, plans_->library->gpu, why)).first->second;
  if (!plan) {
    plans_->left_out(
        fmt::format("cuDNN {} has no {} kernel for {} positions, {} heads of {} channels on {} key-value heads ({})",
                    cudnnGetVersion(), key.backward ? "backward" : "forward", key.s, key.a, key.d, key.u, why));
  }
}

bool FusedAttention::takes(const OpShape& shape) const {
  if (why_not(shape)) return false;
  const auto found = plans_->plans.find(attention_key(shape));
  return found != plans_->plans.end() && found->second;
}

std::uint64_t FusedAttention::workspace(const OpShape& shape) const { return plans_->of(shape).workspace(); }

void FusedAttention::run(const KernelCall& call) {
  const OpShape& shape = call.shape;
  const AttentionPlan& plan = plans_->of(shape);
  const AttentionKey key = attention_key(shape);
  CHECK(call.workspace.size() >= plan.workspace())
      << "fused attention needs " << plan.workspace() << " bytes of workspace";
  const std::int64_t qkv = key.s * key.b * key.u * (key.served() + 2) * key.d, context = key.s * key.b * key.a * key.d;
  const auto bf16 = [&](std::size_t index, std::int64_t elements) {
    auto* const address = call.operand<std::uint16_t>(index, elements);
    CHECK(reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0)
        << name_of(shape.kind) << " operand " << index << " is not aligned to " << kAlignment << " bytes";
    return address;
  };
  AttentionPlan::Addresses addresses;
  // Those of the first group.
  const auto unpack = [&](std::uint16_t* packed, AttentionTensor q, AttentionTensor k, AttentionTensor v) {
    addresses[q] = packed;
    addresses[k] = packed + key.served() * key.d;
    addresses[v] = packed + (key.served() + 1) * key.d;
  };
  using T = AttentionTensor;
  if (key.backward) {
    call.expect_operands(6);
    addresses[T::dout] = bf16(0, context);
    addresses[T::out] = bf16(1, context);
    unpack(bf16(2, qkv), T::q, T::k, T::v);
    addresses[T::lse] = call.operand<float>(3, key.b * key.a * key.s);
    unpack(bf16(5, qkv), T::dq, T::dk, T::dv);
  } else {
    call.expect_operands(4);
    unpack(bf16(0, qkv), T::q, T::k, T::v);
    addresses[T::out] = bf16(2, context);
    addresses[T::lse] = call.operand<float>(3, key.b * key.a * key.s);
  }
  const cudnnHandle_t handle = plans_->library->handle.get();
  CUDNN_CHECK(cudnnSetStream(handle, call.stream));
  plan.run(handle, std::move(addresses), call.scalar(0), call.workspace);
}

}  // namespace benchsuite::cuda
