// A rank that waits sleeps: it takes no processor time, whatever it waits for. (Ranks as processes: tests/suite/test_train_verb.)
#include <time.h>

#include <thread>

#include "engine/comm/threads/thread_world.h"
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

using namespace std::chrono_literals;

/// Processor time of the calling thread.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

constexpr auto kLate = 400ms;      // how late rank 0 comes
constexpr auto kAwakeAtMost = 40ms;  // a spinning wait would take all of kLate

TEST(Waiting, ForACollectiveTakesNoProcessorTime) {
  std::vector<TinyProgram> programs;
  for (int rank = 0; rank < 3; ++rank) {
    programs.emplace_back(rank);
    TinyProgram& tiny = programs.back();
    const Tensor x = tiny.tensor(2);
    OpShape reduce = shape_of(OpKind::all_reduce, {2});
    reduce.reduction = Reduction::sum;
    tiny.op(reduce, {updates(x)}, {.stream = StreamKind::tensor, .group = tiny.group(GroupKind::tensor, {0, 1, 2})});
  }
  std::vector<std::chrono::nanoseconds> began(3), took(3);
  HostWork host;
  host.before_step = [&](CpuRank& rank, int) {
    if (rank.rank() == 0) std::this_thread::sleep_for(kLate);
    began[static_cast<std::size_t>(rank.rank())] = processor_time();
  };
  host.after_step = [&](CpuRank& rank, int) {
    const auto at = static_cast<std::size_t>(rank.rank());
    took[at] = processor_time() - began[at];
  };
  const auto ranks = run_ranks({&programs[0].program, &programs[1].program, &programs[2].program}, host, 1);
  for (const std::size_t rank : {1, 2}) {
    const Span& span = ranks[rank]->timeline().spans[0];
    EXPECT_GT(span.start - span.ready, std::chrono::nanoseconds(kAwakeAtMost).count() * 1000) << "it hardly had to wait";
    EXPECT_LT(took[rank], kAwakeAtMost) << "rank " << rank << " is awake while it waits";
  }
}

TEST(Waiting, BetweenStepsTakesNoProcessorTime) {
  ThreadWorld world(2);
  std::chrono::nanoseconds took{};
  std::thread late([&] {
    std::this_thread::sleep_for(kLate);
    world.run_as(0, [&] { world.exchange(0, {}); });
  });
  const auto began = processor_time();
  world.run_as(1, [&] { world.exchange(1, {}); });
  took = processor_time() - began;
  late.join();
  EXPECT_LT(took, kAwakeAtMost);
}

}  // namespace
}  // namespace benchsuite::testing_cpu
