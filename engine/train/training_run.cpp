#include "engine/train/training_run.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <exception>
#include <filesystem>
#include <thread>
#include <utility>

#include "engine/comm/agreement.h"
#include "engine/comm/threads/thread_world.h"
#include "engine/core/error.h"
#include "engine/core/fnv1a.h"
#include "engine/parallel/rank_grid.h"
#include "engine/device/cpu/cpu_rank.h"
#include "engine/train/cpu_host.h"

namespace benchsuite {

namespace {

using Clock = std::chrono::steady_clock;

template <class T>
Communicator::Bytes to_bytes(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  Communicator::Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
T from_bytes(const Communicator::Bytes& bytes) {
  T value{};
  CHECK(bytes.size() == sizeof value) << "a rank sent " << bytes.size() << " bytes, not " << sizeof value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// What a rank tells the others after a step.
struct StepNews {
  double loss = 0, gradient_norm = 0;
  bool has_loss = false, stop = false;
};

/// What a rank tells about its part of a checkpoint.
struct PartNews {
  std::uint64_t bytes = 0, checksum = 0, plan = 0;
};

/// What training carries from step to step: buffers that live for ever and hold parameters, masters or moments.
bool is_state(const Buffer& buffer) {
  const bool carries = buffer.purpose == Purpose::parameters || buffer.purpose == Purpose::master ||
                       buffer.purpose == Purpose::moments;
  return carries && buffer.free_at == kNone;
}

/// Which buffers, in which order: a checkpoint of another plan can't be read back.
std::uint64_t plan_of(const Program& program) {
  std::string text;
  for (const Buffer& buffer : program.buffers) {
    if (!is_state(buffer)) continue;
    text += fmt::format("{} {} {} {};", name_of(buffer.purpose), program.terms[buffer.term], name_of(buffer.dtype), buffer.bytes);
  }
  return fnv1a64(text);
}

/// What `body` does; of an error it says which rank had it while doing what.
template <class Body>
auto named(int rank, const std::string& phase, Body body) {
  try {
    return body();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("rank {}, {}: {}", rank, phase, error.what()));
  } catch (const std::exception& error) {
    throw Error(Error::Kind::run, fmt::format("rank {}, {}: {}", rank, phase, error.what()));
  }
}

std::string canonical(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(path, ignored).string();
}

}  // namespace

struct TrainingRun::Rank {
  Communicator& world;
  RecordedStep recorded;
  Coordinates at;
  std::unique_ptr<StepRank> device;
  Clock::time_point last = Clock::now();

  Rank(StepDevice& on, Communicator& world_, const TrainingPlan& plan, int rank, const Faults& faults)
      : world(world_), recorded(record_step(plan.config, rank, plan.optimizer, faults)),
        at(RankGrid(plan.config.layout).coordinates(rank)), device(on.make_rank(recorded.program)) {}

  std::vector<std::span<std::byte>> state() {
    std::vector<std::span<std::byte>> parts;
    for (BufferId id = 0; id < recorded.program.buffers.size(); ++id) {
      const Buffer& buffer = recorded.program.buffers[id];
      if (is_state(buffer)) parts.push_back(device->bytes({0, buffer.bytes, id, Access::read_write}));
    }
    return parts;
  }
};

TrainingRun::TrainingRun(TrainingPlan plan, TrainingOptions options, TrainingHooks hooks)
    : plan_(std::move(plan)), options_(std::move(options)), hooks_(std::move(hooks)),
      data_(TextData::read(plan_.data, plan_.config.model.seq, plan_.config.layout.global_batch, plan_.seed, plan_.file)),
      identity_(identity_of(plan_, data_)) {
  judge_folders();
}

TrainingRun::~TrainingRun() = default;

void TrainingRun::judge_folders() {
  const std::string& dir = plan_.checkpoint.dir;
  if (!options_.resume.empty()) {
    resume_folder_ = latest_checkpoint(options_.resume);
    if (resume_folder_.empty()) {
      throw Error({Violation{"command line", "--resume", options_.resume, "there is no checkpoint in that folder",
                             "check the folder, or start anew without --resume"}});
    }
    manifest_ = read_manifest(resume_folder_);
    std::vector<Violation> problems = differences(identity_, manifest_.identity, plan_.file);
    if (manifest_.step > plan_.steps) {
      problems.push_back({plan_.file, "steps", std::to_string(plan_.steps),
                          fmt::format("the checkpoint has {} steps already", manifest_.step), "raise steps"});
    }
    if (!problems.empty()) throw Error(std::move(problems));
    CHECK(manifest_.files.size() == static_cast<std::size_t>(ranks())) << "a manifest of " << manifest_.files.size() << " ranks";
  }
  if (dir.empty()) return;
  if (options_.leads) lock_ = std::make_unique<CheckpointLock>(dir);
  const std::string present = latest_checkpoint(dir);
  if (!present.empty() && canonical(present) != canonical(resume_folder_)) {
    throw Error({Violation{plan_.file, "checkpoint.dir", dir,
                           fmt::format("already holds the checkpoint {}, which this run does not continue", present),
                           "resume from it with --resume, or choose another folder"}});
  }
  if (options_.leads) remove_leftovers(dir);
}

void TrainingRun::start(Rank& self) {
  const int rank = self.device->rank();
  agree_on_collectives(self.world, self.recorded.program, fnv1a64(identity_.dump()));
  if (resume_folder_.empty()) {
    initialise_parameters(*self.device, self.recorded.bindings, plan_.config.model.layers, plan_.seed);
  } else {
    const auto index = static_cast<std::size_t>(rank);
    if (manifest_.plans[index] != plan_of(self.recorded.program)) {
      throw Error(Error::Kind::io, fmt::format("{}: was written by a version of the program that keeps other buffers; resume "
                                               "with that version or start anew",
                                               resume_folder_));
    }
    named(rank, "resuming", [&] { read_checkpoint_part(resume_folder_, manifest_.files[index], self.state()); });
    if (rank == 0 && hooks_.resumed) hooks_.resumed(manifest_.step, resume_folder_);
  }
  self.world.exchange(rank, {});  // nobody trains before all have their state
  self.last = Clock::now();
}

StepReport TrainingRun::run_step(Rank& self, std::int64_t step, bool& stop) {
  const StepBindings& bindings = self.recorded.bindings;
  const Layout& layout = plan_.config.layout;
  const double rate = plan_.learning_rate.at(step);
  const TokenSource source = [this](std::int64_t sample, std::span<std::int32_t> tokens) { data_.fill(sample, tokens); };
  fill_inputs(*self.device, bindings, plan_.config, self.at, step, plan_.seed, source,
              {static_cast<float>(rate), plan_.beta1, plan_.beta2, plan_.epsilon});
  self.device->run_step(self.world);

  StepNews mine;
  mine.stop = hooks_.stop && hooks_.stop();
  mine.gradient_norm = self.device->view<float>(bindings.gradient_norm)[0];
  mine.has_loss = self.at.tp == 0 && self.at.pp == layout.pp - 1;
  if (mine.has_loss) mine.loss = self.device->view<float>(bindings.loss)[0];
  StepReport report{step + 1, 0, 0, rate, 0};
  const std::vector<Communicator::Bytes> all = self.world.exchange(self.device->rank(), to_bytes(mine));
  stop = false;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto news = from_bytes<StepNews>(all[rank]);
    if (news.has_loss) report.loss += news.loss / static_cast<double>(layout.dp);
    if (rank == 0) report.gradient_norm = news.gradient_norm;
    stop = stop || news.stop;
  }
  const Clock::time_point now = Clock::now();
  report.seconds = std::chrono::duration<double>(now - std::exchange(self.last, now)).count();
  if (!std::isfinite(report.loss) || !std::isfinite(report.gradient_norm)) {
    throw Error(Error::Kind::run, fmt::format("training diverged: step {} has loss {} and gradient norm {}; lower optimizer.lr "
                                              "or lengthen its warm-up, and resume from an earlier checkpoint",
                                              step + 1, report.loss, report.gradient_norm));
  }
  return report;
}

void TrainingRun::save(Rank& self, std::int64_t step) {
  const std::string& dir = plan_.checkpoint.dir;
  const int rank = self.device->rank();
  const std::string phase = fmt::format("saving after step {}", step);
  std::unique_ptr<CheckpointSave> leader;
  if (rank == 0) leader = named(rank, phase, [&] { return std::make_unique<CheckpointSave>(dir, step); });
  self.world.exchange(rank, {});  // the folder is there
  const std::vector<std::span<std::byte>> state = self.state();
  const std::vector<std::span<const std::byte>> parts(state.begin(), state.end());
  const CheckpointFile file =
      named(rank, phase, [&] { return write_checkpoint_part(checkpoint_part(dir, step, rank), parts); });
  const PartNews mine{file.bytes, file.checksum, plan_of(self.recorded.program)};
  const std::vector<Communicator::Bytes> all = self.world.exchange(rank, to_bytes(mine));
  if (leader) {
    CheckpointManifest manifest{step, identity_, {}, {}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto news = from_bytes<PartNews>(all[i]);
      manifest.plans.push_back(news.plan);
      manifest.files.push_back({part_name(static_cast<int>(i)), news.bytes, news.checksum});
    }
    named(rank, phase, [&] { leader->commit(manifest, plan_.checkpoint.keep); });
    if (hooks_.saved) hooks_.saved(step, latest_checkpoint(dir));
  }
  self.world.exchange(rank, {});  // nobody goes on before it is safe
  self.last = Clock::now();
}

TrainingOutcome TrainingRun::live(StepDevice& device, Communicator& world, int rank) {
  Rank self(device, world, plan_, rank, options_.faults);  // outlives run_as: messages under way use its memory until a failure is told
  TrainingOutcome outcome;
  try {
    world.run_as(rank, [&] { outcome = train(self); });
  } catch (...) {
    device.end(fmt::format("rank {} failed", rank));
    throw;
  }
  return outcome;
}

TrainingOutcome TrainingRun::train(Rank& self) {
  const int rank = self.device->rank();
  start(self);
  TrainingOutcome outcome;
  outcome.first_step = outcome.steps_done = manifest_.step;
  const CheckpointConfig& checkpoint = plan_.checkpoint;
  while (outcome.steps_done < plan_.steps && !outcome.stopped) {
    const StepReport report = run_step(self, outcome.steps_done, outcome.stopped);
    outcome.loss.push_back(report.loss);
    outcome.gradient_norm.push_back(report.gradient_norm);
    outcome.steps_done = report.step;
    if (rank == 0 && hooks_.step) hooks_.step(report);
    const bool due = checkpoint.every > 0 && report.step % checkpoint.every == 0;
    if (!checkpoint.dir.empty() && (due || outcome.stopped || report.step == plan_.steps)) save(self, report.step);
  }
  return outcome;
}

TrainingOutcome TrainingRun::on_threads(StepDevice& device) {
  const auto count = static_cast<std::size_t>(ranks());
  ThreadWorld world(ranks());
  std::vector<TrainingOutcome> outcomes(count);
  std::vector<std::exception_ptr> errors(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i]() noexcept {
      const int rank = static_cast<int>(i);
      try {
        world.run_as(rank, [&] { outcomes[i] = live(device, world, rank); });
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (const int failed = world.failed_rank(); failed >= 0) std::rethrow_exception(errors[static_cast<std::size_t>(failed)]);
  return std::move(outcomes[0]);
}

TrainingOutcome TrainingRun::on_threads() {
  CpuDevice device;
  return on_threads(device);
}

TrainingOutcome TrainingRun::as_rank(Communicator& world, int rank) {
  if (world.ranks() != ranks()) {
    throw Error({Violation{plan_.file, "layout", fmt::format("{} ranks", ranks()),
                           fmt::format("{} processes were started", world.ranks()),
                           fmt::format("start {} processes: scripts/mpirun -n {} train ...", ranks(), ranks())}});
  }
  CpuDevice device;
  return live(device, world, rank);
}

}  // namespace benchsuite
