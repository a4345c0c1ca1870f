#include "engine/comm/nccl/nccl_world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "engine/core/error.h"
#include "engine/device/cuda/cuda_check.h"

namespace benchsuite {

namespace {

constexpr std::size_t kSlot = 16;  // bytes of each member in the exchange that connects

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

ncclRedOp_t reduction_of(Reduction reduction) {
  CHECK(reduction != Reduction::none) << "a reduction that does not say how";
  return reduction == Reduction::sum ? ncclSum : ncclMax;
}

}  // namespace

NcclWorld::NcclWorld(int ranks) {
  for (int rank = 0; rank < ranks; ++rank) members_.push_back(std::make_unique<Member>());
}

NcclWorld::~NcclWorld() {
  for (const auto& member : members_) {
    for (const Channel& channel : member->channels) {
      if (channel.comm) ncclCommDestroy(channel.comm);
    }
  }
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
  std::vector<Channel> channels(groups.size());
  for (const std::size_t index : order) {
    const Group& group = groups[index];
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), rank);
    if (place == group.ranks.end()) continue;
    Channel& channel = channels[index];
    channel.members = static_cast<int>(group.ranks.size());
    channel.place = static_cast<int>(place - group.ranks.begin());
    NCCL_CHECK(ncclCommInitRank(&channel.comm, channel.members, id_of(group), channel.place));
    {
      const std::lock_guard lock(self.mutex);
      self.channels = channels;
    }
    const bool is_channel = group.kind == GroupKind::pipeline_forward || group.kind == GroupKind::pipeline_backward;
    std::byte* const own = scratch.data();
    if (!is_channel) {
      NCCL_CHECK(ncclAllGather(own, own + kSlot, kSlot, ncclUint8, channel.comm, stream));
    } else if (channel.place == 0) {
      NCCL_CHECK(ncclSend(own, kSlot, ncclUint8, 1, channel.comm, stream));
    } else {
      NCCL_CHECK(ncclRecv(own, kSlot, ncclUint8, 0, channel.comm, stream));
    }
    CUDA_CHECK(cudaStreamSynchronize(stream));
  }
}

void NcclWorld::start(const Channel& channel, const CollectiveCall& call, cudaStream_t stream) {
  const std::int64_t members = channel.members;
  switch (call.kind) {
    case OpKind::all_gather: {
      const Elements part = elements_of(call.dtype, div_exact(call.elements, members), false);
      NCCL_CHECK(ncclAllGather(call.input, call.output, part.count, part.type, channel.comm, stream));
      return;
    }
    case OpKind::reduce_scatter: {
      const Elements part = elements_of(call.dtype, div_exact(call.elements, members), true);
      NCCL_CHECK(ncclReduceScatter(call.input, call.output, part.count, part.type, reduction_of(call.reduction), channel.comm,
                                   stream));
      return;
    }
    case OpKind::all_reduce: {
      const Elements all = elements_of(call.dtype, call.elements, true);
      NCCL_CHECK(ncclAllReduce(call.input, call.output, all.count, all.type, reduction_of(call.reduction), channel.comm, stream));
      return;
    }
    case OpKind::shift: {
      CHECK(call.distance > 0) << "a shift by " << call.distance;
      const Elements all = elements_of(call.dtype, call.elements, false);
      const int step = static_cast<int>(call.distance % members);
      const int to = (channel.place + step) % channel.members, from = (channel.place + channel.members - step) % channel.members;
      NCCL_CHECK(ncclGroupStart());  // both at once: everybody sends and receives
      NCCL_CHECK(ncclSend(call.input, all.count, all.type, to, channel.comm, stream));
      NCCL_CHECK(ncclRecv(call.output, all.count, all.type, from, channel.comm, stream));
      NCCL_CHECK(ncclGroupEnd());
      return;
    }
    case OpKind::send: {
      CHECK(members == 2 && channel.place == 0) << "a channel is {source, destination}";
      const Elements all = elements_of(call.dtype, call.elements, false);
      NCCL_CHECK(ncclSend(call.input, all.count, all.type, 1, channel.comm, stream));
      return;
    }
    case OpKind::receive: {
      CHECK(members == 2 && channel.place == 1) << "a channel is {source, destination}";
      const Elements all = elements_of(call.dtype, call.elements, false);
      NCCL_CHECK(ncclRecv(call.output, all.count, all.type, 0, channel.comm, stream));
      return;
    }
    default: CHECK(false) << name_of(call.kind) << " is not communication";
  }
}

void NcclWorld::launch(int rank, std::uint32_t group, const CollectiveCall& call, cudaStream_t stream) {
  Member& self = *members_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(self.mutex);
  if (self.aborted) throw Error(Error::Kind::run, fmt::format("rank {}: communication was ended because a peer failed", rank));
  CHECK(group < self.channels.size() && self.channels[group].comm) << "rank " << rank << " is not in group " << group;
  start(self.channels[group], call, stream);
}

void NcclWorld::check(int rank) {
  Member& self = *members_[static_cast<std::size_t>(rank)];
  const std::lock_guard lock(self.mutex);
  for (const Channel& channel : self.channels) {
    if (self.aborted || !channel.comm) continue;
    ncclResult_t state = ncclSuccess;
    NCCL_CHECK(ncclCommGetAsyncError(channel.comm, &state));
    if (state != ncclInProgress) NCCL_CHECK(state);
  }
}

void NcclWorld::abort() {
  for (const auto& member : members_) {
    const std::lock_guard lock(member->mutex);
    member->aborted = true;
    for (Channel& channel : member->channels) {
      if (channel.comm) ncclCommAbort(std::exchange(channel.comm, nullptr));
    }
  }
}

}  // namespace benchsuite
