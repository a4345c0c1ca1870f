// Thread ranks: results of collectives by hand, who is named when something breaks, and that nothing hangs.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

#include "engine/comm/threads/thread_world.h"
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

/// Ends the test program when a test hangs.
class Watchdog {
 public:
  Watchdog() : thread_([this] {
    std::unique_lock lock(mutex_);
    if (!wake_.wait_for(lock, std::chrono::seconds(60), [this] { return over_; })) {
      std::fprintf(stderr, "the test hangs\n");
      std::abort();
    }
  }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

std::vector<int> first_ranks(int n) {
  std::vector<int> ranks;
  for (int rank = 0; rank < n; ++rank) ranks.push_back(rank);
  return ranks;
}

OpShape collective(OpKind kind, std::int64_t n, Reduction reduction = Reduction::none) {
  OpShape shape = shape_of(kind, {n});
  shape.reduction = reduction;
  return shape;
}

struct World {
  explicit World(int n) {
    for (int rank = 0; rank < n; ++rank) programs.emplace_back(rank);
  }
  std::vector<std::unique_ptr<CpuRank>> run(const HostWork& host = {}, int steps = 1, Poison poison = Poison::off) {
    std::vector<const Program*> pointers;
    for (const TinyProgram& tiny : programs) pointers.push_back(&tiny.program);
    return run_ranks(pointers, host, steps, poison);
  }
  std::string error() {
    try {
      run();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::run) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "the world ran";
    return "";
  }
  std::vector<TinyProgram> programs;
};

TEST(Collectives, ResultsByHandOnOneToFourRanks) {
  const Watchdog watchdog;
  for (int n = 1; n <= 4; ++n) {
    World world(n);
    Tensor x, gathered, scattered, sum, max;
    for (TinyProgram& tiny : world.programs) {
      const std::uint32_t group = tiny.group(GroupKind::tensor, first_ranks(n));
      const Placed placed{.stream = StreamKind::tensor, .group = group};
      x = tiny.tensor(2 * n);
      gathered = tiny.tensor(2 * n * n);
      scattered = tiny.tensor(2);
      sum = tiny.tensor(3);
      max = tiny.tensor(1);
      tiny.op(collective(OpKind::all_gather, 2 * n * n), {reads(x), writes(gathered)}, placed);
      tiny.op(collective(OpKind::reduce_scatter, 2 * n, Reduction::sum), {reads(x), writes(scattered)}, placed);
      tiny.op(collective(OpKind::all_reduce, 3, Reduction::sum), {updates(sum)}, placed);
      tiny.op(collective(OpKind::all_reduce, 1, Reduction::max), {updates(max)}, placed);
    }
    HostWork host;
    host.before_step = [&](CpuRank& rank, int) {
      for (int i = 0; i < 2 * n; ++i) rank.data(x)[i] = static_cast<float>(100 * rank.rank() + i);
      for (int i = 0; i < 3; ++i) rank.data(sum)[i] = static_cast<float>(rank.rank() + 1);
      rank.data(max)[0] = -1.0f - static_cast<float>(rank.rank());
    };
    const auto ranks = world.run(host, 3);
    for (int rank = 0; rank < n; ++rank) {
      CpuRank& at = *ranks[static_cast<std::size_t>(rank)];
      for (int i = 0; i < 2 * n * n; ++i) {
        EXPECT_EQ(at.data(gathered)[i], static_cast<float>(100 * (i / (2 * n)) + i % (2 * n)));
      }
      for (int i = 0; i < 2; ++i) {  // sum over j of 100 j + 2 rank + i
        EXPECT_EQ(at.data(scattered)[i], static_cast<float>(50 * n * (n - 1) + n * (2 * rank + i)));
      }
      EXPECT_EQ(at.data(sum)[2], static_cast<float>(n * (n + 1) / 2));
      EXPECT_EQ(at.data(max)[0], -1);
    }
  }
}

TEST(Collectives, AShiftMovesEveryMembersElementsRoundTheGroup) {
  const Watchdog watchdog;
  for (const std::int64_t distance : {1, 2}) {
    World world(3);
    Tensor x, y;
    for (TinyProgram& tiny : world.programs) {
      const std::uint32_t group = tiny.group(GroupKind::tensor, {2, 0, 1});  // distance counts in group order
      x = tiny.tensor(2);
      y = tiny.tensor(2);
      OpShape shift = collective(OpKind::shift, 2);
      shift.dims[1] = distance;
      tiny.op(shift, {reads(x), writes(y)}, {.stream = StreamKind::tensor, .group = group});
    }
    HostWork host;
    host.before_step = [&](CpuRank& rank, int step) {
      for (int i = 0; i < 2; ++i) rank.data(x)[i] = static_cast<float>(100 * step + 10 * rank.rank() + i);
    };
    host.after_step = [&](CpuRank& rank, int step) {
      const std::array<int, 3> place{1, 2, 0}, at{2, 0, 1};  // of ranks in the group, and of the group's members
      const int source = at[static_cast<std::size_t>((place[static_cast<std::size_t>(rank.rank())] + 3 - distance) % 3)];
      for (int i = 0; i < 2; ++i) EXPECT_EQ(rank.data(y)[i], static_cast<float>(100 * step + 10 * source + i));
    };
    world.run(host, 3);
  }
}

TEST(Collectives, ShiftsOfDifferentDistancesDoNotMeet) {
  const Watchdog watchdog;
  World world(3);
  for (int rank = 0; rank < 3; ++rank) {
    TinyProgram& tiny = world.programs[static_cast<std::size_t>(rank)];
    const Tensor x = tiny.tensor(1), y = tiny.tensor(1);
    OpShape shift = collective(OpKind::shift, 1);
    shift.dims[1] = rank == 2 ? 2 : 1;
    tiny.op(shift, {reads(x), writes(y)},
            {.stream = StreamKind::tensor, .group = tiny.group(GroupKind::tensor, first_ranks(3))});
  }
  EXPECT_NE(world.error().find("shift"), std::string::npos);
}

TEST(Collectives, ReductionsAddInRankOrder) {
  const Watchdog watchdog;
  // In fp32 (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1: the order of the ranks decides, whatever arrives first.
  const float values[3] = {1e8f, 1.0f, -1e8f};
  for (const bool reversed : {false, true}) {
    World world(3);
    Tensor x;
    for (TinyProgram& tiny : world.programs) {
      const std::uint32_t group = tiny.group(GroupKind::data, reversed ? std::vector{0, 2, 1} : std::vector{0, 1, 2});
      x = tiny.tensor(1);
      tiny.op(collective(OpKind::all_reduce, 1, Reduction::sum), {updates(x)},
              {.stream = StreamKind::data, .group = group});
    }
    HostWork host;
    host.before_step = [&](CpuRank& rank, int step) {
      if (step % 3 == rank.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      rank.data(x)[0] = values[rank.rank()];
    };
    host.after_step = [&](CpuRank& rank, int) { EXPECT_EQ(rank.data(x)[0], reversed ? 1 : 0); };
    world.run(host, 6);
  }
}

TEST(Collectives, Bf16SumsRunInFp32InRankOrderAndAreRoundedOnce) {
  const Watchdog watchdog;
  // bf16 steps by 2 from 256: rounding after each addition would give 256 + 1 = 256 twice, and 3 + 256 is a tie for 260.
  // The last column shows the order: in fp32 (2^30 + 1) - 2^30 is 0.
  const std::vector<float> values[3] = {{256, 3, -8, 0x1p30f}, {1, 256, -2, 1}, {1, 0, -4, -0x1p30f}};
  World world(3);
  Tensor sum, whole, part, max, gathered;
  for (TinyProgram& tiny : world.programs) {
    const std::uint32_t group = tiny.group(GroupKind::tensor, {0, 1, 2});
    const Placed placed{.stream = StreamKind::tensor, .group = group};
    sum = tiny.tensor(4, DType::bf16);
    whole = tiny.tensor(3, DType::bf16);
    part = tiny.tensor(1, DType::bf16);
    max = tiny.tensor(4, DType::bf16);
    gathered = tiny.tensor(12, DType::bf16);
    const auto bf16 = [](OpShape shape) {
      shape.dtype = shape.out_dtype = DType::bf16;
      return shape;
    };
    tiny.op(bf16(collective(OpKind::all_gather, 12)), {reads(max), writes(gathered)}, placed);
    tiny.op(bf16(collective(OpKind::all_reduce, 4, Reduction::sum)), {updates(sum)}, placed);
    tiny.op(bf16(collective(OpKind::reduce_scatter, 3, Reduction::sum)), {reads(whole), writes(part)}, placed);
    tiny.op(bf16(collective(OpKind::all_reduce, 4, Reduction::max)), {updates(max)}, placed);
  }
  const auto fill = [](std::span<Bf16> to, const std::vector<float>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = round_to_bf16(from[i]);
  };
  HostWork host;
  host.before_step = [&](CpuRank& rank, int) {
    for (const Tensor& tensor : {sum, whole, max}) fill(rank.view<Bf16>(tensor), values[rank.rank()]);
  };
  const auto ranks = world.run(host);
  for (int rank = 0; rank < 3; ++rank) {
    CpuRank& at = *ranks[static_cast<std::size_t>(rank)];
    const auto floats_of = [&](const Tensor& tensor) {
      std::vector<float> result;
      for (const Bf16 value : at.view<Bf16>(tensor)) result.push_back(widen(value));
      return result;
    };
    EXPECT_EQ(floats_of(sum), (std::vector<float>{258, 260, -14, 0}));
    EXPECT_EQ(floats_of(part), (std::vector<float>{std::vector<float>{258, 260, -14}[static_cast<std::size_t>(rank)]}));
    EXPECT_EQ(floats_of(max), (std::vector<float>{256, 256, -2, 0x1p30f}));
    std::vector<float> all;
    for (const auto& row : values) all.insert(all.end(), row.begin(), row.end());
    EXPECT_EQ(floats_of(gathered), all);
  }
}

TEST(Collectives, InPlaceSlicesAndManyBlocks) {
  const Watchdog watchdog;
  const std::int64_t n = 3 * 10001;  // more than two blocks a slice
  World world(3);
  Tensor x;
  for (TinyProgram& tiny : world.programs) {
    const std::uint32_t group = tiny.group(GroupKind::data, {0, 1, 2});
    x = tiny.tensor(n);
    const Tensor mine = x.flat_slice(tiny.program.rank * n / 3, n / 3);
    const Placed placed{.stream = StreamKind::data, .group = group};
    tiny.op(collective(OpKind::reduce_scatter, n, Reduction::sum), {reads(x), writes(mine)}, placed);
    tiny.op(collective(OpKind::all_gather, n), {reads(mine), writes(x)}, placed);
  }
  HostWork host;
  host.before_step = [&](CpuRank& rank, int) {
    for (std::int64_t i = 0; i < n; ++i) rank.data(x)[i] = static_cast<float>(i + rank.rank());
  };
  for (const auto& rank : world.run(host)) {
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(rank->data(x)[i], static_cast<float>(3 * i + 3));
  }
}

TEST(Collectives, ChannelsAreDirectedAndOrdered) {
  const Watchdog watchdog;
  World world(2);  // both ranks send first: a blocking send would deadlock
  Tensor mine, first, second;
  for (TinyProgram& tiny : world.programs) {
    const int rank = tiny.program.rank;
    const std::uint32_t out_channel = tiny.group(GroupKind::pipeline_forward, {rank, 1 - rank});
    const std::uint32_t in_channel = tiny.group(GroupKind::pipeline_forward, {1 - rank, rank});
    mine = tiny.tensor(4);
    first = tiny.tensor(2);
    second = tiny.tensor(2);
    for (int i = 0; i < 2; ++i) {
      tiny.op(collective(OpKind::send, 2), {reads(mine.flat_slice(2 * i, 2))},
              {.stream = StreamKind::pipeline_send_next, .group = out_channel});
      tiny.op(collective(OpKind::receive, 2), {writes(i == 0 ? first : second)},
              {.stream = StreamKind::pipeline_receive_previous, .group = in_channel});
    }
  }
  HostWork host;
  host.before_step = [&](CpuRank& rank, int step) {
    for (int i = 0; i < 4; ++i) rank.data(mine)[i] = static_cast<float>(100 * step + 10 * rank.rank() + i);
  };
  host.after_step = [&](CpuRank& rank, int step) {
    const auto base = static_cast<float>(100 * step + 10 * (1 - rank.rank()));
    EXPECT_EQ(rank.data(first)[0], base);
    EXPECT_EQ(rank.data(first)[1], base + 1);
    EXPECT_EQ(rank.data(second)[0], base + 2);
    EXPECT_EQ(rank.data(second)[1], base + 3);
  };
  world.run(host, 5);
}

TEST(Collectives, DisagreementNamesRanksAndOps) {
  const Watchdog watchdog;
  const auto against = [](const OpShape& of_rank_1, std::size_t operands) {
    World world(2);
    for (TinyProgram& tiny : world.programs) {
      const std::uint32_t group = tiny.group(GroupKind::tensor, {0, 1});
      const OpShape shape = tiny.program.rank == 0 ? collective(OpKind::all_reduce, 4, Reduction::sum) : of_rank_1;
      std::vector<Operand> list = {updates(tiny.tensor(shape.kind == OpKind::all_gather ? 2 : shape.dims[0]))};
      if (tiny.program.rank == 1 && operands == 2) list.push_back(writes(tiny.tensor(4)));
      tiny.op(shape, list, {.stream = StreamKind::tensor, .group = group});
    }
    return world.error();
  };
  for (const auto& [message, posted] :
       {std::pair{against(collective(OpKind::all_gather, 4), 2), "rank 1 posts all_gather of 4 fp32 (op 0)"},
        std::pair{against(collective(OpKind::all_reduce, 8, Reduction::sum), 1),
                  "rank 1 posts all_reduce (sum) of 8 fp32 (op 0)"},
        std::pair{against(collective(OpKind::all_reduce, 4, Reduction::max), 1),
                  "rank 1 posts all_reduce (max) of 4 fp32 (op 0)"}}) {
    EXPECT_NE(message.find("collective 0 of tensor group {0, 1}"), std::string::npos) << message;
    EXPECT_NE(message.find("rank 0 posts all_reduce (sum) of 4 fp32 (op 0)"), std::string::npos) << message;
    EXPECT_NE(message.find(posted), std::string::npos) << message;
  }
}

TEST(Collectives, DeadRankStopsItsPeers) {
  const Watchdog watchdog;
  World world(3);
  for (TinyProgram& tiny : world.programs) {
    tiny.op(collective(OpKind::all_reduce, 1, Reduction::sum), {updates(tiny.tensor(1))},
            {.stream = StreamKind::global, .group = tiny.group(GroupKind::world, {0, 1, 2})});
  }
  ThreadWorld threads_world(3);
  std::vector<std::unique_ptr<CpuRank>> ranks;
  for (TinyProgram& tiny : world.programs) ranks.push_back(std::make_unique<CpuRank>(tiny.program));
  std::vector<std::string> messages(3);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto index = static_cast<std::size_t>(rank);
      try {
        threads_world.run_as(rank, [&] {
          if (rank == 1) throw std::runtime_error("out of memory");
          ranks[index]->run_step(threads_world);
        });
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), Error::Kind::run);
        messages[index] = error.what();
      } catch (const std::runtime_error& error) {
        messages[index] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(threads_world.failed_rank(), 1);
  EXPECT_EQ(messages[1], "out of memory");
  for (const std::size_t rank : {0, 2}) {
    EXPECT_NE(messages[rank].find("rank 1 failed: out of memory"), std::string::npos) << messages[rank];
  }
}

TEST(Collectives, RunRanksThrowsWhatTheFirstToFailThrew) {
  const Watchdog watchdog;
  World world(4);
  for (TinyProgram& tiny : world.programs) {
    const Tensor x = tiny.tensor(2);
    tiny.op(collective(OpKind::all_reduce, 2, Reduction::sum), {updates(x)},
            {.stream = StreamKind::global, .group = tiny.group(GroupKind::world, {0, 1, 2, 3})});
    if (tiny.program.rank == 2) tiny.op(shape_of(OpKind::fill, {3}), {writes(x)}, {.layer = 7});
    tiny.op(collective(OpKind::all_reduce, 2, Reduction::sum), {updates(x)},
            {.stream = StreamKind::global, .waits = {static_cast<OpId>(tiny.program.ops.size() - 1)}, .group = 0});
  }
  try {
    world.run();
    FAIL() << "ran";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::internal);
    EXPECT_NE(std::string(error.what()).find("rank 2, op 1 fill"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("layer 7"), std::string::npos) << error.what();
  }
}

TEST(Collectives, DeadlockNamesWhoWaitsForWhom) {
  const Watchdog watchdog;
  World world(2);  // each waits for the other's first collective, on groups in opposite order
  for (TinyProgram& tiny : world.programs) {
    const std::uint32_t tensor = tiny.group(GroupKind::tensor, {0, 1});
    const std::uint32_t data = tiny.group(GroupKind::data, {0, 1});
    for (const std::uint32_t group : tiny.program.rank == 0 ? std::vector{tensor, data} : std::vector{data, tensor}) {
      tiny.op(collective(OpKind::all_reduce, 1, Reduction::sum), {updates(tiny.tensor(1))},
              {.stream = StreamKind::tensor, .group = group});
    }
    tiny.op(shape_of(OpKind::fill, {1}), {writes(tiny.tensor(1))}, {.waits = {1}});
  }
  const std::string message = world.error();
  EXPECT_NE(message.find("deadlock"), std::string::npos) << message;
  EXPECT_NE(message.find("all_reduce 0 of tensor group {0, 1}, where rank 1 has not arrived"), std::string::npos)
      << message;
  EXPECT_NE(message.find("all_reduce 0 of data group {0, 1}, where rank 0 has not arrived"), std::string::npos)
      << message;
  EXPECT_NE(message.find("stream compute: op 2 fill"), std::string::npos) << message;
}

TEST(Collectives, WaitingForARankThatHasFinishedIsADeadlock) {
  const Watchdog watchdog;
  World world(2);
  TinyProgram& lonely = world.programs[0];
  const std::uint32_t channel = lonely.group(GroupKind::pipeline_forward, {1, 0});
  lonely.op(collective(OpKind::receive, 1), {writes(lonely.tensor(1))},
            {.stream = StreamKind::pipeline_receive_previous, .group = channel});
  const std::string message = world.error();
  EXPECT_NE(message.find("receive 0 of"), std::string::npos) << message;
  EXPECT_NE(message.find("rank 1 has finished"), std::string::npos) << message;
}

TEST(Collectives, AChannelHasADirection) {
  const Watchdog watchdog;
  World world(2);
  for (TinyProgram& tiny : world.programs) {
    tiny.op(collective(tiny.program.rank == 0 ? OpKind::receive : OpKind::send, 1), {updates(tiny.tensor(1))},
            {.stream = StreamKind::pipeline_send_next, .group = tiny.group(GroupKind::pipeline_forward, {0, 1})});
  }
  EXPECT_NE(world.error().find("{source, destination}"), std::string::npos);
}

TEST(Collectives, SixteenRanksManySteps) {
  const Watchdog watchdog;
  World world(16);
  Tensor x;
  for (TinyProgram& tiny : world.programs) {
    const int rank = tiny.program.rank;
    const int first = rank / 4 * 4, column_of = rank % 4;
    const std::uint32_t row = tiny.group(GroupKind::tensor, {first, first + 1, first + 2, first + 3});
    const std::uint32_t column =
        tiny.group(GroupKind::data, {column_of, column_of + 4, column_of + 8, column_of + 12});
    x = tiny.tensor(1);
    OpId last = tiny.op(shape_of(OpKind::fill, {1}, static_cast<float>(rank)), {writes(x)});
    for (int i = 0; i < 20; ++i) {
      last = tiny.op(collective(OpKind::all_reduce, 1, Reduction::sum), {updates(x)},
                     {.stream = StreamKind::tensor, .waits = {last}, .group = row});
      last = tiny.op(collective(OpKind::all_reduce, 1, Reduction::max), {updates(x)},
                     {.stream = StreamKind::data, .waits = {last}, .group = column});
    }
  }
  // The first pair gives max over rows of 12 + 13 + 14 + 15 = 54 everywhere; each further pair multiplies by 4.
  HostWork host;
  host.after_step = [&](CpuRank& rank, int) { EXPECT_EQ(rank.data(x)[0], 54 * std::pow(4.0f, 19)); };
  world.run(host, 20);
}

}  // namespace
}  // namespace benchsuite::testing_cpu
