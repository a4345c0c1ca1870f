#include "engine/train/reserved_memory.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/model/terms.h"
#include "engine/program/caching_allocator.h"

namespace benchsuite {

namespace {

constexpr int kSteps = 3;  // the moments come at the end of the first; what they cut shows from the second on

struct Event {
  BufferId buffer = 0;
  bool frees = false;
};

/// When the optimizer takes the gradients.
OpId first_optimizer_op(const Program& program) {
  const auto found = std::find_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
    return op.phase == Phase::optimizer && op.site == Site::optimizer;
  });
  return static_cast<OpId>(found - program.ops.begin());
}

/// Before which op each buffer of the step goes; kNone: never, or it was never there.
std::vector<OpId> ends(const Program& program, bool of_autograd, OpId optimizer) {
  std::vector<OpId> result;
  std::map<int, int> first_backward;  // by chunk: the micro-batch whose products are the gradients
  for (const Buffer& buffer : program.buffers) {
    OpId end = buffer.alloc_at < buffer.free_at ? buffer.free_at : kNone;
    if (of_autograd && end != kNone && buffer.term == index_of(Term::weight_gradient)) {
      const Op& op = program.ops[buffer.alloc_at];
      const auto known = first_backward.try_emplace(op.chunk, op.micro_batch).first;
      if (known->second == op.micro_batch) end = std::max(end, optimizer);
    }
    result.push_back(end);
  }
  return result;
}

/// The step's allocations and frees in order, and where each op's begin. What an op doesn't need any more goes before the next
/// one's output is allocated.
struct Order {
  Order(const Program& program, const std::vector<OpId>& ends) : first(program.ops.size() + 2) {
    const auto each = [&](auto&& visit) {
      for (const bool frees : {true, false}) {
        for (BufferId id = 0; id < program.buffers.size(); ++id) {
          if (ends[id] != kNone) visit(frees ? ends[id] : program.buffers[id].alloc_at, Event{id, frees});
        }
      }
    };
    each([&](OpId at, const Event&) { ++first[at + 1]; });
    for (std::size_t op = 1; op < first.size(); ++op) first[op] += first[op - 1];
    events.resize(first.back());
    std::vector<std::uint32_t> next(first.begin(), first.end());
    each([&](OpId at, const Event& event) { events[next[at]++] = event; });
  }

  std::vector<std::uint32_t> first;  ///< by op, and after the last
  std::vector<Event> events;
};

}  // namespace

ReservedMemory reserve_memory(const Program& program, const Stack& stack, std::uint64_t capacity) {
  const OpId optimizer = first_optimizer_op(program);
  const Order order(program, ends(program, stack.gradients_of_autograd, optimizer));
  CachingAllocator allocator(capacity);
  std::vector<CachingAllocator::BlockId> blocks(program.buffers.size(), kNone);
  ReservedMemory memory;
  const auto allocate = [&](BufferId id) {
    blocks[id] = allocator.allocate(program.buffers[id].bytes);
    memory.fits = memory.fits && blocks[id] != kNone;
  };
  const auto allocate_for_good = [&](auto&& counts) {
    for (BufferId id = 0; id < program.buffers.size() && memory.fits; ++id) {
      if (program.buffers[id].free_at == kNone && counts(program.buffers[id].purpose)) allocate(id);
    }
  };
  if (stack.workspace_bytes > 0) memory.fits = allocator.allocate(static_cast<std::uint64_t>(stack.workspace_bytes)) != kNone;
  allocate_for_good([&](Purpose purpose) {
    return purpose != Purpose::moments && !(purpose == Purpose::gradients && stack.gradients_of_autograd);
  });
  for (int step = 0; step < kSteps; ++step) {
    for (std::size_t i = 0; i <= order.events.size() && memory.fits; ++i) {
      if (step == 0 && i == order.first[optimizer]) {
        allocate_for_good([](Purpose purpose) { return purpose == Purpose::moments; });
      }
      if (i == order.events.size() || !memory.fits) break;
      const auto [buffer, frees] = order.events[i];
      if (frees) {
        allocator.free(blocks[buffer]);
      } else {
        allocate(buffer);
      }
    }
  }
  memory.allocated_bytes = allocator.peak_allocated();
  memory.reserved_bytes = allocator.peak_reserved();
  return memory;
}

}  // namespace benchsuite
