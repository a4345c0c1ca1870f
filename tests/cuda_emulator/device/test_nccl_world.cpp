// Communicators of groups: every kind of collective on every type, and what is refused.
#include "engine/comm/nccl/nccl_world.h"

#include <gmock/gmock.h>

#include <thread>
#include <vector>

#include "engine/core/bf16.h"
#include "engine/core/error.h"
#include "engine/device/cuda/handles.h"
#include "tests/cuda_emulator/emulator.h"

namespace benchsuite {
namespace {

using cuda::DeviceMemory;
using cuda::make_device_memory;
using cuda::make_stream;

const std::vector<Group> kGroups = {{GroupKind::world, {0, 1, 2, 3}},
                                    {GroupKind::tensor, {2, 0}},
                                    {GroupKind::pipeline_forward, {3, 1}}};

/// Four ranks; `body(rank, world, stream)` on a thread and GPU each. Returns what rank 0's body threw.
template <class Body>
std::string on_four_ranks(Body body) {
  cuda_emulator::reset({.devices = 4, .patience_s = 20});
  NcclWorld world(4);
  std::string thrown;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        CUDA_CHECK(cudaSetDevice(rank));
        const cuda::Stream stream = make_stream(true);
        const DeviceMemory scratch = make_device_memory(NcclWorld::scratch_bytes(kGroups));
        world.connect(rank, kGroups, {static_cast<std::byte*>(scratch.get()), NcclWorld::scratch_bytes(kGroups)}, stream.get());
        body(rank, world, stream.get());
        world.check(rank);
      } catch (const Error& error) {
        if (rank == 0) thrown = error.what();
        world.abort("a peer failed");
      }
    });
  }
  threads.clear();
  return thrown;
}

struct Sent {
  OpKind kind;
  DType dtype;
  Reduction reduction;
  std::uint32_t group;
  std::int64_t elements, input, output;  ///< elements: of the call, of what goes in, of what comes out
  std::int64_t distance = 0;             ///< of a shift
};

/// What rank's element i holds.
float value(int rank, std::int64_t i) { return static_cast<float>((rank + 1) * 10 + i % 7); }

std::vector<float> run(const Sent& sent, int of_rank) {
  std::vector<float> result;
  const std::string error = on_four_ranks([&](int rank, NcclWorld& world, cudaStream_t stream) {
    const Group& group = kGroups[sent.group];
    if (std::find(group.ranks.begin(), group.ranks.end(), rank) == group.ranks.end()) return;
    const auto size = static_cast<std::size_t>(size_of(sent.dtype));
    std::vector<std::byte> host(static_cast<std::size_t>(std::max(sent.input, sent.output)) * size);
    for (std::int64_t i = 0; i < sent.input; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (sent.dtype == DType::bf16) reinterpret_cast<Bf16*>(host.data())[at] = round_to_bf16(value(rank, i));
      if (sent.dtype == DType::fp32) reinterpret_cast<float*>(host.data())[at] = value(rank, i);
      if (sent.dtype == DType::uint8) host[at] = static_cast<std::byte>(value(rank, i));
    }
    const DeviceMemory in = make_device_memory(host.size()), out = make_device_memory(host.size());
    CUDA_CHECK(cudaMemcpyAsync(in.get(), host.data(), host.size(), cudaMemcpyHostToDevice, stream));
    const bool in_place = sent.kind == OpKind::all_reduce;
    const bool sends = sent.kind != OpKind::send || rank == group.ranks[0];
    world.launch(rank, sent.group,
                 {.kind = sends ? sent.kind : OpKind::receive, .dtype = sent.dtype, .reduction = sent.reduction,
                  .elements = sent.elements, .input = static_cast<std::byte*>(in.get()),
                  .output = static_cast<std::byte*>(in_place ? in.get() : out.get()), .distance = sent.distance},
                 stream);
    CUDA_CHECK(cudaMemcpyAsync(host.data(), in_place ? in.get() : out.get(), host.size(), cudaMemcpyDeviceToHost, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    if (rank != of_rank) return;
    for (std::int64_t i = 0; i < sent.output; ++i) {
      const auto at = static_cast<std::size_t>(i);
      result.push_back(sent.dtype == DType::bf16   ? widen(reinterpret_cast<Bf16*>(host.data())[at])
                       : sent.dtype == DType::fp32 ? reinterpret_cast<float*>(host.data())[at]
                                                   : static_cast<float>(host[at]));
    }
  });
  EXPECT_EQ(error, "");
  return result;
}

TEST(NcclWorld, AllReduceAddsOrTakesTheMaximum) {
  for (const DType type : {DType::fp32, DType::bf16}) {
    EXPECT_EQ(run({OpKind::all_reduce, type, Reduction::sum, 0, 3, 3, 3}, 2), (std::vector<float>{100, 104, 108}));
    EXPECT_EQ(run({OpKind::all_reduce, type, Reduction::max, 0, 3, 3, 3}, 1), (std::vector<float>{40, 41, 42}));
  }
}

TEST(NcclWorld, AllGatherFollowsTheGroupsOrder) {
  for (const DType type : {DType::fp32, DType::bf16, DType::uint8}) {
    EXPECT_EQ(run({OpKind::all_gather, type, Reduction::none, 1, 4, 2, 4}, 0), (std::vector<float>{30, 31, 10, 11}));
  }
}

TEST(NcclWorld, ReduceScatterGivesEachMemberItsSlice) {
  EXPECT_EQ(run({OpKind::reduce_scatter, DType::fp32, Reduction::sum, 1, 4, 4, 2}, 0), (std::vector<float>{44, 46}));
  EXPECT_EQ(run({OpKind::reduce_scatter, DType::fp32, Reduction::sum, 1, 4, 4, 2}, 2), (std::vector<float>{40, 42}));
}

TEST(NcclWorld, ASendReachesTheOtherEndOfItsChannel) {
  EXPECT_EQ(run({OpKind::send, DType::bf16, Reduction::none, 2, 3, 3, 3}, 1), (std::vector<float>{40, 41, 42}));
}

TEST(NcclWorld, AShiftGoesAroundTheGroup) {
  EXPECT_EQ(run({OpKind::shift, DType::bf16, Reduction::none, 0, 2, 2, 2, 1}, 0), (std::vector<float>{40, 41}));
  EXPECT_EQ(run({OpKind::shift, DType::fp32, Reduction::none, 0, 2, 2, 2, 3}, 0), (std::vector<float>{20, 21}));
}

TEST(NcclWorld, WhatCannotBeIsRefused) {
  const auto refused = [](std::uint32_t group, OpKind kind, DType type, Reduction reduction, std::int64_t elements) {
    return on_four_ranks([&](int rank, NcclWorld& world, cudaStream_t stream) {
      if (rank != 0) return;
      const DeviceMemory memory = make_device_memory(64);
      auto* const bytes = static_cast<std::byte*>(memory.get());
      world.launch(rank, group, {.kind = kind, .dtype = type, .reduction = reduction, .elements = elements, .input = bytes, .output = bytes}, stream);
    });
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(refused(2, OpKind::send, DType::fp32, Reduction::none, 4), HasSubstr("is not in group"));
  EXPECT_THAT(refused(7, OpKind::send, DType::fp32, Reduction::none, 4), HasSubstr("is not in group"));
  EXPECT_THAT(refused(0, OpKind::send, DType::fp32, Reduction::none, 4), HasSubstr("a channel is"));
  EXPECT_THAT(refused(1, OpKind::all_reduce, DType::int32, Reduction::sum, 4), HasSubstr("a reduction of int32"));
  EXPECT_THAT(refused(1, OpKind::all_reduce, DType::fp32, Reduction::none, 4), HasSubstr("does not say how"));
  EXPECT_THAT(refused(1, OpKind::all_gather, DType::fp32, Reduction::none, 3), HasSubstr("multiple"));
  EXPECT_THAT(refused(1, OpKind::gemm, DType::fp32, Reduction::none, 4), HasSubstr("is not communication"));
  EXPECT_THAT(refused(1, OpKind::all_reduce, DType::fp32, Reduction::sum, 1 << 20), HasSubstr("invalid argument"));
}

TEST(NcclWorld, AnEndedWorldRefusesWork) {
  EXPECT_THAT(on_four_ranks([&](int rank, NcclWorld& world, cudaStream_t stream) {
                if (rank != 0) return;
                world.abort("a peer failed");
                world.launch(rank, 0, {.kind = OpKind::all_reduce, .dtype = DType::fp32, .reduction = Reduction::sum, .elements = 1}, stream);
              }),
              ::testing::HasSubstr("ended because a peer failed"));
}

}  // namespace
}  // namespace benchsuite
