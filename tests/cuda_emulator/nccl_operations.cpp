// What communicators do on streams: an operation occupies its stream from the moment it is reached until all members have
// reached theirs; the last one moves the data. Operations of one communicator meet in the order in which the streams reach them,
// as NCCL requires; members that disagree on what they do are a failure here, and a hang or garbage there.
#include "nccl_operations.h"

#include <cuda_bf16.h>

#include <cstring>
#include <string>

namespace cuda_emulator::nccl {

std::size_t size_of(ncclDataType_t type) { return type == ncclBfloat16 ? 2 : type <= ncclUint8 ? 1 : 4; }

namespace {

float load(const void* data, ncclDataType_t type, std::size_t i) {
  return type == ncclBfloat16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]) : static_cast<const float*>(data)[i];
}
void store(void* data, ncclDataType_t type, std::size_t i, float value) {
  if (type == ncclBfloat16) {
    static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(value);
  } else {
    static_cast<float*>(data)[i] = value;
  }
}

float reduced(const Meeting& meeting, std::size_t i) {
  const Call& first = meeting.calls[0];
  float value = load(first.send, first.type, i);
  for (std::size_t member = 1; member < meeting.calls.size(); ++member) {
    const float other = load(meeting.calls[member].send, first.type, i);
    value = first.op == ncclSum ? value + other : other > value || other != other ? other : value;
  }
  return value;
}

void carry_out(const Meeting& meeting) {
  const Call& first = meeting.calls[0];
  const std::size_t members = meeting.calls.size(), bytes = first.count * size_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce:
      for (std::size_t i = 0; i < first.count; ++i) {
        const float value = reduced(meeting, i);
        for (const Call& call : meeting.calls) store(call.receive, first.type, i, value);
      }
      return;
    case Kind::reduce_scatter:
      // A result may lie in the place of its own slice, which no other member's slice needs.
      for (std::size_t member = 0; member < members; ++member) {
        for (std::size_t i = 0; i < first.count; ++i) {
          store(meeting.calls[member].receive, first.type, i, reduced(meeting, member * first.count + i));
        }
      }
      return;
    case Kind::all_gather:
      for (const Call& to : meeting.calls) {
        for (std::size_t from = 0; from < members; ++from) {
          std::memmove(static_cast<char*>(to.receive) + from * bytes, meeting.calls[from].send, bytes);
        }
      }
      return;
    case Kind::broadcast:
      for (const Call& to : meeting.calls) std::memmove(to.receive, meeting.calls[static_cast<std::size_t>(first.root)].send, bytes);
      return;
    case Kind::point_to_point: std::memmove(meeting.calls[1].receive, meeting.calls[0].send, bytes); return;
  }
}

class Collective final : public Task {
 public:
  Collective(std::shared_ptr<Clique> clique, int rank, Call call) : clique_(std::move(clique)), rank_(rank), call_(call) {}

  bool ready() const override { return !meeting_ || meeting_->done || clique_->aborted; }

  bool run() override {
    if (clique_->aborted) return true;
    if (meeting_) return meeting_->done;
    meeting_ = call_.kind == Kind::point_to_point ? meet_peer() : meet_all();
    if (!meeting_) return true;  // a disagreement; the machine has failed
    if (meeting_->arrived < meeting_->calls.size()) return false;
    carry_out(*meeting_);
    meeting_->done = true;
    return true;
  }

  std::unique_ptr<Task> clone() const override {
    auto copy = std::make_unique<Collective>(clique_, rank_, call_);
    copy->label = label;
    return copy;
  }

 private:
  std::shared_ptr<Meeting> meet_all() {
    Clique& clique = *clique_;
    const std::size_t sequence = clique.next[static_cast<std::size_t>(rank_)]++;
    while (clique.first + clique.meetings.size() <= sequence) {
      auto fresh = std::make_shared<Meeting>();
      fresh->calls.resize(static_cast<std::size_t>(clique.size));
      fresh->here.resize(static_cast<std::size_t>(clique.size));
      clique.meetings.push_back(std::move(fresh));
    }
    const std::shared_ptr<Meeting> meeting = clique.meetings[sequence - clique.first];
    for (std::size_t other = 0; other < meeting->calls.size(); ++other) {
      if (!meeting->here[other]) continue;
      const Call& theirs = meeting->calls[other];
      if (theirs.kind != call_.kind || theirs.count != call_.count || theirs.type != call_.type || theirs.op != call_.op ||
          theirs.root != call_.root) {
        Machine::get().fail(cudaErrorUnknown, "members of a communicator disagree on operation " + std::to_string(sequence) +
                                                  " (range '" + label.range + "')");
        return nullptr;
      }
    }
    meeting->calls[static_cast<std::size_t>(rank_)] = call_;
    meeting->here[static_cast<std::size_t>(rank_)] = true;
    ++meeting->arrived;
    while (!clique.meetings.empty() && clique.meetings.front()->arrived == static_cast<std::size_t>(clique.size)) {
      clique.meetings.pop_front();
      ++clique.first;
    }
    return meeting;
  }

  std::shared_ptr<Meeting> meet_peer() {
    Clique& clique = *clique_;
    const bool sends = call_.send != nullptr;
    const int source = sends ? rank_ : call_.root, destination = sends ? call_.root : rank_;
    Clique::Pair& pair = clique.pairs[static_cast<std::size_t>(source * clique.size + destination)];
    auto& theirs = sends ? pair.receives : pair.sends;
    std::shared_ptr<Meeting> meeting;
    if (theirs.empty()) {
      meeting = std::make_shared<Meeting>();
      meeting->calls.resize(2);
      (sends ? pair.sends : pair.receives).push_back(meeting);
    } else {
      meeting = theirs.front();
      theirs.pop_front();
      const Call& other = meeting->calls[sends ? 1 : 0];
      if (other.count != call_.count || other.type != call_.type) {
        Machine::get().fail(cudaErrorUnknown, "a send and its receive disagree (range '" + label.range + "')");
        return nullptr;
      }
    }
    meeting->calls[sends ? 0 : 1] = call_;
    ++meeting->arrived;
    return meeting;
  }

  std::shared_ptr<Clique> clique_;
  int rank_;
  Call call_;
  std::shared_ptr<Meeting> meeting_;
};

/// Operations of one group call on one stream: at the same time.
class Together final : public Task {
 public:
  explicit Together(std::vector<std::unique_ptr<Task>> tasks) : tasks_(std::move(tasks)), done_(tasks_.size()) {}
  bool ready() const override {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!done_[i] && tasks_[i]->ready()) return true;
    }
    return false;
  }
  bool run() override {
    bool all = true;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
      if (!done_[i] && tasks_[i]->ready()) done_[i] = tasks_[i]->run();
      all = all && done_[i];
    }
    return all;
  }
  std::unique_ptr<Task> clone() const override {
    std::vector<std::unique_ptr<Task>> copies;
    for (const auto& task : tasks_) copies.push_back(task->clone());
    auto copy = std::make_unique<Together>(std::move(copies));
    copy->label = label;
    return copy;
  }

 private:
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<bool> done_;
};

}  // namespace

std::unique_ptr<Task> operation(std::shared_ptr<Clique> clique, int rank, const Call& call) {
  return std::make_unique<Collective>(std::move(clique), rank, call);
}

std::unique_ptr<Task> together(std::vector<std::unique_ptr<Task>> tasks) { return std::make_unique<Together>(std::move(tasks)); }

}  // namespace cuda_emulator::nccl
