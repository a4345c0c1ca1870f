// What the dispatch takes and what it refuses.
#include "engine/device/cuda/cuda_check.h"
#include "engine/device/op_table.h"
#include "tests/cuda_emulator/emulator.h"
#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

TEST(Dispatch, HasAKernelForEveryComputeOpButTheProducts) {
  for (int i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    const bool product = i <= static_cast<int>(OpKind::flash_attention_backward);
    EXPECT_EQ(cuda::has_kernel(kind), !product && !is_communication(kind)) << name_of(kind);
  }
}

TEST(Dispatch, RefusesOpsThatAreNotItsOwn) {
  for (const OpKind kind : {OpKind::gemm, OpKind::flash_attention, OpKind::all_reduce}) {
    const OpShape shape = shape_of(kind, {1, 1, 1});
    EXPECT_THROW(cuda::run_kernel({.shape = shape, .operands = {}, .workspace = {}}), Error) << name_of(kind);
  }
}

TEST(Dispatch, RefusesOperandsOfTheWrongSizeNumberOrType) {
  cuda_emulator::reset();
  const std::vector<double> x(6, 1), short_one(5, 1);
  const DType fp32 = DType::fp32;
  const Expected y{.values = x};
  EXPECT_THROW(Case(shape_of(OpKind::gelu, {2, 3})).reads(fp32, short_one).writes(y).check(), Error);
  EXPECT_THROW(Case(shape_of(OpKind::gelu, {2, 3})).reads(fp32, x).writes({.values = short_one}).check(), Error);
  EXPECT_THROW(Case(shape_of(OpKind::gelu, {2, 3})).writes(y).check(), Error);
  EXPECT_THROW(Case(shape_of(OpKind::gelu, {2, 3})).reads(fp32, x).reads(fp32, x).writes(y).check(), Error);
  EXPECT_THROW(Case(shape_of(OpKind::gelu, {2, 3}, DType::fp16)).reads(fp32, x).writes(y).check(), Error);
  OpShape mixed = shape_of(OpKind::gelu, {2, 3});
  mixed.out_dtype = DType::bf16;
  EXPECT_THROW(Case(mixed).reads(fp32, x).writes({.type = DType::bf16, .values = x}).check(), Error);
  EXPECT_THROW(Case(shape_of(OpKind::pack, {7})).reads(fp32, x).writes({.values = std::vector<double>(7, 1)}).check(),
               Error);
  EXPECT_THROW(Case(shape_of(OpKind::sum_squares, {7}, fp32, {1.0f}))
                   .reads(fp32, x)
                   .updates(std::vector<double>(12, 0), {.values = std::vector<double>(12, 0)})
                   .check(),
               Error);
}

TEST(Dispatch, RefusesTooLittleWorkspace) {
  const OpShape shape = shape_of(OpKind::bias_gradient, {4, 2});
  ASSERT_GT(cuda::workspace_bytes(shape), 0u);
  std::byte dy[32], sums[8];  // never touched: the check comes first
  const std::span<std::byte> operands[] = {dy, sums};
  EXPECT_THROW(cuda::run_kernel({.shape = shape, .operands = operands, .workspace = {}}), Error);
}

TEST(Dispatch, LaunchesOnItsStreamAndNeverWaits) {
  cuda_emulator::reset({.pace = cuda_emulator::Pace::late});
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* memory = nullptr;
  CUDA_CHECK(cudaMalloc(&memory, 64));
  CUDA_CHECK(cudaMemset(memory, 0, 64));
  CUDA_CHECK(cudaDeviceSynchronize());
  const OpShape shape = shape_of(OpKind::fill, {16}, DType::fp32, {2.0f});
  const std::span<std::byte> operands[] = {{static_cast<std::byte*>(memory), 64}};
  const auto before = cuda_emulator::counts();
  cuda::run_kernel({.shape = shape, .operands = operands, .workspace = {}, .stream = stream});
  const auto after = cuda_emulator::counts();
  EXPECT_EQ(after.launches - before.launches, 1);
  EXPECT_EQ(after.kernels - before.kernels, 0);  // queued, and on no other stream
  EXPECT_EQ(after.waits - before.waits, 0);
  EXPECT_EQ(after.allocations - before.allocations, 0);
  CUDA_CHECK(cudaStreamSynchronize(stream));
  std::vector<std::byte> host(64);
  CUDA_CHECK(cudaMemcpy(host.data(), memory, 64, cudaMemcpyDeviceToHost));
  EXPECT_EQ(values_of(host, DType::fp32), std::vector<double>(16, 2));
  CUDA_CHECK(cudaFree(memory));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

}  // namespace
}  // namespace benchsuite::testing_cuda
