// The runner, exit codes and result files, with doubles in place of the engine.
#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "suite/expectations/verdict.h"
#include "suite/measure/repeats.h"
#include "suite/measure/runner.h"
#include "suite/measure/train_variant.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"
#include "suite/results/statistics.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::HasSubstr;

ResolvedCase tiny() {
  std::vector<Violation> problems;
  Json json = tiny_case("tiny");
  for (int batch = 8; batch <= 32; batch += 8) {
    json["variants"].push_back({{"id", "b" + std::to_string(batch)}, {"set", {{"layout.global_batch", batch}}}});
  }
  ResolvedCase resolved =
      resolve_case(read_case(json, "c.json", problems), {}, DataRoot(BENCHSUITE_SOURCE_DIR), problems);
  EXPECT_TRUE(problems.empty());
  return resolved;
}

/// A step as long as its samples; enough to tell variants apart.
VariantResult count_samples(const TrainConfig& config, const HardwareProfile&, const SimulateOptions&) {
  VariantResult result;
  result.iteration_s = static_cast<double>(config.layout.global_batch);
  return result;
}

RunOptions with(SimulateFunction simulate) {
  RunOptions options;
  options.simulate = std::move(simulate);
  return options;
}

std::vector<VariantResult> run(const ResolvedCase& resolved, const RunOptions& options, int* finished = nullptr) {
  const std::atomic<int> no_signal{0};
  return run_variants(
      resolved, options, StopWatch(options.timeout_s, no_signal),
      [&](const VariantResult&) {
        if (finished) ++*finished;
      },
      [](std::size_t) {});
}

TEST(Runner, ResultsStandInTheOrderOfTheCase) {
  const ResolvedCase resolved = tiny();
  int finished = 0;
  const auto results = run(
      resolved, with([](const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& options) {
        // Earlier variants take longer, so that they finish out of order.
        std::this_thread::sleep_for(std::chrono::milliseconds(40 / config.layout.global_batch));
        return count_samples(config, hardware, options);
      }),
      &finished);
  ASSERT_EQ(results.size(), 6u);
  EXPECT_EQ(finished, 6);
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].id, resolved.variants[i].id);
    EXPECT_EQ(results[i].iteration_s, resolved.variants[i].config.layout.global_batch);
    EXPECT_EQ(results[i].hardware, "ideal");
    EXPECT_EQ(results[i].layout["global_batch"], resolved.variants[i].config.layout.global_batch);
  }
}

TEST(Runner, ErrorsBecomeStatuses) {
  const ResolvedCase resolved = tiny();
  const auto status_of = [&](const SimulateFunction& simulate) {
    const VariantResult result = run_variant("tiny", resolved.variants[0], with(simulate), nullptr);
    EXPECT_EQ(result.id, "none");
    EXPECT_EQ(result.status, Status::error);
    return result.reason_code + ": " + result.reason;
  };
  using Config = const TrainConfig&;
  using Hardware = const HardwareProfile&;
  using Options = const SimulateOptions&;
  EXPECT_EQ(status_of([](Config, Hardware, Options) -> VariantResult { throw Error(Error::Kind::run, "deadlock"); }),
            "RUN_ERROR: deadlock");
  EXPECT_EQ(status_of([](Config, Hardware, Options) -> VariantResult { throw Error(Error::Kind::internal, "bug"); }),
            "INTERNAL_ERROR: bug");
  EXPECT_EQ(status_of([](Config, Hardware, Options) -> VariantResult { throw Error(Error::Kind::io, "disk"); }),
            "IO_ERROR: disk");
  EXPECT_THAT(status_of([](Config, Hardware, Options) -> VariantResult {
                throw Error({Violation{"f", "k", "v", "p", "r"}});
              }),
              HasSubstr("CONFIG_INVALID: f: k = v: p; r"));
  EXPECT_THAT(status_of([](Config, Hardware, Options) -> VariantResult { throw std::bad_alloc(); }),
              HasSubstr("NOT_ENOUGH_MEMORY"));
}

TEST(Runner, OptionsReachTheEngine) {
  const ResolvedCase resolved = tiny();
  RunOptions options;
  options.verify = true;
  options.trace_folder = "there";
  options.injection.drop_recomputed_collectives = true;
  bool seen = false;
  options.simulate = [&](const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& given) {
    seen =
        given.verify && given.injection.drop_recomputed_collectives && given.trace_file == "there/tiny.none.trace.json";
    return count_samples(config, hardware, given);
  };
  run_variant("tiny", resolved.variants[0], options, nullptr);
  EXPECT_TRUE(seen);
}

TEST(Runner, RepeatsOfAnExactDeviceAreEqualSamples) {
  std::atomic<int> calls{0};
  RunOptions options = with([&](const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& given) {
    ++calls;
    return count_samples(config, hardware, given);
  });
  options.repeat = 3;
  int finished = 0;
  const auto results = run(tiny(), options, &finished);
  EXPECT_EQ(calls, 18);
  EXPECT_EQ(finished, 6) << "a variant is told once, after its last round";
  for (const VariantResult& result : results) {
    EXPECT_EQ(result.step_samples_s, std::vector<double>(3, result.iteration_s));
    EXPECT_EQ(result.iteration_s, result.layout["global_batch"].get<double>());
  }
  options.repeat = 1;
  EXPECT_TRUE(run(tiny(), options)[0].step_samples_s.empty()) << "one replay is no sample of anything";
}

TEST(Runner, AnExactDeviceThatDiffersFromItselfIsAnError) {
  std::atomic<int> calls{0};
  RunOptions options = with([&](const TrainConfig&, const HardwareProfile&, const SimulateOptions&) {
    VariantResult result;
    result.step = ++calls;
    result.iteration_s = 1;
    return result;
  });
  options.repeat = 2;
  const VariantResult result = run(tiny(), options)[0];
  EXPECT_EQ(result.status, Status::error);
  EXPECT_EQ(result.reason_code, "NOT_REPRODUCIBLE");
}

TEST(Runner, MeasuredRoundsPoolTheirSamples) {
  VariantResult all = variant_result("a", 2), again = variant_result("a", 4);
  all.tokens_per_s_per_gpu = 100;
  all.step_samples_s = {1, 2, 3};
  again.step_samples_s = {4, 4};
  all.loss_curve = again.loss_curve = {5.0, 4.0};
  add_round(all, VariantResult(again), Device::cpu);
  EXPECT_EQ(all.step_samples_s, (std::vector<double>{1, 2, 3, 4, 4}));
  EXPECT_EQ(all.iteration_s, 3) << "the median of all";
  EXPECT_EQ(all.step, 3'000'000'000'000);
  EXPECT_DOUBLE_EQ(all.tokens_per_s_per_gpu, 100 * 2.0 / 3);
  again.loss_curve = {5.0, 4.5};
  add_round(all, std::move(again), Device::cpu);
  EXPECT_EQ(all.reason_code, "NOT_REPRODUCIBLE");
}

TEST(Runner, WhatIsMeasuredHasTheMachineToItself) {
  // Training on device cpu: one variant after another whatever the number of threads, with samples for each.
  std::vector<Violation> problems;
  const ResolvedCase resolved =
      resolve_case(read_case(tiny_case("tiny"), "c.json", problems), {}, DataRoot(BENCHSUITE_SOURCE_DIR), problems);
  ASSERT_TRUE(problems.empty());
  RunOptions options;
  options.device = Device::cpu;
  options.repeat = 2;
  for (const VariantResult& result : run(resolved, options)) {
    ASSERT_EQ(result.status, Status::pass) << result.reason;
    EXPECT_EQ(result.step_samples_s.size(), 2 * (result.loss_curve.size() - kWarmUpSteps));
    EXPECT_GE(result.step_samples_s.size(), kEnoughSamples) << "so that compare can decide";
    EXPECT_EQ(result.iteration_s, median(result.step_samples_s));
  }
}

TEST(Runner, OtherDevicesSkipWithAReason) {
  const ResolvedCase resolved = tiny();
  RunOptions options = with(count_samples);
  options.device = Device::cuda;
  EXPECT_EQ(run_variant("tiny", resolved.variants[0], options, nullptr).status, Status::skip);
  EXPECT_EQ(run_variant("tiny", resolved.variants[0], options, nullptr).reason_code, "NO_GPU");
  options.device = Device::cpu;
  ResolvedVariant wide = resolved.variants[0];
  wide.config.layout.dp = 1 << 16;
  EXPECT_EQ(run_variant("tiny", wide, options, nullptr).reason_code, "UNSUPPORTED_DEVICE");
}

TEST(Runner, StopsKeepWhatIsDone) {
  const ResolvedCase resolved = tiny();
  struct Expectation {
    int signal;
    double timeout_s;
    Status status;
  };
  for (const Expectation& expected :
       {Expectation{SIGINT, 0, Status::aborted}, {SIGTERM, 0, Status::aborted}, {0, 0.2, Status::timeout}}) {
    // The first two variants finish, all others hang until they are told to stop.
    RunOptions options =
        with([](const TrainConfig& config, const HardwareProfile& hardware, const SimulateOptions& given) {
          while (config.layout.global_batch > 4 && !given.cancelled->load())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return count_samples(config, hardware, given);
        });
    options.timeout_s = expected.timeout_s;
    std::atomic<int> signal{0};
    int finished = 0;
    const auto results = run_variants(
        resolved, options, StopWatch(expected.timeout_s, signal),
        [&](const VariantResult&) {
          if (++finished == 2) signal = expected.signal;
        },
        [](std::size_t) {});
    ASSERT_EQ(results.size(), 6u);
    EXPECT_EQ(results[0].status, Status::pass);
    EXPECT_EQ(results[1].status, Status::pass);
    for (std::size_t i = 2; i < 6; ++i) {
      EXPECT_EQ(results[i].status, expected.status);
      EXPECT_EQ(results[i].id, resolved.variants[i].id);
      EXPECT_FALSE(results[i].reason.empty());
    }
    EXPECT_EQ(finished, 6) << "every variant is reported";
  }
}

TEST(Runner, FailingObserversDoNotHang) {
  const std::atomic<int> no_signal{0};
  EXPECT_THROW(run_variants(
                   tiny(), with(count_samples), StopWatch(0, no_signal),
                   [](const VariantResult&) { throw Error(Error::Kind::io, "disk full"); }, [](std::size_t) {}),
               Error);
}

CaseResult with_status(Status status) {
  CaseResult result;
  result.status = status;
  return result;
}

TEST(ExitCode, OfEachStatus) {
  const FailurePolicy plain,
      strict = FailurePolicy::from({}, true, false), required = FailurePolicy::from({}, false, true),
      never = FailurePolicy::from({"never"}, false, false), warn = FailurePolicy::from({"warn", "noref"}, false, false);
  const auto code = [](Status status, const FailurePolicy& policy, int signal = 0) {
    return exit_of({with_status(status)}, policy, signal);
  };
  EXPECT_EQ(code(Status::pass, plain), 0);
  EXPECT_EQ(code(Status::warn, plain), 0);
  EXPECT_EQ(code(Status::noref, plain), 0);
  EXPECT_EQ(code(Status::fail, plain), 1);
  EXPECT_EQ(code(Status::error, plain), 3);
  EXPECT_EQ(code(Status::skip, plain), 5);
  EXPECT_EQ(code(Status::timeout, plain), 124);
  EXPECT_EQ(code(Status::aborted, plain, SIGINT), 130);
  EXPECT_EQ(code(Status::aborted, plain, SIGTERM), 143);
  EXPECT_EQ(code(Status::warn, strict), 1);
  EXPECT_EQ(code(Status::skip, strict), 1);
  EXPECT_EQ(code(Status::noref, strict), 1);
  EXPECT_EQ(code(Status::noref, required), 4);
  EXPECT_EQ(code(Status::fail, never), 0);
  EXPECT_EQ(code(Status::error, never), 3) << "a broken run is never a pass";
  EXPECT_EQ(code(Status::fail, warn), 0) << "only what --fail-on names";
  EXPECT_EQ(code(Status::warn, warn), 1);
  EXPECT_EQ(code(Status::noref, warn), 1);
  EXPECT_EQ(exit_of(std::vector<CaseResult>{}, plain, 0), 4);
  EXPECT_THROW(FailurePolicy::from({"regres"}, false, false), Error);
  CaseResult improved = with_status(Status::warn);
  improved.checks.resize(1);
  improved.checks[0].verdict = Verdict::improved;
  EXPECT_EQ(exit_of({improved}, FailurePolicy::from({"improve"}, false, false), 0), 1);
  EXPECT_EQ(exit_of({improved}, plain, 0), 0);
}

TEST(ExitCode, Precedence) {
  const int order[] = {2, 130, 143, 124, 3, 1, 4, 5, 0};
  for (std::size_t i = 0; i < std::size(order); ++i) {
    for (std::size_t j = i; j < std::size(order); ++j) {
      EXPECT_EQ(worse_exit(order[i], order[j]), order[i]);
      EXPECT_EQ(worse_exit(order[j], order[i]), order[i]);
    }
  }
  const FailurePolicy plain;
  EXPECT_EQ(exit_of({with_status(Status::fail), with_status(Status::timeout), with_status(Status::error)}, plain, 0),
            124);
  EXPECT_EQ(exit_of({with_status(Status::skip), with_status(Status::pass)}, plain, 0), 0)
      << "5 needs everything skipped";
  EXPECT_EQ(exit_of({with_status(Status::skip), with_status(Status::fail)}, plain, 0), 1);
}

TEST(Results, FilesAppearWholeOrNotAtAll) {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "one");
  write_file(folder.file("a"), "two");
  EXPECT_EQ(read_text(folder.file("a")), "two");
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.tmp")));
  EXPECT_THROW(write_file(folder.file("no/such/folder"), "x"), Error);
  std::filesystem::create_directory(folder.file("taken"));  // renaming onto a folder fails after the text was written
  EXPECT_THROW(write_file(folder.file("taken"), "x"), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.file("taken.tmp")));
}

TEST(Results, OfSeveralFilesNoneTakesItsNameBeforeAllAreWritten) {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "former");
  const Files files = {{folder.file("a"), SharedText("new")}, {folder.file("no/such/folder"), SharedText("x")}};
  EXPECT_THROW(write_files(files), Error);
  EXPECT_EQ(read_text(folder.file("a")), "former");
  EXPECT_FALSE(std::filesystem::exists(folder.file("a.tmp")));
  write_files({{folder.file("a"), SharedText("1")}, {folder.file("b"), SharedText("2")}}, "--html");
  EXPECT_EQ(read_text(folder.file("a")) + read_text(folder.file("b")), "12");
}

TEST(Results, WhatIsNoFileIsWrittenButNeverReplaced) {
  const TemporaryFolder folder;
  write_file(folder.file("target"), "former");
  std::filesystem::create_symlink(folder.file("target"), folder.file("link"));
  write_file(folder.file("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
  EXPECT_EQ(read_text(folder.file("target")), "new");

  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const int reader = ::open(folder.file("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_file(folder.file("pipe"), "through");
  char text[16] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 7);
  EXPECT_STREQ(text, "through");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(folder.file("pipe")));
}

TEST(Results, AFailedWriteKeepsTheFormerFile) {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "former");
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small { 100, before.rlim_max };
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_THROW(write_file(folder.file("a"), std::string(1000, 'x')), Error);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_text(folder.file("a")), "former");
}

TEST(Results, EventsAreThereAtOnce) {
  const TemporaryFolder folder;
  EventLog log(folder.file("events.jsonl"));
  log.append({{"event", "a"}});
  EXPECT_EQ(read_text(folder.file("events.jsonl")), "{\"event\":\"a\"}\n");
  log.append({{"event", "b"}});
  EXPECT_EQ(read_text(folder.file("events.jsonl")), "{\"event\":\"a\"}\n{\"event\":\"b\"}\n");
  EventLog full("/dev/full");
  EXPECT_THROW(full.append({{"event", "c"}}), Error);
}

TEST(Results, CompletedRunsAreNeverTouched) {
  const TemporaryFolder folder;
  { ResultsFolder first(folder.file("run"), "id"); }
  EXPECT_THROW(ResultsFolder(folder.file("run"), "id"), Error) << "events of another run";
  std::filesystem::remove(folder.file("run/events.jsonl"));
  write_file(folder.file("run/result.json"), "{}");
  EXPECT_THROW(ResultsFolder(folder.file("run"), "id"), Error);
  EXPECT_THROW(ResultsFolder("/proc/benchsuite", "id"), Error);
}

TEST(Results, LatestMovesInOneStep) {
  const TemporaryFolder folder;
  point_link(folder.file("latest"), "a");
  point_link(folder.file("latest"), "b");
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("latest")), "b");
}

TEST(Results, TimesAreUtc) {
  EXPECT_EQ(iso_utc(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(compact_utc(86399), "19700101T235959Z");
  EXPECT_THAT(make_run_id(0), testing::MatchesRegex("19700101T000000Z-[0-9a-f]{4}"));
}

}  // namespace
}  // namespace benchsuite
