// The program: signals in, exit code out.
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/device/cuda/cuda_device.h"
#include "suite/cli/cli.h"
#include "suite/measure/simulate.h"
#include "suite/results/outcome.h"

/// Read by jemalloc where it is linked. A recorded step is hundreds of megabytes that are written once and read twice: the
/// first touch of every 4 KiB page would be a fifth of what simulating it costs.
extern "C" {
const char* malloc_conf = "thp:always";
}

namespace {

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "the signal handler needs it");

/// The first signal asks the run to write what it has; the second one ends it at once.
void on_signal(int number) {
  if (received_signal.exchange(number) != 0) ::_exit(128 + number);
}

/// What `--device cuda` runs on.
benchsuite::TrainingDevice cuda_device() {
  using namespace benchsuite::cuda;
  Options options;
  options.say = benchsuite::once([](const std::string& text) { std::fprintf(stderr, "benchsuite: device cuda: %s\n", text.c_str()); });
  return {why_unavailable, [options](const auto& programs, const auto& host, int steps) { run_ranks(programs, host, steps, options); },
          [options](int ranks) { return open_device(ranks, options); }};
}

}  // namespace

int main(int argc, char** argv) {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  ::signal(SIGXFSZ, SIG_IGN);  // a file-size limit shows as a failed write, which is told like a full disk

  int code = benchsuite::run_cli(std::vector<std::string>(argv + 1, argv + argc), benchsuite::simulate, cuda_device(),
                                 received_signal);
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    std::fputs("benchsuite: standard output can't be written\n", stderr);
    code = benchsuite::worse_exit(code, benchsuite::kExitError);
  }
  // A stopped run leaves threads behind that still work; static destructors must not pull data from under them.
  std::_Exit(code);
}
