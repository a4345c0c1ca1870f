#include "suite/train/verb_train.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "engine/device/cpu/cpu_rank.h"
#include "engine/model/flops.h"
#include "engine/train/host_peak.h"
#include "engine/train/training_run.h"
#include "suite/environment/version.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"
#include "suite/train/training_file.h"

#ifdef BENCHSUITE_HAS_MPI
#include "engine/comm/mpi/mpi_world.h"
#endif

namespace benchsuite {

namespace {

using Clock = std::chrono::steady_clock;

/// What the first rank tells: the screen and the log.
class Narrator {
 public:
  Narrator(const TrainRequest& request, const TrainingPlan& plan, bool processes)
      : request_(request), plan_(plan), processes_(processes) {}

  void begin(const TrainingRun& run) {
    const Layout& layout = plan_.config.layout;
    const ModelConfig& model = plan_.config.model;
    if (on_cpu()) peak_ = measure_host_peak();
    flops_ = model_flops(model, layout, flops_formula_of(model.family, true)).total();
    if (!plan_.log.empty()) {
      std::error_code ignored;  // a folder that can't be made shows as a log that can't be written
      std::filesystem::create_directories(std::filesystem::path(plan_.log).parent_path(), ignored);
      log_ = EventLog(plan_.log, "\"log\" in " + plan_.file);
    }
    say("train  {}: tp {} x pp {} x dp {}, {} rank{} as {}, {}, {} steps of {} samples of {} tokens", model.name,
        layout.tp, layout.pp, layout.dp, run.ranks(), run.ranks() == 1 ? "" : "s",
        !on_cpu() ? "threads, a GPU each" : processes_ ? "processes" : "threads",
        name_of(layout.precision), plan_.steps, layout.global_batch, model.seq);
    say("data   {}: {} samples an epoch; {} windows that fill no batch and {} tokens that fill no window are dropped",
        plan_.data.path, run.data().samples_per_epoch(), run.data().dropped_windows(), run.data().dropped_tokens());
    if (on_cpu()) say("host   peak {:.1f} GFLOP/s, measured by fp32 matrix products on all cores; MFU is model FLOPs ({}) over it",
        peak_ * 1e-9, id_of(flops_formula_of(model.family, true)));
    log_.append({{"event", "start"},
                 {"suite_version", kSuiteVersion},
                 {"engine_commit", engine_commit()},
                 {"config", plan_.file},
                 {"ranks", run.ranks()},
                 {"device", request_.device},
                 {"processes", processes_},
                 {"identity", identity_of(plan_, run.data())},
                 {"steps", plan_.steps},
                 {"samples_per_epoch", run.data().samples_per_epoch()},
                 {"dropped_windows", run.data().dropped_windows()},
                 {"dropped_tokens", run.data().dropped_tokens()},
                 {"host_peak_flops", on_cpu() ? Json(peak_) : Json()},
                 {"model_flops_per_step", flops_}});
  }

  TrainingHooks hooks(const std::atomic<int>& signal) {
    TrainingHooks hooks;
    hooks.stop = [&signal] { return signal.load() != 0; };
    hooks.resumed = [this](std::int64_t step, const std::string& folder) {
      say("resume {} after step {}", folder, step);
      log_.append({{"event", "resume"}, {"step", step}, {"checkpoint", folder}});
    };
    hooks.saved = [this](std::int64_t step, const std::string& folder) {
      say("saved  {}", folder);
      log_.append({{"event", "checkpoint"}, {"step", step}, {"checkpoint", folder}});
    };
    hooks.step = [this](const StepReport& report) { step(report); };
    return hooks;
  }

  void end(const TrainingOutcome& outcome, int signal) {
    log_.append({{"event", outcome.stopped ? "interrupted" : "end"}, {"step", outcome.steps_done}});
    if (!outcome.stopped) {
      if (outcome.loss.empty()) return say("done   the checkpoint has all {} steps already", outcome.steps_done);
      return say("done   {} steps, loss {:.6f}", outcome.steps_done, outcome.loss.back());
    }
    const char* why = signal == SIGTERM ? "terminated" : "interrupted";
    if (plan_.checkpoint.dir.empty())
      return say("{} after step {}; nothing was saved: no checkpoint.dir", why, outcome.steps_done);
    say("{} after step {}; go on with: benchsuite train --config {} --resume", why, outcome.steps_done, plan_.file);
  }

 private:
  void step(const StepReport& report) {
    const auto tokens = static_cast<double>(plan_.config.layout.global_batch * plan_.config.model.seq);
    const double tokens_per_s = tokens / report.seconds, achieved = flops_ / report.seconds;
    log_.append({{"event", "step"},
                 {"step", report.step},
                 {"loss", report.loss},
                 {"gradient_norm", report.gradient_norm},
                 {"lr", report.learning_rate},
                 {"seconds", report.seconds},
                 {"tokens_per_s", tokens_per_s},
                 {"mfu", on_cpu() ? Json(achieved / peak_) : Json()}});
    // Every step of a short run; of a long one a line a second, and the last.
    constexpr std::int64_t kShortRun = 100;
    const auto now = Clock::now();
    if (plan_.steps > kShortRun && report.step != plan_.steps && now - last_line_ < std::chrono::seconds(1)) return;
    last_line_ = now;
    say("step   {:>{}}/{}  loss {:.6f}  norm {:.4f}  lr {:.3e}  {:.0f} tokens/s  {}", report.step,
        fmt::formatted_size("{}", plan_.steps), plan_.steps, report.loss, report.gradient_norm, report.learning_rate,
        tokens_per_s,
        on_cpu() ? fmt::format("MFU {:.1f} %", 100 * achieved / peak_) : fmt::format("{:.3g} TFLOP/s", achieved * 1e-12));
  }

  bool on_cpu() const { return request_.device == "cpu"; }

  template <class... Parts>
  void say(fmt::format_string<Parts...> format, Parts&&... parts) {
    if (request_.quiet) return;
    fmt::print(format, std::forward<Parts>(parts)...);
    std::fputc('\n', stdout);
    std::fflush(stdout);
  }

  const TrainRequest& request_;
  const TrainingPlan& plan_;
  const bool processes_;
  EventLog log_;
  double peak_ = 0, flops_ = 0;
  Clock::time_point last_line_{};
};

int exit_of(const TrainingOutcome& outcome, int signal) {
  if (!outcome.stopped) return kExitPass;
  return signal == SIGTERM ? kExitTerminated : kExitInterrupted;
}

TrainingOptions options_of(const TrainRequest& request, const TrainingPlan& plan, bool leads) {
  TrainingOptions options;
  options.leads = leads;
  if (!request.resumes) return options;
  options.resume = request.resume.empty() ? plan.checkpoint.dir : request.resume.front();
  if (options.resume.empty()) {
    throw Error({Violation{"command line", "--resume", "", "the configuration names no checkpoint.dir",
                           "name the folder: --resume DIR"}});
  }
  return options;
}

int train_on_threads(const TrainRequest& request, const TrainingDevice& cuda, const std::atomic<int>& signal) {
  const TrainingPlan plan = load_training_file(request.config);
  std::unique_ptr<StepDevice> device = std::make_unique<CpuDevice>();
  if (request.device == "cuda") device = cuda.open(static_cast<int>(plan.config.layout.world()));
  Narrator narrator(request, plan, false);
  TrainingRun run(plan, options_of(request, plan, true), narrator.hooks(signal));
  narrator.begin(run);
  const TrainingOutcome outcome = run.on_threads(*device);
  narrator.end(outcome, signal.load());
  return exit_of(outcome, signal.load());
}

#ifdef BENCHSUITE_HAS_MPI
int train_as_process(const TrainRequest& request, const std::atomic<int>& signal) {
  // mpirun hands SIGUSR1 on and turns SIGINT into the end of the job: scripts/mpirun sends the former for the latter.
  std::signal(SIGUSR1, [](int) { ::raise(SIGINT); });
  MpiWorld world;
  const int rank = world.rank();
  int code = kExitPass;
  try {
    world.run_as(rank, [&] {
      const TrainingPlan plan = load_training_file(request.config);
      Narrator narrator(request, plan, true);
      TrainingHooks hooks;
      if (rank == 0) {
        hooks = narrator.hooks(signal);
      } else {
        hooks.stop = [&signal] { return signal.load() != 0; };
      }
      TrainingRun run(plan, options_of(request, plan, rank == 0), std::move(hooks));
      if (rank == 0) narrator.begin(run);
      const TrainingOutcome outcome = run.as_rank(world, rank);
      if (rank == 0) narrator.end(outcome, signal.load());
      // A signal may have reached some ranks only; the code is that of the one that was asked.
      code =
          outcome.stopped && signal.load() == 0 ? static_cast<int>(kExitInterrupted) : exit_of(outcome, signal.load());
    });
  } catch (const Error& error) {
    // Every process reads the same configuration; one of them tells what is wrong with it.
    if (error.kind() == Error::Kind::config && rank != 0) return kExitUsage;
    throw;
  }
  return code;
}
#endif

bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

}  // namespace

int verb_train(const TrainRequest& request, const TrainingDevice& cuda, const std::atomic<int>& signal) {
  if (!under_mpirun()) return train_on_threads(request, cuda, signal);
  if (request.device != "cpu") {
    throw Error({Violation{"command line", "--device", request.device, "ranks on GPUs are threads of one process",
                           "start without mpirun"}});
  }
#ifdef BENCHSUITE_HAS_MPI
  return train_as_process(request, signal);
#else
  throw Error({Violation{"environment", "mpirun", "", "this build has no MPI: ranks can't be processes",
                         "install libopenmpi-dev and openmpi-bin and build again, or start without mpirun"}});
#endif
}

void define_train(CLI::App& app, TrainRequest& request) {
  CLI::App* verb =
      app.add_subcommand("train", "Train a small model for real, with checkpoints and resume");
  verb->add_option("--config", request.config, "Training configuration (JSON); cases/train holds examples")
      ->type_name("FILE")
      ->required();
  verb->add_option("--device", request.device, "cpu (default), or cuda: a GPU for each rank")
      ->type_name("DEVICE")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  verb->add_option("--resume", request.resume,
                   "Go on from the newest checkpoint of DIR (default: checkpoint.dir), or from DIR itself if it is one")
      ->type_name("[DIR]")
      ->expected(0, 1);
  verb->add_flag("-q,--quiet", request.quiet, "No progress; the log is written all the same");
  verb->footer(
      "Examples:\n"
      "  benchsuite train --config cases/train/gpt_tiny.json\n"
      "  benchsuite train --config cases/train/gpt_tiny.json --resume\n"
      "  benchsuite train --config cases/train/gpt_tiny.json --device cuda\n"
      "  scripts/mpirun -n 4 train --config cases/train/gpt_tiny.json     (ranks as processes)\n"
      "Exit codes: 0 trained to the end, 2 bad configuration, 3 the run broke, 5 too few GPUs, 130 interrupted, 143 terminated\n"
      "(after the step was finished and a checkpoint written)");
}

std::optional<int> dispatch_train(const CLI::App& app, TrainRequest& request, const TrainingDevice& cuda,
                                  const std::atomic<int>& signal) {
  if (!app.got_subcommand("train")) return std::nullopt;
  request.resumes = app.get_subcommand("train")->count("--resume") > 0;
  std::erase(request.resume, "");
  return verb_train(request, cuda, signal);
}

}  // namespace benchsuite
