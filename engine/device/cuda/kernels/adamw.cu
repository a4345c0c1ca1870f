#include "engine/device/cuda/kernels/adamw.h"

#include "engine/device/cuda/kernels/chunks.h"
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

struct UpdateItem {
  AdamwTensor tensor;
  bool wide = false;
};

/// What one element's update takes, worked out once a block from the scalars of the step.
struct Rates {
  float clip, beta1, beta2, eps, decay, rate, correction;

  /// With bias correction; the powers in double, as the step count grows.
  __device__ static Rates of(const AdamwScalars& scalars) {
    const double lr = scalars.step[0], beta1 = scalars.step[1], beta2 = scalars.step[2], step = scalars.step[4];
    return {.clip = scalars.clip[1],
            .beta1 = scalars.step[1],
            .beta2 = scalars.step[2],
            .eps = scalars.step[3],
            .decay = static_cast<float>(lr * static_cast<double>(scalars.weight_decay)),
            .rate = static_cast<float>(lr / (1.0 - pow(beta1, step))),
            .correction = static_cast<float>(1.0 / sqrt(1.0 - pow(beta2, step)))};
  }
};

template <class G, class P>
__global__ void update(const ChunkTable<UpdateItem> table, AdamwScalars scalars) {
  __shared__ Rates shared;
  if (threadIdx.x == 0) shared = Rates::of(scalars);
  __syncthreads();
  const Rates rates = shared;
  const ChunkPlace at = table.place(blockIdx.x);
  const AdamwTensor& tensor = table.items[at.item].tensor;
  const bool wide = table.items[at.item].wide;
  for_each_pack_of_chunk(at.first, tensor.count, [&](std::int64_t offset, std::int64_t left) {
    const Eight gradient = load8(static_cast<const G*>(tensor.gradient) + offset, left, wide);
    Eight master = load8(tensor.master + offset, left, wide);
    Eight first = load8(tensor.first_moment + offset, left, wide);
    Eight second = load8(tensor.second_moment + offset, left, wide);
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      const float g = gradient.v[i] * rates.clip;
      first.v[i] = rates.beta1 * first.v[i] + (1.0f - rates.beta1) * g;
      second.v[i] = rates.beta2 * second.v[i] + (1.0f - rates.beta2) * g * g;
      const float before = master.v[i];
      master.v[i] =
          before - rates.decay * before - rates.rate * first.v[i] / (sqrtf(second.v[i]) * rates.correction + rates.eps);
    }
    store8(tensor.master + offset, master, left, wide);
    store8(tensor.first_moment + offset, first, left, wide);
    store8(tensor.second_moment + offset, second, left, wide);
    if (tensor.parameter) store8(static_cast<P*>(tensor.parameter) + offset, master, left, wide);
  });
}

}  // namespace

void adamw(std::span<const AdamwTensor> tensors, DType gradient, DType parameter, const AdamwScalars& scalars,
           cudaStream_t stream) {
  with_type(gradient, [&](auto gradient_type) {
    with_type(parameter, [&](auto parameter_type) {
      ChunkLauncher<UpdateItem> launcher([&](const ChunkTable<UpdateItem>& table, unsigned chunks) {
        launch(update<decltype(gradient_type), decltype(parameter_type)>, chunks, kChunkThreads, stream, table,
               scalars);
      });
      for (const AdamwTensor& tensor : tensors) {
        launcher.add({tensor, wide_access(1, tensor.count,
                                          {tensor.gradient, tensor.master, tensor.first_moment, tensor.second_moment,
                                           tensor.parameter})},
                     tensor.count);
      }
      launcher.finish();
    });
  });
}

/// Operands: grad, scalars, clip, master, m, v [, parameters].
void adamw(const KernelCall& call) {
  const bool writes_parameters = call.operands.size() == 7;
  call.expect_operands(writes_parameters ? 7 : 6);
  const std::int64_t n = call.dim(0);
  AdamwTensor tensor{.master = call.operand<float>(3, n),
                     .first_moment = call.operand<float>(4, n),
                     .second_moment = call.operand<float>(5, n),
                     .count = n};
  with_type(call.shape.dtype, [&](auto type) { tensor.gradient = call.operand<const decltype(type)>(0, n); });
  if (writes_parameters) {
    with_type(call.shape.out_dtype, [&](auto type) { tensor.parameter = call.operand<decltype(type)>(6, n); });
  }
  const AdamwScalars scalars{
      .step = call.operand<const float>(1, 5), .clip = call.operand<const float>(2, 2), .weight_decay = call.scalar(0)};
  adamw({&tensor, 1}, call.shape.dtype, call.shape.out_dtype, scalars, call.stream);
}

}  // namespace benchsuite::cuda
