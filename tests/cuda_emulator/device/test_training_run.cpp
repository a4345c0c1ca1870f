// Training runs on emulated GPUs: the losses of device cpu, checkpoints that continue bit for bit, failures that end all ranks.
#include "engine/train/training_run.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "engine/core/error.h"
#include "engine/device/cuda/cuda_device.h"
#include "tests/cuda_emulator/device/emulated_training.h"
#include "tests/engine/train/training_plan.h"

namespace benchsuite::testing_cuda {
namespace {

TrainingOutcome run_emulated(const TrainingPlan& plan, std::uint64_t seed = 1, TrainingOptions options = {},
                             TrainingHooks hooks = {}) {
  const int ranks = RankGrid(plan.config.layout).world();
  cuda_emulator::reset({.devices = ranks, .seed = seed, .patience_s = 20});
  const std::unique_ptr<StepDevice> device = cuda::open_device(ranks, {.gemm_workspace = kGemmWorkspace});
  return TrainingRun(plan, std::move(options), std::move(hooks)).on_threads(*device);
}

struct Case {
  const char* name;
  void (*change)(TrainConfig&);
};
void PrintTo(const Case& which, std::ostream* out) { *out << which.name; }

const Case kCases[] = {
    {"one_rank", [](TrainConfig&) {}},
    {"tp2_sp_pp2", [](TrainConfig& c) { c.layout.tp = c.layout.pp = 2, c.layout.sequence_parallel = true; }},
    {"dp2_zero3_bf16", [](TrainConfig& c) { c.layout.dp = 2, c.layout.zero_stage = 3, c.layout.precision = DType::bf16; }},
};

class TrainingRuns : public ::testing::TestWithParam<Case> {
 protected:
  TrainingPlan plan() const {
    TrainingPlan plan = small_plan(folder_);
    plan.config.model.layers = 2;
    GetParam().change(plan.config);
    return plan;
  }
  /// The bytes of all ranks' files of a checkpoint.
  std::string state_of(const std::string& name) const {
    std::ostringstream bytes;
    for (int rank = 0; rank < RankGrid(plan().config.layout).world(); ++rank) {
      bytes << std::ifstream(latest_checkpoint(folder_ / name) + "/" + part_name(rank), std::ios::binary).rdbuf();
    }
    return bytes.str();
  }
  TestFolder folder_;
};

TEST_P(TrainingRuns, LossesAreThoseOfDeviceCpu) {
  const TrainingPlan plan = this->plan();
  const TrainingOutcome cuda = run_emulated(plan), cpu = TrainingRun(plan, {}, {}).on_threads();
  ASSERT_EQ(cuda.loss.size(), cpu.loss.size());
  // Sums in another order; in bf16 a result at the middle between two numbers goes to either: see test_training.cpp.
  const bool narrow = plan.config.layout.precision == DType::bf16;
  for (std::size_t step = 0; step < cpu.loss.size(); ++step) {
    EXPECT_NEAR(cuda.loss[step], cpu.loss[step], (narrow ? 2e-3 : 1e-5) * cpu.loss[step]);
    EXPECT_NEAR(cuda.gradient_norm[step], cpu.gradient_norm[step], (narrow ? 3e-2 : 1e-4) * cpu.gradient_norm[step]);
  }
}

TEST_P(TrainingRuns, SixStepsAreFourAndTwo) {
  TrainingPlan plan = this->plan();
  plan.checkpoint.dir = folder_ / "straight";
  const TrainingOutcome straight = run_emulated(plan);
  ASSERT_EQ(straight.loss.size(), 6u);

  plan.checkpoint.dir = folder_ / "cut";
  std::atomic<std::int64_t> done = 0;
  TrainingHooks until_four;
  until_four.step = [&](const StepReport& report) { done = report.step; };
  until_four.stop = [&] { return done >= 3; };
  const TrainingOutcome first = run_emulated(plan, 2, {}, until_four);
  EXPECT_TRUE(first.stopped);
  ASSERT_EQ(first.steps_done, 4);
  const TrainingOutcome second = run_emulated(plan, 3, {.resume = plan.checkpoint.dir});
  EXPECT_EQ(second.first_step, 4);

  std::vector<double> losses = first.loss;
  losses.insert(losses.end(), second.loss.begin(), second.loss.end());
  EXPECT_EQ(losses, straight.loss);
  const std::string state = state_of("cut");
  EXPECT_FALSE(state.empty());
  EXPECT_TRUE(state == state_of("straight")) << "parameters, masters and moments";
}

INSTANTIATE_TEST_SUITE_P(Layouts, TrainingRuns, ::testing::ValuesIn(kCases), [](const auto& info) { return info.param.name; });

TEST(TrainingRunFailures, ARankThatFailsEndsTheRun) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.config.layout.tp = 2, plan.config.layout.sequence_parallel = true;
  TrainingHooks hooks;
  hooks.step = [](const StepReport& report) {
    if (report.step == 2) throw Error(Error::Kind::io, "the log is full");
  };
  try {
    run_emulated(plan, 1, {}, hooks);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("the log is full"));
  }
  EXPECT_EQ(cuda_emulator::allocated_bytes(), 0u) << "memory is given back";
}

TEST(TrainingRunFailures, ADeviceOfTooFewGpusIsNotOpened) {
  cuda_emulator::reset({.devices = 1});
  try {
    cuda::open_device(2);
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::unavailable);
  }
}

}  // namespace
}  // namespace benchsuite::testing_cuda
