#include "tests/engine/train/recount.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace benchsuite::testing_train {

namespace {

constexpr std::size_t kNotYet = std::numeric_limits<std::size_t>::max();

bool is_scratch(Purpose purpose) { return purpose == Purpose::activations || purpose == Purpose::communication; }

/// Lives past the end of the step: state, inputs, outputs.
bool is_permanent(const Program& program, BufferId id) { return program.buffers[id].free_at == kNone; }

}  // namespace

std::vector<OpId> execution_order(const Timeline& timeline) {
  std::vector<OpId> order(timeline.spans.size());
  std::iota(order.begin(), order.end(), OpId{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](OpId a, OpId b) { return timeline.spans[a].start < timeline.spans[b].start; });
  return order;
}

Recount recount(const Program& program, const std::vector<OpId>& order) {
  struct Touches {
    std::size_t first = kNotYet, last = 0;
    std::uint64_t begin = std::numeric_limits<std::uint64_t>::max(), end = 0;
  };
  std::vector<Touches> touches(program.buffers.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    for (const Operand& operand : program.operands_of(program.ops[order[k]])) {
      Touches& t = touches[operand.buffer];
      t.first = std::min(t.first, k);
      t.last = k;
      t.begin = std::min(t.begin, operand.offset);
      t.end = std::max(t.end, operand.offset + operand.bytes);
    }
  }
  std::vector<std::array<std::int64_t, kPurposes>> change(order.size() + 1);
  Recount result;
  std::array<std::uint64_t, kPurposes> now{};
  for (BufferId id = 0; id < touches.size(); ++id) {
    const Touches& t = touches[id];
    const auto purpose = static_cast<std::size_t>(program.buffers[id].purpose);
    if (is_permanent(program, id)) {
      now[purpose] += program.buffers[id].bytes;  // holds values between steps
    } else if (t.first != kNotYet) {
      change[t.first][purpose] += static_cast<std::int64_t>(t.end - t.begin);
      change[t.last + 1][purpose] -= static_cast<std::int64_t>(t.end - t.begin);
    }
  }
  for (const auto& step : change) {
    for (std::size_t p = 0; p < kPurposes; ++p) {
      now[p] += static_cast<std::uint64_t>(step[p]);
      result.peak[p] = std::max(result.peak[p], now[p]);
    }
    const std::uint64_t total = std::accumulate(now.begin(), now.end(), std::uint64_t{0});
    if (total > result.total) {
      result.total = total;
      result.at_peak = now;
    }
  }
  return result;
}

AtInstant recount_at(const Program& program, OpId instant) {
  std::vector<OpId> first(program.buffers.size(), kNone), last(program.buffers.size(), kNone);
  std::vector<std::uint64_t> begin(program.buffers.size(), std::numeric_limits<std::uint64_t>::max()), end(program.buffers.size());
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (const Operand& operand : program.operands_of(program.ops[id])) {
      if (first[operand.buffer] == kNone) first[operand.buffer] = id;
      last[operand.buffer] = id;
      begin[operand.buffer] = std::min(begin[operand.buffer], operand.offset);
      end[operand.buffer] = std::max(end[operand.buffer], operand.offset + operand.bytes);
    }
  }
  AtInstant result;
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    const auto purpose = static_cast<std::size_t>(buffer.purpose);
    if (is_permanent(program, id)) {
      result.touched[purpose] += buffer.bytes;
    } else if (first[id] != kNone && first[id] <= instant && instant <= last[id]) {
      result.touched[purpose] += end[id] - begin[id];
    } else if (buffer.alloc_at <= instant && instant < buffer.free_at) {
      result.held[purpose] += buffer.bytes;
      if (last[id] != kNone && last[id] < instant) {
        const Op& user = program.ops[last[id]];
        const Op& now = program.ops[instant];
        if (is_communication(user.kind) || (user.layer == now.layer && user.micro_batch == now.micro_batch)) continue;
      }
      const auto kind = [&](OpId op) { return op == kNone ? "no op" : std::string(name_of(program.ops[op].kind)); };
      result.unexplained += program.terms[buffer.term] + ", touched from op " + std::to_string(first[id]) + " (" + kind(first[id]) +
                            ") to " + std::to_string(last[id]) + " (" + kind(last[id]) + "), kept from " +
                            std::to_string(buffer.alloc_at) + " to " + std::to_string(buffer.free_at) + " at " +
                            std::to_string(instant) + "; ";
    }
  }
  return result;
}

std::uint64_t recount_saved(const Program& program, const std::vector<OpId>& order) {
  std::vector<std::size_t> forward(program.buffers.size(), kNotYet), backward(program.buffers.size(), kNotYet);
  for (std::size_t k = 0; k < order.size(); ++k) {
    const Op& op = program.ops[order[k]];
    for (const Operand& operand : program.operands_of(op)) {
      if (!is_scratch(program.buffers[operand.buffer].purpose)) continue;
      if (op.phase == Phase::forward) {
        forward[operand.buffer] = k;
      } else if (op.phase == Phase::backward || op.phase == Phase::recompute) {
        backward[operand.buffer] = std::min(backward[operand.buffer], k);
      }
    }
  }
  std::vector<std::int64_t> change(order.size() + 1);
  for (BufferId id = 0; id < forward.size(); ++id) {
    if (forward[id] == kNotYet || backward[id] == kNotYet) continue;
    change[forward[id]] += static_cast<std::int64_t>(program.buffers[id].bytes);
    change[backward[id]] -= static_cast<std::int64_t>(program.buffers[id].bytes);
  }
  std::int64_t now = 0, most = 0;
  for (const std::int64_t step : change) most = std::max(most, now += step);
  return static_cast<std::uint64_t>(most);
}

int overlaps_in_time(const Program& program, const Timeline& timeline) {
  struct Life {
    Picoseconds begin, end;
    std::uint64_t first, last;
    Purpose purpose;
  };
  std::vector<Life> lives;
  std::vector<std::size_t> life_of(program.buffers.size(), kNotYet);
  for (OpId id = 0; id < program.ops.size(); ++id) {
    for (const Operand& operand : program.operands_of(program.ops[id])) {
      const Buffer& buffer = program.buffers[operand.buffer];
      const Span& span = timeline.spans[id];
      // A member's memory is used from its own arrival on.
      if (life_of[operand.buffer] == kNotYet) {
        life_of[operand.buffer] = lives.size();
        lives.push_back({span.ready, span.end, buffer.offset, buffer.offset + buffer.bytes, buffer.purpose});
      }
      Life& life = lives[life_of[operand.buffer]];
      life.begin = std::min(life.begin, span.ready);
      life.end = std::max(life.end, span.end);
    }
  }
  std::sort(lives.begin(), lives.end(), [](const Life& a, const Life& b) { return a.begin < b.begin; });
  int overlaps = 0;
  std::vector<const Life*> open;
  for (const Life& life : lives) {
    std::erase_if(open, [&](const Life* other) { return other->end <= life.begin; });
    for (const Life* other : open) {
      overlaps += other->purpose == life.purpose && other->first < life.last && life.first < other->last ? 1 : 0;
    }
    open.push_back(&life);
  }
  return overlaps;
}

}  // namespace benchsuite::testing_train
