// A run that is cut and resumed is the run that was not cut, bit for bit, under every layout.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "engine/core/error.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/training_plan.h"

namespace benchsuite {
namespace {

struct LayoutCase {
  const char* name;
  std::function<void(TrainConfig&)> change;
};

const LayoutCase kLayouts[] = {
    {"one_rank", [](TrainConfig&) {}},
    {"tp2_sp_full",
     [](TrainConfig& c) {
       c.layout.tp = 2, c.layout.sequence_parallel = true;
       c.layout.recompute.granularity = RecomputeGranularity::full;
     }},
    {"pp2_v2", [](TrainConfig& c) { c.layout.pp = 2, c.layout.vpp = 2, c.layout.schedule = ScheduleKind::interleaved; }},
    {"dp2", [](TrainConfig& c) { c.layout.dp = 2; }},
    {"dp2_zero1_bf16", [](TrainConfig& c) { c.layout.dp = 2, c.layout.zero_stage = 1, c.layout.precision = DType::bf16; }},
    {"dp2_zero3", [](TrainConfig& c) { c.layout.dp = 2, c.layout.zero_stage = 3; }},
    {"tp2_pp2_bf16", [](TrainConfig& c) { c.layout.tp = c.layout.pp = 2, c.layout.precision = DType::bf16; }},
};

class Resume : public testing::TestWithParam<LayoutCase> {};

/// The bytes of all ranks' files of a checkpoint.
std::string state_of(const std::string& folder, int ranks) {
  std::ostringstream bytes;
  for (int rank = 0; rank < ranks; ++rank) bytes << std::ifstream(folder + "/" + part_name(rank), std::ios::binary).rdbuf();
  return bytes.str();
}

TEST_P(Resume, SixStepsAreFourAndTwo) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  GetParam().change(plan.config);
  const int ranks = static_cast<int>(plan.config.layout.world());
  plan.checkpoint.dir = folder / "straight";
  const TrainingOutcome straight = TrainingRun(plan, {}, {}).on_threads();
  ASSERT_EQ(straight.loss.size(), 6u);

  plan.checkpoint.dir = folder / "cut";
  std::atomic<int> asked = 0;
  TrainingHooks until_four;
  std::atomic<std::int64_t> done = 0;
  until_four.step = [&](const StepReport& report) { done = report.step; };
  until_four.stop = [&] { return done >= 3 && ++asked > 0; };  // asked for during step 4
  const TrainingOutcome first = TrainingRun(plan, {}, until_four).on_threads();
  EXPECT_TRUE(first.stopped);
  EXPECT_EQ(first.steps_done, 4);

  const TrainingOutcome second = TrainingRun(plan, {.resume = plan.checkpoint.dir}, {}).on_threads();
  EXPECT_EQ(second.first_step, 4);
  EXPECT_EQ(second.steps_done, 6);
  std::vector<double> losses = first.loss, norms = first.gradient_norm;
  losses.insert(losses.end(), second.loss.begin(), second.loss.end());
  norms.insert(norms.end(), second.gradient_norm.begin(), second.gradient_norm.end());
  EXPECT_EQ(losses, straight.loss);
  EXPECT_EQ(norms, straight.gradient_norm);
  const std::string whole = state_of(folder / "straight/step_0000000006", ranks);
  EXPECT_GT(whole.size(), 3u * 4 * 4 * 12 * 32 * 32 / static_cast<unsigned>(ranks));  // values and two moments of 4 layers
  EXPECT_EQ(whole, state_of(folder / "cut/step_0000000006", ranks));
}

INSTANTIATE_TEST_SUITE_P(Layouts, Resume, testing::ValuesIn(kLayouts), [](const auto& info) { return info.param.name; });

TEST(TrainingRun, EveryStepHasTheRateOfTheSchedule) {
  const TestFolder folder;
  const TrainingPlan plan = small_plan(folder);  // two steps of warm-up to 1e-3, then a cosine to 1e-4 at step 6
  std::vector<double> rates;
  TrainingHooks hooks;
  hooks.step = [&](const StepReport& report) { rates.push_back(report.learning_rate); };
  TrainingRun(plan, {}, hooks).on_threads();
  // cos(0), cos(pi / 4), cos(pi / 2), cos(3 pi / 4) of the way down.
  const double half = 0.70710678118654752;
  const std::vector<double> wanted = {0, 5e-4, 1e-3, 1e-4 + 4.5e-4 * (1 + half), 5.5e-4, 1e-4 + 4.5e-4 * (1 - half)};
  ASSERT_EQ(rates.size(), wanted.size());
  for (std::size_t step = 0; step < rates.size(); ++step) EXPECT_NEAR(rates[step], wanted[step], 1e-15) << "step " << step;
}

// A rate of 0 leaves the model as it was, and another one does not: the rate reaches the optimizer, and that of its step.
TEST(TrainingRun, TheFirstStepOfAWarmUpTrainsNothing) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.steps = 3;
  const auto losses = [&](double peak, std::int64_t warmup) {
    plan.learning_rate = {.peak = peak, .warmup = warmup, .decay = Decay::constant};
    return TrainingRun(plan, {}, {}).on_threads().loss;
  };
  const std::vector<double> still = losses(0, 0), warm = losses(0.01, 1), cold = losses(0.01, 0);
  EXPECT_EQ(warm[0], still[0]);
  EXPECT_EQ(warm[1], still[1]) << "step 1 had a rate of 0";
  EXPECT_NE(warm[2], still[2]);
  EXPECT_NE(cold[1], still[1]);
}

std::vector<Violation> violations_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config) << error.what();
    return error.violations();
  }
  return {};
}

TEST(TrainingRun, RefusesACheckpointOfAnotherRunAndNamesEachDifference) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.checkpoint.dir = folder / "checkpoints";
  plan.steps = 1;
  TrainingRun(plan, {}, {}).on_threads();

  TrainingPlan other = plan;
  other.config.layout.tp = 2;
  other.learning_rate.peak = 2e-3;
  const std::vector<Violation> found =
      violations_of([&] { TrainingRun(other, {.resume = plan.checkpoint.dir}, {}); });
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].key, "layout.tp");
  EXPECT_EQ(found[0].problem, "the checkpoint has 1");
  EXPECT_EQ(found[1].key, "optimizer.lr");

  std::ofstream(folder / "text", std::ios::app) << "another text";
  const std::vector<Violation> text = violations_of([&] { TrainingRun(plan, {.resume = plan.checkpoint.dir}, {}); });
  ASSERT_EQ(text.size(), 1u);
  EXPECT_EQ(text[0].key, "data.checksum");
}

TEST(TrainingRun, NeverTrainsOverCheckpointsItDoesNotContinue) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.checkpoint.dir = folder / "checkpoints";
  plan.steps = 1;
  TrainingRun(plan, {}, {}).on_threads();
  const std::vector<Violation> found = violations_of([&] { TrainingRun(plan, {}, {}); });
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].key, "checkpoint.dir");
  const std::vector<Violation> none = violations_of([&] { TrainingRun(plan, {.resume = folder / "nothing"}, {}); });
  ASSERT_EQ(none.size(), 1u);
  EXPECT_EQ(none[0].key, "--resume");
}

TEST(TrainingRun, ADamagedCheckpointStopsAllRanks) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.config.layout.dp = 2;
  plan.checkpoint.dir = folder / "checkpoints";
  plan.steps = 1;
  TrainingRun(plan, {}, {}).on_threads();
  const std::string part = folder / "checkpoints/step_0000000001/rank_0001.bin";
  std::filesystem::resize_file(part, std::filesystem::file_size(part) / 2);
  plan.steps = 2;
  plan.learning_rate.decay_steps = 6;
  TrainingRun run(plan, {.resume = plan.checkpoint.dir}, {});
  try {
    run.on_threads();
    FAIL() << "half a file was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::io);
    EXPECT_NE(std::string(error.what()).find(part + ": is truncated"), std::string::npos) << error.what();
  }
}

TEST(TrainingRun, ALossThatIsNoNumberEndsTheRun) {
  const TestFolder folder;
  TrainingPlan plan = small_plan(folder);
  plan.learning_rate = {.peak = 1e30, .warmup = 0, .decay_steps = 6};
  plan.optimizer.clip = 0;
  try {
    TrainingRun(plan, {}, {}).on_threads();
    FAIL() << "a learning rate of 1e30 trains";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::run);
    EXPECT_NE(std::string(error.what()).find("training diverged: step 2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace benchsuite
