// The emulator itself: does it run kernels as a GPU would, and does it see what is wrong with them?
#include <gtest/gtest.h>

#include <vector>

#include "engine/core/error.h"
#include "engine/device/cuda/launch.h"
#include "tests/cuda_emulator/emulator.h"

namespace benchsuite::cuda {
namespace {

using cuda_emulator::Fill;
using cuda_emulator::Settings;
using cuda_emulator::ThreadOrder;

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) { CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T))); }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* get() const { return data_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    CUDA_CHECK(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

__global__ void write_index(int* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = i;
}

/// Each thread gives the value of its neighbour; `barrier` false forgets the barrier.
__global__ void rotate(const int* in, int* out, bool barrier) {
  __shared__ int shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  if (barrier) __syncthreads();
  out[threadIdx.x] = shared[(threadIdx.x + 1) % blockDim.x];
}

/// The last thread writes shared memory anew one warp operation after the others read it; `barrier` false lets its warp do so
/// before another warp has read.
__global__ void reuse(int* out, bool barrier) {
  __shared__ int shared;
  if (threadIdx.x == 0) shared = 1;
  __syncthreads();
  __syncwarp();
  out[threadIdx.x] = shared;
  if (barrier) __syncthreads();
  __syncwarp();
  if (threadIdx.x == blockDim.x - 1) shared = 2;
}

__global__ void warp_sums(float* out) {
  float value = static_cast<float>(threadIdx.x);
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xFFFFFFFFu, value, offset);
  out[threadIdx.x] = value;
}

__global__ void votes(unsigned* out) {
  const unsigned even = __ballot_sync(0xFFFFFFFFu, threadIdx.x % 2 == 0);
  const int any = __any_sync(0xFFFFFFFFu, threadIdx.x == 3), all = __all_sync(0xFFFFFFFFu, threadIdx.x == 3);
  const float below = __shfl_down_sync(0xFFFFFFFFu, static_cast<float>(threadIdx.x), 1);
  const float above = __shfl_up_sync(0xFFFFFFFFu, static_cast<float>(threadIdx.x), 1);
  const float first = __shfl_sync(0xFFFFFFFFu, static_cast<float>(threadIdx.x) + 100, 0);
  if (threadIdx.x == 5) {
    out[0] = even;
    out[1] = static_cast<unsigned>(any);
    out[2] = static_cast<unsigned>(all);
    out[3] = static_cast<unsigned>(below);
    out[4] = static_cast<unsigned>(above);
    out[5] = static_cast<unsigned>(first);
  }
}

__global__ void divergent_barrier() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void barrier_for_some() {
  if (threadIdx.x < 16) {
    __syncthreads();
  } else {
    __syncwarp();
  }
}

__global__ void foreign_mask() { __syncwarp(0x1u); }

__global__ void counted(unsigned long long* sum, int* most) {
  atomicAdd(sum, threadIdx.x);
  atomicMax(most, static_cast<int>(threadIdx.x + blockIdx.x));
}

std::vector<int> rotated(bool barrier, const Settings& settings) {
  cuda_emulator::reset(settings);
  DeviceArray<int> in(128), out(128);
  launch(write_index, dim3(4), dim3(32), nullptr, in.get(), 128);
  launch(rotate, dim3(1), dim3(128), nullptr, in.get(), out.get(), barrier);
  return out.host();
}

std::vector<int> reused(bool barrier, ThreadOrder order) {
  cuda_emulator::reset({.order = order});
  DeviceArray<int> out(96);
  launch(reuse, dim3(1), dim3(96), nullptr, out.get(), barrier);
  return out.host();
}

class EveryOrder : public ::testing::TestWithParam<ThreadOrder> {};

TEST_P(EveryOrder, BarriersMakeSharedMemoryVisible) {
  std::vector<int> expected;
  for (int i = 0; i < 128; ++i) expected.push_back((i + 1) % 128);
  EXPECT_EQ(rotated(true, {.order = GetParam()}), expected);
}

TEST_P(EveryOrder, BarriersKeepSharedMemoryUntilAllHaveReadIt) {
  EXPECT_EQ(reused(true, GetParam()), std::vector<int>(96, 1));
}

TEST_P(EveryOrder, ShufflesAddAWarp) {
  cuda_emulator::reset({.order = GetParam()});
  DeviceArray<float> out(64);
  launch(warp_sums, dim3(1), dim3(64), nullptr, out.get());
  const std::vector<float> sums = out.host();
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], i < 32 ? 496.0f : 1520.0f) << i;
}

TEST_P(EveryOrder, VotesAndShuffles) {
  cuda_emulator::reset({.order = GetParam()});
  DeviceArray<unsigned> out(6);
  launch(votes, dim3(1), dim3(32), nullptr, out.get());
  EXPECT_EQ(out.host(), (std::vector<unsigned>{0x55555555u, 1, 0, 6, 4, 100}));
}

TEST_P(EveryOrder, IntegerAtomics) {
  cuda_emulator::reset({.order = GetParam()});
  DeviceArray<unsigned long long> sum(1);
  DeviceArray<int> most(1);
  CUDA_CHECK(cudaMemset(sum.get(), 0, 8));
  CUDA_CHECK(cudaMemset(most.get(), 0, 4));
  launch(counted, dim3(5), dim3(40), nullptr, sum.get(), most.get());
  EXPECT_EQ(sum.host()[0], 5u * 780u);
  EXPECT_EQ(most.host()[0], 43);
}

INSTANTIATE_TEST_SUITE_P(Orders, EveryOrder,
                         ::testing::Values(ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::shuffled));

TEST(KernelRun, AMissingBarrierGivesOtherBitsInAnotherOrder) {
  EXPECT_NE(rotated(false, {.order = ThreadOrder::forward}), rotated(false, {.order = ThreadOrder::reverse}));
}

TEST(KernelRun, AWarpThatRunsAheadOverwritesWhatOthersHaveNotRead) {
  EXPECT_EQ(reused(false, ThreadOrder::forward), std::vector<int>(96, 1));
  EXPECT_NE(reused(false, ThreadOrder::reverse), std::vector<int>(96, 1));
}

TEST(KernelRun, FreshMemoryAndSharedMemoryHoldThePattern) {
  for (const Fill fill : {Fill::not_a_number, Fill::small}) {
    cuda_emulator::reset({.fill = fill});
    DeviceArray<unsigned char> fresh(3);
    const auto byte = static_cast<unsigned char>(fill);
    EXPECT_EQ(fresh.host(), (std::vector<unsigned char>{byte, byte, byte}));
  }
  // Forward order without a barrier reads what no thread has written yet: the fill.
  const std::vector<int> first = rotated(false, {.fill = Fill::not_a_number});
  EXPECT_EQ(first[0], -1);
  EXPECT_EQ(rotated(false, {.fill = Fill::small})[0], 0x3C3C3C3C);
}

void expect_failure(void (*kernel)(), unsigned threads, const std::string& words) {
  cuda_emulator::reset();
  launch(kernel, dim3(1), dim3(threads), nullptr);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_NE(cuda_emulator::failure().find(words), std::string::npos) << cuda_emulator::failure();
  cuda_emulator::reset();
}

TEST(KernelRun, DivergentBarriersAreSeen) { expect_failure(divergent_barrier, 32, "two barriers"); }
TEST(KernelRun, ABarrierForSomeIsSeen) { expect_failure(barrier_for_some, 32, "not all threads of the block reach"); }
TEST(KernelRun, ALaneOutsideItsMaskIsSeen) { expect_failure(foreign_mask, 2, "not in its own mask"); }

TEST(KernelRun, ImpossibleGridsAreRefused) {
  cuda_emulator::reset();
  EXPECT_THROW(launch(foreign_mask, dim3(1), dim3(1025), nullptr), Error);
  EXPECT_THROW(launch(foreign_mask, dim3(1, 65536), dim3(1), nullptr), Error);
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void out_of_buffer(int* out, int at) { out[at] = 1; }
__global__ void out_of_shared(int* out, int at) {
  __shared__ int shared[3];
  shared[threadIdx.x] = 1;
  __syncthreads();
  out[0] = shared[at];
}

TEST(GuardedDeathTest, ABufferEndsWhereItEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [](int at) {
    cuda_emulator::reset();
    DeviceArray<int> out(3);
    launch(out_of_buffer, dim3(1), dim3(1), nullptr, out.get(), at);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  touch(2);
  EXPECT_DEATH(touch(3), "use-after-poison");
  EXPECT_DEATH(touch(-1), "use-after-poison");
}

TEST(GuardedDeathTest, ASharedArrayEndsWhereItEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto touch = [](int at) {
    cuda_emulator::reset();
    DeviceArray<int> out(1);
    launch(out_of_shared, dim3(1), dim3(3), nullptr, out.get(), at);
    CUDA_CHECK(cudaDeviceSynchronize());
  };
  touch(2);
  EXPECT_DEATH(touch(3), "global-buffer-overflow");
}
#endif

}  // namespace
}  // namespace benchsuite::cuda
