#include "engine/comm/mpi/mpi_exchange.h"

#include <algorithm>
#include <cstring>

#include "engine/comm/threads/collectives.h"
#include "engine/core/error.h"

namespace benchsuite {

void MpiExchange::begin(MPI_Comm comm, const Group& group, std::size_t member, std::uint32_t sequence, int tag,
                        const CollectiveCall& call) {
  comm_ = comm;
  if (group_ != group) group_ = group;
  member_ = member;
  sequence_ = sequence;
  tag_ = tag;
  call_ = call;
  reduced_ = false;
  done_.store(false, std::memory_order_release);
  started_ = Communicator::Clock::now();
  const auto peers = [&](auto body) {
    for (std::size_t j = 0; j < members(); ++j) {
      if (j != member_) body(j, group_.ranks[j]);
    }
  };
  switch (call_.kind) {
    case OpKind::send:
      CHECK(members() == 2 && member_ == 0) << "a channel is {source, destination}";
      return sends_.send(comm_, group_.ranks[1], tag_, call_.input, call_.elements * width());
    case OpKind::receive:
      CHECK(members() == 2 && member_ == 1) << "a channel is {source, destination}";
      return inputs_.receive(comm_, group_.ranks[0], tag_, call_.output, call_.elements * width());
    case OpKind::all_gather: {
      const std::int64_t bytes = div_exact(call_.elements, static_cast<std::int64_t>(members())) * width();
      peers([&](std::size_t j, int rank) {
        inputs_.receive(comm_, rank, tag_, call_.output + static_cast<std::int64_t>(j) * bytes, bytes);
      });
      peers([&](std::size_t, int rank) { sends_.send(comm_, rank, tag_, call_.input, bytes); });
      std::byte* own = call_.output + static_cast<std::int64_t>(member_) * bytes;
      if (own != call_.input) std::memcpy(own, call_.input, static_cast<std::size_t>(bytes));
      return;
    }
    case OpKind::shift: {
      const auto step = static_cast<std::size_t>(call_.distance) % members();
      CHECK(step > 0) << "a shift by " << call_.distance << " among " << members();
      const std::int64_t bytes = call_.elements * width();
      inputs_.receive(comm_, group_.ranks[(member_ + members() - step) % members()], tag_, call_.output, bytes);
      return sends_.send(comm_, group_.ranks[(member_ + step) % members()], tag_, call_.input, bytes);
    }
    default: break;
  }
  CHECK(call_.kind == OpKind::all_reduce || call_.kind == OpKind::reduce_scatter)
      << name_of(call_.kind) << " does not start a collective";
  if (call_.kind == OpKind::reduce_scatter) div_exact(call_.elements, static_cast<std::int64_t>(members()));
  const Part own = slice(member_);
  received_.resize(static_cast<std::size_t>(own.count * width()) * members());
  if (call_.kind == OpKind::all_reduce) sum_.resize(static_cast<std::size_t>(call_.elements * width()));
  // All receives stand before any send: messages of one pair and tag match in order, phase by phase.
  peers([&](std::size_t j, int rank) {
    inputs_.receive(comm_, rank, tag_, received_.data() + static_cast<std::int64_t>(j) * own.count * width(),
                    own.count * width());
  });
  if (call_.kind == OpKind::all_reduce) {
    peers([&](std::size_t j, int rank) {
      results_.receive(comm_, rank, tag_, sum_.data() + slice(j).first * width(), slice(j).count * width());
    });
  }
  peers([&](std::size_t j, int rank) {
    sends_.send(comm_, rank, tag_, call_.input + slice(j).first * width(), slice(j).count * width());
  });
}

void MpiExchange::reduce_own_slice() {
  const Part own = slice(member_);
  const bool to_all = call_.kind == OpKind::all_reduce;
  std::byte* to = to_all ? sum_.data() + own.first * width() : call_.output;
  // Element by element the sum over members in rank order, whatever the slices: the one all_reduce of comm/threads.
  reduction_.assign(members(), CollectiveCall{OpKind::all_reduce, call_.dtype, call_.reduction, own.count, nullptr, to, 0});
  for (std::size_t j = 0; j < members(); ++j) {
    reduction_[j].input = j == member_ ? call_.input + own.first * width()
                                       : received_.data() + static_cast<std::int64_t>(j) * own.count * width();
  }
  if (own.count > 0) run_collective(reduction_);
  if (!to_all) return;
  for (std::size_t j = 0; j < members(); ++j) {
    if (j != member_) sends_.send(comm_, group_.ranks[j], tag_, to, own.count * width());
  }
}

bool MpiExchange::progress() {
  if (done()) return false;
  const bool received = inputs_.finished();
  if (received && !reduced_ && (call_.kind == OpKind::all_reduce || call_.kind == OpKind::reduce_scatter)) {
    reduced_ = true;
    reduce_own_slice();
  }
  const bool sent = sends_.finished(), complete = results_.finished();  // each moves its messages on
  if (!received || !sent || !complete) return false;
  if (call_.kind == OpKind::all_reduce && call_.output) std::memcpy(call_.output, sum_.data(), sum_.size());
  ended_ = Communicator::Clock::now();
  done_.store(true, std::memory_order_release);
  return true;
}

std::vector<int> MpiExchange::absent() const {
  std::vector<int> ranks;
  for (const MessageSet* set : {&inputs_, &results_, &sends_}) {
    for (const int rank : set->unfinished()) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) ranks.push_back(rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

}  // namespace benchsuite
