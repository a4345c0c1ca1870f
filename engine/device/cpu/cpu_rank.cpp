#include "engine/device/cpu/cpu_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "engine/core/error.h"
#include "engine/device/cpu/kernels.h"
#include "engine/device/cpu/matmul.h"

namespace benchsuite {
namespace {

constexpr std::size_t kAlignment = 256;  // bytes; at least a cache line and the widest vector

bool is_mortal(Purpose purpose) { return purpose == Purpose::activations || purpose == Purpose::communication; }

}  // namespace

void CpuRank::Free::operator()(std::byte* memory) const { std::free(memory); }

CpuRank::CpuRank(const Program& program, Poison poison)
    : program_(program), poison_(poison), streams_(kStreams), done_(program.ops.size()),
      lifetimes_(program.buffers.size()) {
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    const auto index = static_cast<std::size_t>(purpose);
    const std::size_t bytes = round_up<std::size_t>(std::max<std::size_t>(program.arena_bytes[index], 1), kAlignment);
    arenas_.emplace_back(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
    if (!arenas_.back()) throw std::bad_alloc();
    const bool unwritten = poison == Poison::on && is_mortal(static_cast<Purpose>(purpose));
    std::memset(arenas_.back().get(), unwritten ? 0xFF : 0, bytes);
  }
  for (const Buffer& buffer : program.buffers) {
    const std::uint64_t arena = program.arena_bytes[static_cast<std::size_t>(buffer.purpose)];
    CHECK(buffer.offset <= arena && buffer.bytes <= arena - buffer.offset)
        << "rank " << program.rank << ": a buffer at " << buffer.offset << " of " << buffer.bytes
        << " bytes lies outside the " << name_of(buffer.purpose) << " arena of " << arena;
  }
  for (const Operand& operand : program.operands) operands_.push_back(bytes(operand));
  for (OpId id = 0; id < program.ops.size(); ++id) {
    streams_[static_cast<std::size_t>(program.ops[id].stream)].ops.push_back(id);
    for_each_mortal_buffer(id, [&](BufferId buffer) { ++lifetimes_[buffer].touches; });
  }
}

std::span<std::byte> CpuRank::bytes(BufferId buffer) {
  CHECK(buffer < program_.buffers.size()) << "rank " << rank() << " has no buffer " << buffer;
  const Buffer& found = program_.buffers[buffer];
  return {arenas_[static_cast<std::size_t>(found.purpose)].get() + found.offset, found.bytes};
}

std::span<std::byte> CpuRank::bytes(const Operand& operand) {
  const std::span<std::byte> whole = bytes(operand.buffer);
  CHECK(operand.offset <= whole.size() && operand.bytes <= whole.size() - operand.offset)
      << "rank " << rank() << ": bytes [" << operand.offset << ", " << operand.offset + operand.bytes << ") of buffer "
      << operand.buffer << " of " << whole.size() << " bytes";
  return whole.subspan(operand.offset, operand.bytes);
}

void CpuRank::run_step(Communicator& world) {
  cpu::use_one_thread();
  groups_.clear();
  for (const Group& group : program_.groups) groups_.push_back(world.join(group));
  for (Stream& stream : streams_) {
    stream.next = 0;
    stream.ticket.reset();
  }
  std::fill(done_.begin(), done_.end(), std::uint8_t{0});
  for (Lifetime& lifetime : lifetimes_) lifetime.begun = lifetime.ended = 0;
  timeline_.spans.assign(program_.ops.size(), Span{});
  timeline_.end = 0;
  step_start_ = world.begin_step(rank());

  const auto finished = [&] {
    return std::all_of(streams_.begin(), streams_.end(), [](const Stream& s) { return s.next == s.ops.size(); });
  };
  while (!finished()) {
    const std::uint64_t seen = world.completions(rank());
    bool progress = false;
    for (int kind = kStreams - 1; kind > static_cast<int>(StreamKind::compute); --kind) {
      while (advance(static_cast<StreamKind>(kind), world)) progress = true;
    }
    if (advance(StreamKind::compute, world)) progress = true;
    if (!progress) world.wait(rank(), seen, [&] { return what_it_waits_for(world); });
  }
  for (const Span& span : timeline_.spans) timeline_.end = std::max(timeline_.end, span.end);
}

bool CpuRank::advance(StreamKind kind, Communicator& world) {
  Stream& stream = streams_[static_cast<std::size_t>(kind)];
  if (stream.next == stream.ops.size()) return false;
  const OpId id = stream.ops[stream.next];
  if (stream.ticket) {
    if (!stream.ticket->done()) return false;
    finish(id, stream);
    return true;
  }
  const Op& op = program_.ops[id];
  if (!waits_met(op)) return false;
  begin_touch(id);
  try {
    if (is_communication(op.kind)) {
      post(id, stream, world);
      if (stream.ticket->done()) finish(id, stream);
    } else {
      compute(id);
      end_touch(id);
      done_[id] = 1;
      ++stream.next;
    }
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("rank {}, {}: {}", rank(), describe(id), error.what()));
  } catch (const std::exception& error) {  // out of memory, a library
    throw Error(Error::Kind::run, fmt::format("rank {}, {}: {}", rank(), describe(id), error.what()));
  }
  return true;
}

bool CpuRank::waits_met(const Op& op) const {
  const auto waits = program_.waits_of(op);
  return std::all_of(waits.begin(), waits.end(), [&](OpId id) { return done_[id] != 0; });
}

void CpuRank::compute(OpId id) {
  const Op& op = program_.ops[id];
  Span& span = timeline_.spans[id];
  span.ready = span.start = since_start(Communicator::Clock::now());
  cpu::run_kernel({program_.shape_of(op), {operands_.data() + op.first_operand, op.operand_count}, op.layer, staging_});
  span.end = since_start(Communicator::Clock::now());
}

void CpuRank::post(OpId id, Stream& stream, Communicator& world) {
  const Op& op = program_.ops[id];
  const OpShape& shape = program_.shape_of(op);
  CHECK(op.group < program_.groups.size()) << "a communication op without a group";
  const std::span<const std::span<std::byte>> operands(operands_.data() + op.first_operand, op.operand_count);
  const auto members = static_cast<std::int64_t>(program_.groups[op.group].ranks.size());
  const std::int64_t elements = shape.dims[0];
  const auto part = [&](std::size_t index, std::int64_t count) {
    CHECK(index < operands.size()) << name_of(op.kind) << " lacks operand " << index;
    CHECK(operands[index].size() == static_cast<std::size_t>(count * size_of(shape.dtype)))
        << name_of(op.kind) << " operand " << index << " has " << operands[index].size() << " bytes, not " << count
        << " x " << name_of(shape.dtype);
    return operands[index].data();
  };

  CollectiveCall call{op.kind, shape.dtype, shape.reduction, elements, nullptr, nullptr, id};
  switch (op.kind) {
    case OpKind::all_gather:
      call.input = part(0, div_exact(elements, members));
      call.output = part(1, elements);
      break;
    case OpKind::reduce_scatter:
      call.input = part(0, elements);
      call.output = part(1, div_exact(elements, members));
      call.reduction = Reduction::sum;  // the op table's only one
      break;
    case OpKind::shift:
      call.input = part(0, elements);
      call.output = part(1, elements);
      call.distance = shape.dims[1];
      break;
    case OpKind::all_reduce: call.input = call.output = part(0, elements); break;
    case OpKind::send: call.input = part(0, elements); break;
    default: call.output = part(0, elements); break;
  }
  timeline_.spans[id].ready = since_start(Communicator::Clock::now());
  stream.ticket = world.arrive(rank(), groups_[op.group], op.group_sequence, call);
}

void CpuRank::finish(OpId id, Stream& stream) {
  timeline_.spans[id].start = since_start(stream.ticket->started());
  timeline_.spans[id].end = since_start(stream.ticket->ended());
  stream.ticket.reset();
  end_touch(id);
  done_[id] = 1;
  ++stream.next;
}

// A buffer comes to life with the first op to run of those recorded between its allocation and its free, and dies with
// the last. Its range has no other user in between, or the Program is unsound.
template <class Body>
void CpuRank::for_each_mortal_buffer(OpId id, Body body) {
  if (poison_ == Poison::off) return;
  const auto operands = program_.operands_of(program_.ops[id]);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const BufferId buffer = operands[i].buffer;
    const Buffer& found = program_.buffers[buffer];
    if (!is_mortal(found.purpose) || found.free_at == kNone || id < found.alloc_at || id >= found.free_at) continue;
    const bool again = std::any_of(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Operand& earlier) { return earlier.buffer == buffer; });
    if (!again) body(buffer);
  }
}

void CpuRank::begin_touch(OpId id) {
  for_each_mortal_buffer(id, [&](BufferId buffer) {
    if (lifetimes_[buffer].begun++ == 0) poison(buffer);
  });
}

void CpuRank::end_touch(OpId id) {
  for_each_mortal_buffer(id, [&](BufferId buffer) {
    if (++lifetimes_[buffer].ended == lifetimes_[buffer].touches) poison(buffer);
  });
}

void CpuRank::poison(BufferId buffer) {
  const std::span<std::byte> range = bytes(buffer);
  std::memset(range.data(), 0xFF, range.size());
}

std::string CpuRank::describe(OpId id) const {
  const Op& op = program_.ops[id];
  std::string text = fmt::format("op {} {} ({}, {}", id, name_of(op.kind), name_of(op.phase), name_of(op.site));
  if (op.layer >= 0) text += fmt::format(", layer {}", op.layer);
  if (op.micro_batch >= 0) text += fmt::format(", micro-batch {}", op.micro_batch);
  return text + ")";
}

std::string CpuRank::what_it_waits_for(const Communicator& world) const {
  std::string text;
  for (int kind = 0; kind < kStreams; ++kind) {
    const Stream& stream = streams_[static_cast<std::size_t>(kind)];
    if (stream.next == stream.ops.size()) continue;
    const OpId id = stream.ops[stream.next];
    text += fmt::format("{}stream {}: {} waits for ", text.empty() ? "" : "; ", name_of(static_cast<StreamKind>(kind)),
                        describe(id));
    if (stream.ticket) {
      text += world.missing(*stream.ticket);
      continue;
    }
    const auto waits = program_.waits_of(program_.ops[id]);
    const auto unmet = std::find_if(waits.begin(), waits.end(), [&](OpId wait) { return done_[wait] == 0; });
    text += describe(*unmet);
  }
  return text;
}

Picoseconds CpuRank::since_start(Communicator::Clock::time_point time) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - step_start_).count() * 1000;
}

}  // namespace benchsuite
