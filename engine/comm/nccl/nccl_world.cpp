#include "engine/comm/nccl/nccl_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <tuple>

#include "engine/core/error.h"
#include "engine/device/cuda/cuda_check.h"

namespace benchsuite {

namespace {

constexpr std::size_t kSlot = 16;  // bytes of each member in the exchange that connects
constexpr std::chrono::microseconds kPoll(20);  // between looks at a call in progress

/// How NCCL moves elements: bytes where nothing is added.
struct Elements {
  ncclDataType_t type;
  std::size_t count;
};

Elements elements_of(DType type, std::int64_t count, bool adds) {
  const auto elements = static_cast<std::size_t>(count);
  if (type == DType::fp32) return {ncclFloat32, elements};
  if (type == DType::bf16) return {ncclBfloat16, elements};
  CHECK(!adds) << "a reduction of " << name_of(type);
  return {ncclUint8, elements * static_cast<std::size_t>(size_of(type))};
}

/// A call that goes on in the background has not failed so far.
ncclResult_t begun(ncclResult_t result) { return result == ncclInProgress ? ncclSuccess : result; }

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclSuccess;
  NCCL_CHECK(ncclCommGetAsyncError(comm, &state));
  return state;
}

ncclRedOp_t reduction_of(Reduction reduction) {
  CHECK(reduction != Reduction::none) << "a reduction that does not say how";
  return reduction == Reduction::sum ? ncclSum : ncclMax;
}

}  // namespace

NcclWorld::NcclWorld(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>());
}

NcclWorld::~NcclWorld() {
  const auto for_each_communicator = [&](auto&& body) {
    for (const auto& member : members_) {
      for (const Channel& channel : member->channels) {
        if (channel.comm) body(channel.comm);
      }
    }
  };
  // The members of a communicator end it together.
  for_each_communicator([](ncclComm_t comm) { ncclCommFinalize(comm); });
  for_each_communicator([](ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (ncclCommGetAsyncError(comm, &state) == ncclSuccess && state == ncclInProgress) {
      std::this_thread::sleep_for(kPoll);
    }
  });
  for_each_communicator([](ncclComm_t comm) { ncclCommDestroy(comm); });
}

ncclUniqueId NcclWorld::id_of(const Group& group) {
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(ids_.begin(), ids_.end(), [&](const auto& each) { return each.first == group; });
  if (known != ids_.end()) return known->second;
  ncclUniqueId id;
  NCCL_CHECK(ncclGetUniqueId(&id));
  ids_.emplace_back(group, id);
  return id;
}

std::size_t NcclWorld::scratch_bytes(const std::vector<Group>& groups) {
  std::size_t most = 1;
  for (const Group& group : groups) most = std::max(most, group.ranks.size() + 1);
  return most * kSlot;
}

void NcclWorld::connect(int rank, const std::vector<Group>& groups, std::span<std::byte> scratch, cudaStream_t stream) {
  Member& self = *members_[static_cast<std::size_t>(rank)];
  // In one order on all ranks: the first group that is not complete has all its members here, or on their way here.
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(groups[a].kind, groups[a].ranks) < std::tie(groups[b].kind, groups[b].ranks);
  });
  {
    const std::lock_guard lock(self.mutex);
    self.channels.resize(groups.size());
  }
  for (const std::size_t index : order) {
    const Group& group = groups[index];
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
    if (place == group.ranks.end()) continue;
    const ncclUniqueId id = id_of(group);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    {
      const std::lock_guard lock(self.mutex);
      throw_if_aborted(self, rank);
      Channel& channel = self.channels[index];
      channel.members = static_cast<int>(group.ranks.size());
      channel.place = static_cast<int>(place - group.ranks.begin());
      NCCL_CHECK(begun(ncclCommInitRankConfig(&channel.comm, channel.members, id, channel.place, &config)));
    }
    call(rank, index, [](const Channel&) {});  // until all members have come
    const bool is_channel = group.kind == GroupKind::pipeline_forward || group.kind == GroupKind::pipeline_backward;
    std::byte* const own = scratch.data();
    call(rank, index, [&](const Channel& joined) {
      if (!is_channel) {
        NCCL_CHECK(begun(ncclAllGather(own, own + kSlot, kSlot, ncclUint8, joined.comm, stream)));
      } else if (joined.place == 0) {
        NCCL_CHECK(begun(ncclSend(own, kSlot, ncclUint8, 1, joined.comm, stream)));
      } else {
        NCCL_CHECK(begun(ncclRecv(own, kSlot, ncclUint8, 0, joined.comm, stream)));
      }
    });
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
}

void NcclWorld::start(const Channel& channel, const CollectiveCall& call, cudaStream_t stream) {
  const std::int64_t members = channel.members;
  switch (call.kind) {
    case OpKind::all_gather: {
      const Elements part = elements_of(call.dtype, div_exact(call.elements, members), false);
      NCCL_CHECK(begun(ncclAllGather(call.input, call.output, part.count, part.type, channel.comm, stream)));
      return;
    }
    case OpKind::reduce_scatter: {
      const Elements part = elements_of(call.dtype, div_exact(call.elements, members), true);
      NCCL_CHECK(begun(ncclReduceScatter(call.input, call.output, part.count, part.type, reduction_of(call.reduction),
                                         channel.comm, stream)));
      return;
    }
    case OpKind::all_reduce: {
      const Elements all = elements_of(call.dtype, call.elements, true);
      NCCL_CHECK(begun(ncclAllReduce(call.input, call.output, all.count, all.type, reduction_of(call.reduction), channel.comm,
                                     stream)));
      return;
    }
    case OpKind::shift: {
      CHECK(call.distance > 0) << "a shift by " << call.distance;
      const Elements all = elements_of(call.dtype, call.elements, false);
      const int step = static_cast<int>(call.distance % members);
      const int to = (channel.place + step) % channel.members, from = (channel.place + channel.members - step) % channel.members;
      NCCL_CHECK(ncclGroupStart());  // both at once: everybody sends and receives
      NCCL_CHECK(begun(ncclSend(call.input, all.count, all.type, to, channel.comm, stream)));
      NCCL_CHECK(begun(ncclRecv(call.output, all.count, all.type, from, channel.comm, stream)));
      NCCL_CHECK(begun(ncclGroupEnd()));
      return;
    }
    case OpKind::send: {
      CHECK(members == 2 && channel.place == 0) << "a channel is {source, destination}";
      const Elements all = elements_of(call.dtype, call.elements, false);
      NCCL_CHECK(begun(ncclSend(call.input, all.count, all.type, 1, channel.comm, stream)));
      return;
    }
    case OpKind::receive: {
      CHECK(members == 2 && channel.place == 1) << "a channel is {source, destination}";
      const Elements all = elements_of(call.dtype, call.elements, false);
      NCCL_CHECK(begun(ncclRecv(call.output, all.count, all.type, 0, channel.comm, stream)));
      return;
    }
    default: CHECK(false) << name_of(call.kind) << " is not communication";
  }
}

void NcclWorld::throw_if_aborted(const Member& member, int rank) {
  if (member.aborted.empty()) return;
  throw Error(Error::Kind::run, fmt::format("rank {}: communication was ended because {}", rank, member.aborted));
}

template <class Call>
void NcclWorld::call(int rank, std::size_t group, Call call) {
  Member& self = *members_[static_cast<std::size_t>(rank)];
  {
    const std::lock_guard lock(self.mutex);
    throw_if_aborted(self, rank);
    CHECK(group < self.channels.size() && self.channels[group].comm) << "rank " << rank << " is not in group " << group;
    call(self.channels[group]);
  }
  while (true) {
    {
      const std::lock_guard lock(self.mutex);
      throw_if_aborted(self, rank);
      const ncclResult_t state = state_of(self.channels[group].comm);
      if (state != ncclInProgress) {
        NCCL_CHECK(state);
        return;
      }
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void NcclWorld::launch(int rank, std::uint32_t group, const CollectiveCall& collective, cudaStream_t stream) {
  call(rank, group, [&](const Channel& channel) { start(channel, collective, stream); });
}

void NcclWorld::check(int rank) {
  Member& self = *members_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(self.mutex);
  throw_if_aborted(self, rank);
  for (const Channel& channel : self.channels) {
    if (channel.comm) NCCL_CHECK(begun(state_of(channel.comm)));
  }
}

void NcclWorld::abort(const std::string& why) {
  for (const auto& member : members_) {
    const std::lock_guard lock(member->mutex);
    if (member->aborted.empty()) member->aborted = why;
    for (Channel& channel : member->channels) {
      if (channel.comm) ncclCommAbort(std::exchange(channel.comm, nullptr));
    }
  }
}

}  // namespace benchsuite
