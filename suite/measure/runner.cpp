#include "suite/measure/runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "suite/measure/repeats.h"
#include "suite/measure/train_variant.h"

namespace benchsuite {

namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(20);  // how late a signal may be noticed

void fail(VariantResult& result, Status status, const char* code, const std::string& reason) {
  result.status = status;
  result.reason_code = code;
  result.reason = reason;
}

/// Sleeps in slices, so that a stopped run doesn't wait for a delay that was put in on purpose.
void delay(double seconds, const std::atomic<bool>* cancelled) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < until && !(cancelled && cancelled->load())) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

VariantResult described(const ResolvedVariant& variant) {
  VariantResult result;
  result.id = variant.id;
  result.title = variant.title;
  result.hardware = variant.hardware_name;
  result.stack = variant.config.stack.name;
  result.model = to_json(variant.config.model);
  result.layout = to_json(variant.config.layout);
  return result;
}

/// What the threads and the caller share; threads that are left behind keep it alive.
struct Shared {
  std::vector<ResolvedVariant> variants;
  std::string case_id;
  RunOptions options;
  std::mutex mutex;
  std::condition_variable finished;
  std::deque<std::pair<std::size_t, VariantResult>> results;  // in order of finishing
  std::atomic<std::size_t> next{0};
  std::atomic<bool> cancelled{false};
};

void work(const std::shared_ptr<Shared>& shared) {
  while (!shared->cancelled.load()) {
    const std::size_t count = shared->variants.size(), place = shared->next.fetch_add(1);
    if (place >= count * static_cast<std::size_t>(shared->options.repeat)) return;
    const std::size_t index = place % count;
    VariantResult result = run_variant(shared->case_id, shared->variants[index], shared->options, &shared->cancelled);
    const std::lock_guard lock(shared->mutex);
    if (shared->cancelled.load()) return;  // stopped: what finished afterwards is not a result
    shared->results.emplace_back(index, std::move(result));
    shared->finished.notify_one();
  }
}

/// Joins the threads when the case is done; leaves them behind when it was stopped or an exception passes.
class Crew {
 public:
  Crew(std::shared_ptr<Shared> shared, int size) : shared_(std::move(shared)) {
    for (int i = 0; i < size; ++i) threads_.emplace_back(work, shared_);
  }
  ~Crew() {
    shared_->cancelled = true;
    for (std::thread& thread : threads_) thread.detach();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace

std::string_view name_of(Device device) {
  switch (device) {
    case Device::sim:
      return "sim";
    case Device::cpu:
      return "cpu";
    case Device::cuda:
      return "cuda";
  }
  return "?";
}

StopWatch::StopWatch(double timeout_s, const std::atomic<int>& signal)
    : deadline_(std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                       std::chrono::duration<double>(timeout_s))),
      limited_(timeout_s > 0),
      signal_(signal) {}

Stop StopWatch::poll() const {
  if (const int signal = signal_.load(); signal != 0) return signal == SIGTERM ? Stop::terminated : Stop::interrupted;
  if (limited_ && std::chrono::steady_clock::now() >= deadline_) return Stop::timed_out;
  return Stop::none;
}

VariantResult run_variant(const std::string& case_id, const ResolvedVariant& variant, const RunOptions& options,
                          const std::atomic<bool>* cancelled) {
  VariantResult result = described(variant);
  if (options.injection.delay_s > 0) delay(options.injection.delay_s, cancelled);
  if (options.device == Device::cuda) {
    const std::string missing = options.why_no_cuda ? options.why_no_cuda(static_cast<int>(variant.config.layout.world()))
                                                    : "device cuda: this program was linked without it";
    if (!missing.empty()) {
      fail(result, Status::skip, "NO_GPU", missing);
    } else {
      fail(result, Status::skip, "UNSUPPORTED_DEVICE", "device cuda proves layouts (benchsuite conform); it measures no cases");
    }
    return result;
  }
  if (options.device == Device::cpu) {
    if (const std::string why = why_not_trainable(variant.config); !why.empty()) {
      fail(result, Status::skip, "UNSUPPORTED_DEVICE", why);
      return result;
    }
  }
  try {
    SimulateOptions simulate_options;
    simulate_options.verify = options.verify;
    simulate_options.injection = options.injection;
    simulate_options.cancelled = cancelled;
    if (!options.trace_folder.empty()) {
      simulate_options.trace_file = fmt::format("{}/{}.{}.trace.json", options.trace_folder, case_id, variant.id);
    }
    const Faults faults{.drop_recomputed_collectives = options.injection.drop_recomputed_collectives};
    VariantResult measured = options.device == Device::cpu
                                 ? train_variant(variant.config, {.faults = faults, .cancelled = cancelled})
                                 : options.simulate(variant.config, *variant.hardware, simulate_options);
    measured.id = result.id;
    measured.title = result.title;
    measured.hardware = result.hardware;
    measured.stack = result.stack;
    measured.model = result.model;
    measured.layout = result.layout;
    return measured;
  } catch (const Error& error) {
    switch (error.kind()) {
      case Error::Kind::config:
        fail(result, Status::error, "CONFIG_INVALID", error.what());
        break;
      case Error::Kind::io:
        fail(result, Status::error, "IO_ERROR", error.what());
        break;
      case Error::Kind::run:
        fail(result, Status::error, "RUN_ERROR", error.what());
        break;
      case Error::Kind::unavailable:
        fail(result, Status::skip, "NO_GPU", error.what());
        break;
      case Error::Kind::internal:
        fail(result, Status::error, "INTERNAL_ERROR", error.what());
        break;
    }
  } catch (const std::bad_alloc&) {
    fail(result, Status::error, "NOT_ENOUGH_MEMORY",
         "this machine has too little memory to record and replay the step");
  } catch (const std::exception& failure) {
    fail(result, Status::error, "INTERNAL_ERROR", failure.what());
  }
  return result;
}

std::vector<VariantResult> run_variants(const ResolvedCase& resolved, const RunOptions& options, const StopWatch& watch,
                                        const VariantDone& done, const Waiting& waiting) {
  const auto shared = std::make_shared<Shared>();
  shared->variants = resolved.variants;
  shared->case_id = resolved.source.id;
  shared->options = options;
  const std::size_t count = shared->variants.size();
  CHECK(options.repeat >= 1) << "repeat is " << options.repeat;
  const int threads = options.device == Device::sim ? std::max(1, options.threads) : 1;
  Crew crew(shared, std::min(threads, static_cast<int>(count)));

  std::vector<VariantResult> results(count);
  std::vector<int> rounds(count, 0);
  std::vector<bool> have(count, false);
  std::size_t finished = 0;
  Stop stop = Stop::none;
  const auto take = [&](std::size_t index, VariantResult&& result) {
    if (rounds[index]++ > 0) {
      add_round(results[index], std::move(result), options.device);
    } else {
      results[index] = std::move(result);
      if (options.repeat > 1) begin_samples(results[index], options.device);
    }
    if (rounds[index] < options.repeat) return;
    have[index] = true;
    ++finished;
    done(results[index]);
  };
  while (finished < count) {
    std::deque<std::pair<std::size_t, VariantResult>> batch;
    {
      std::unique_lock lock(shared->mutex);
      shared->finished.wait_for(lock, kPollInterval, [&] { return !shared->results.empty(); });
      batch.swap(shared->results);
    }
    for (auto& [index, result] : batch) take(index, std::move(result));
    waiting(finished);
    stop = watch.poll();
    if (stop != Stop::none) break;
  }
  if (stop == Stop::none || finished == count) {
    crew.join();
    return results;
  }

  {
    const std::lock_guard lock(shared->mutex);
    shared->cancelled = true;
    for (auto& [index, result] : shared->results) take(index, std::move(result));  // since the last look
    shared->results.clear();
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (have[i]) continue;
    results[i] = described(shared->variants[i]);
    switch (stop) {
      case Stop::timed_out:
        fail(results[i], Status::timeout, "TIMED_OUT", fmt::format("the case ran longer than {} s", options.timeout_s));
        break;
      case Stop::terminated:
        fail(results[i], Status::aborted, "TERMINATED", "the run was terminated (SIGTERM)");
        break;
      default:
        fail(results[i], Status::aborted, "INTERRUPTED", "the run was interrupted (SIGINT)");
        break;
    }
    done(results[i]);
  }
  return results;
}

}  // namespace benchsuite
