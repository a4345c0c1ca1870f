#include "tests/engine/train/executed.h"

#include <exception>

namespace benchsuite::testing_train {

Executed execute(const TrainConfig& config, int steps, Poison poison) {
  constexpr std::uint64_t kSeed = 1234;
  const RankGrid grid(config.layout);
  const int ranks = grid.world();
  Executed result;
  std::vector<std::unique_ptr<CpuRank>> memories;
  for (int rank = 0; rank < ranks; ++rank) result.recorded.push_back(record_step(config, rank));
  for (const RecordedStep& step : result.recorded) memories.push_back(std::make_unique<CpuRank>(step.program, poison));
  result.timelines.resize(static_cast<std::size_t>(ranks));
  result.loss.resize(static_cast<std::size_t>(ranks));

  ThreadWorld world(ranks);
  NotingWorld noting(world);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  const auto live = [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const StepBindings& bindings = result.recorded[at].bindings;
    CpuRank& memory = *memories[at];
    try {
      world.run_as(rank, [&] {
        for (const Group& group : result.recorded[at].program.groups) noting.name_group(rank, world.join(group), group);
        initialise_parameters(memory, bindings, config.model.layers, kSeed);
        const TokenSource source = [&](std::int64_t sample, std::span<std::int32_t> tokens) {
          for (std::size_t i = 0; i < tokens.size(); ++i) {
            tokens[i] = synthetic_token(kSeed, sample, static_cast<std::int64_t>(i), config.model.vocab);
          }
        };
        for (int step = 0; step < steps; ++step) {
          fill_inputs(memory, bindings, config, grid.coordinates(rank), step, kSeed, source, {});
          noting.notes[at].clear();
          memory.run_step(noting);
        }
        result.timelines[at] = memory.timeline();
        result.loss[at] = memory.view<float>(bindings.loss)[0];
      });
    } catch (...) {
      errors[at] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(live, rank);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  result.notes = std::move(noting.notes);
  return result;
}

}  // namespace benchsuite::testing_train
