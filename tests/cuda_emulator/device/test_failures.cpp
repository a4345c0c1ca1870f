// What goes wrong says so: missing GPUs, failing calls and kernels, a rank that breaks while others wait for it.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "engine/core/error.h"
#include "tests/cuda_emulator/device/emulated_training.h"

namespace benchsuite::testing_cuda {
namespace {

using ::testing::HasSubstr;

std::string why_with(cuda_emulator::Settings settings, int ranks) {
  cuda_emulator::reset(settings);
  return cuda::why_unavailable(ranks);
}

TEST(Unavailable, NamesWhatIsMissing) {
  EXPECT_EQ(why_with({.devices = 4}, 4), "");
  EXPECT_THAT(why_with({.devices = 0}, 1), HasSubstr("no GPU here"));
  EXPECT_THAT(why_with({.devices = 1}, 2), HasSubstr("2 ranks need as many GPUs, and one is here"));
  EXPECT_THAT(why_with({.devices = 2}, 8), HasSubstr("8 ranks need as many GPUs, and 2 are here"));
  EXPECT_THAT(why_with({.devices = 1, .compute_major = 7}, 1), HasSubstr("compute capability 7.0"));
}

TEST(Unavailable, NamesTheDriver) {
  cuda_emulator::reset();
  cuda_emulator::fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  EXPECT_THAT(cuda::why_unavailable(1), HasSubstr("the NVIDIA driver is for CUDA 13.0"));
  cuda_emulator::fail_call("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver);
  cuda_emulator::fail_call("cudaDriverGetVersion", 1, cudaErrorUnknown);
  EXPECT_THAT(cuda::why_unavailable(1), HasSubstr("no NVIDIA driver here"));
  cuda_emulator::fail_call("cudaGetDeviceCount", 1, cudaErrorUnknown);
  EXPECT_THAT(cuda::why_unavailable(1), HasSubstr("cudaErrorUnknown"));
  EXPECT_EQ(cuda::why_unavailable(1), "");
}

Error error_of(const TrainConfig& config, const std::function<void()>& break_it, int throwing_rank = -1) {
  cuda_emulator::reset({.devices = static_cast<int>(config.layout.world()), .patience_s = 20});
  break_it();
  try {
    train_on(config, {.steps = 3}, [&](const auto& programs, const HostWorkOn<RankMemory>& host, int steps) {
      HostWorkOn<RankMemory> broken = host;
      broken.before_step = [&](RankMemory& rank, int step) {
        if (rank.rank() == throwing_rank && step == 1) throw Error(Error::Kind::io, "the data are gone");
        host.before_step(rank, step);
      };
      cuda::run_ranks(programs, broken, steps, {.gemm_workspace = kGemmWorkspace});
    });
  } catch (const Error& error) {
    return error;
  }
  return Error(Error::Kind::internal, "nothing was thrown");
}

TEST(Failures, WithoutGpusNothingStarts) {
  const Error error = error_of(small_gpt(DType::fp32), [] { cuda_emulator::reset({.devices = 0}); });
  EXPECT_EQ(error.kind(), Error::Kind::unavailable);
  EXPECT_THAT(error.what(), HasSubstr("no GPU"));
}

struct Call {
  const char* function;
  int nth;
  cudaError_t error;
  const char* words;
};

void PrintTo(const Call& call, std::ostream* out) { *out << call.function; }

class FailingCall : public ::testing::TestWithParam<Call> {};

TEST_P(FailingCall, IsNamedWithFileLineAndExpression) {
  const Call& call = GetParam();
  const Error error =
      error_of(small_gpt(DType::fp32), [&] { cuda_emulator::fail_call(call.function, call.nth, call.error); });
  EXPECT_EQ(error.kind(), Error::Kind::run) << error.what();
  EXPECT_THAT(error.what(), HasSubstr(call.words));
  EXPECT_THAT(error.what(), ::testing::ContainsRegex("\\.(cpp|h):[0-9]+: "));
  EXPECT_EQ(cuda_emulator::allocated_bytes(), 0u) << "memory is given back";
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FailingCall,
    ::testing::Values(Call{"cudaMalloc", 1, cudaErrorMemoryAllocation, "out of memory"},
                      Call{"cudaStreamCreateWithFlags", 1, cudaErrorUnknown, "cudaStreamCreateWithPriority"},
                      Call{"cudaEventCreateWithFlags", 2, cudaErrorUnknown, "cudaEventCreateWithFlags"},
                      Call{"cudaLaunchKernelEx", 20, cudaErrorLaunchOutOfResources, "op "},
                      Call{"cudaStreamBeginCapture", 1, cudaErrorUnknown, "cudaStreamBeginCapture"},
                      Call{"cudaStreamEndCapture", 1, cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture"},
                      Call{"cudaGraphInstantiate", 1, cudaErrorMemoryAllocation, "cudaGraphInstantiate"},
                      Call{"cudaGraphLaunch", 1, cudaErrorUnknown, "cudaGraphLaunch"},
                      Call{"cudaMemcpyAsync", 2, cudaErrorInvalidValue, "cudaMemcpyAsync"},
                      Call{"cublasLtCreate", 1, cudaErrorUnknown, "CUBLAS_STATUS_NOT_INITIALIZED"},
                      Call{"cublasLtMatmulAlgoGetHeuristic", 1, cudaErrorUnknown, "gemm"},
                      Call{"ncclCommInitRankConfig", 1, cudaErrorUnknown, "unhandled system error"}),
    [](const auto& info) { return info.param.function; });

TEST(Failures, AKernelThatFailsIsReportedLater) {
  const Error error = error_of(small_gpt(DType::fp32), [] {
    cuda_emulator::reset({.pace = cuda_emulator::Pace::late});  // nothing runs before the host waits
    cuda_emulator::fail_kernel(30);
  });
  EXPECT_THAT(error.what(), HasSubstr("illegal memory access"));
  EXPECT_THAT(error.what(), HasSubstr("left behind by work launched before this call"));
}

TEST(Failures, ARankThatBreaksEndsTheOthers) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.tp = 2, config.layout.pp = 2, config.layout.sequence_parallel = true;
  for (int rank = 0; rank < 4; ++rank) {
    const Error error = error_of(config, [] {}, rank);
    EXPECT_EQ(error.kind(), Error::Kind::io);
    EXPECT_THAT(error.what(), HasSubstr("the data are gone"));
  }
}

TEST(Failures, ARankThatCannotConnectEndsTheOthersAtOnce) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.tp = 2, config.layout.pp = 2, config.layout.sequence_parallel = true;
  for (const int nth : {1, 4, 7}) {
    const auto began = std::chrono::steady_clock::now();
    const Error error = error_of(config, [&] { cuda_emulator::fail_call("ncclCommInitRankConfig", nth, cudaErrorUnknown); });
    EXPECT_THAT(error.what(), HasSubstr("unhandled system error"));
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(10));
  }
}

TEST(Failures, APeerThatDoesNotComeEndsTheWaitOfTheOthers) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.tp = 2;
  cuda_emulator::reset({.devices = 2});
  std::string why;
  try {
    train_on(config, {.steps = 3}, [&](const auto& programs, const HostWorkOn<RankMemory>& host, int steps) {
      HostWorkOn<RankMemory> late = host;
      late.before_step = [&](RankMemory& rank, int step) {
        if (rank.rank() == 1 && step == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
        host.before_step(rank, step);
      };
      cuda::run_ranks(programs, late, steps, {.gemm_workspace = kGemmWorkspace, .patience_s = 2});
    });
  } catch (const Error& error) {
    why = error.what();
  }
  EXPECT_THAT(why, HasSubstr("rank 0 has been in step 1 for more than 2 s, and rank 1 has not come there"));
}

TEST(Failures, ACollectiveThatCannotStartNamesTheOp) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.dp = 2;
  const Error error = error_of(config, [] { cuda_emulator::fail_call("ncclAllReduce", 1, cudaErrorUnknown); });
  EXPECT_THAT(error.what(), HasSubstr("all_reduce"));
  EXPECT_THAT(error.what(), HasSubstr("ncclAllReduce"));
}

TEST(Failures, ACommunicatorThatFailsOnItsOwnIsSeen) {
  TrainConfig config = small_gpt(DType::fp32);
  config.layout.dp = 2;
  const Error error = error_of(config, [] { cuda_emulator::fail_call("ncclCommGetAsyncError", 3, cudaErrorUnknown); });
  EXPECT_THAT(error.what(), HasSubstr("remote process exited"));
}

TEST(Failures, MisnumberedProgramsAreRefused) {
  cuda_emulator::reset({.devices = 2});
  const RecordedStep recorded = record_step(small_gpt(DType::fp32), 0);
  EXPECT_THROW(cuda::run_ranks({&recorded.program, &recorded.program}, {}, 1), Error);
}

}  // namespace
}  // namespace benchsuite::testing_cuda
