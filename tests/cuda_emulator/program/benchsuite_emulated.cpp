// benchsuite on emulated GPUs: the program's command line with device cuda on the emulator.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/device/cuda/cuda_device.h"
#include "suite/cli/cli.h"
#include "suite/measure/simulate.h"
#include "tests/cuda_emulator/emulator.h"

namespace {

/// EMULATED_GPUS: how many the machine has (default 64).
int gpus() {
  const char* const text = std::getenv("EMULATED_GPUS");
  return text ? std::atoi(text) : 64;
}

}  // namespace

int main(int argc, char** argv) {
  cuda_emulator::reset({.devices = gpus(), .order = cuda_emulator::ThreadOrder::shuffled});
  static const benchsuite::cuda::Options options{.gemm_workspace = 2048, .say = benchsuite::once([](const std::string& text) {
                                                   std::fprintf(stderr, "benchsuite: device cuda: %s\n", text.c_str());
                                                 })};
  const benchsuite::TrainingDevice cuda{
      benchsuite::cuda::why_unavailable,
      [](const auto& programs, const auto& host, int steps) { benchsuite::cuda::run_ranks(programs, host, steps, options); },
      [](int ranks) { return benchsuite::cuda::open_device(ranks, options); }};
  const std::atomic<int> no_signal{0};
  return benchsuite::run_cli(std::vector<std::string>(argv + 1, argv + argc), benchsuite::simulate, cuda, no_signal);
}
