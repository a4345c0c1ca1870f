#include "engine/program/recorder.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace benchsuite {

namespace {

bool must_be_released(Purpose purpose) {
  return purpose == Purpose::activations || purpose == Purpose::communication || purpose == Purpose::workspace;
}

/// Products of independent words, so that none waits for another.
std::uint64_t hash_of(const OpShape& shape) {
  std::uint64_t hash = static_cast<std::uint64_t>(shape.kind) | static_cast<std::uint64_t>(shape.dtype) << 8 |
                       static_cast<std::uint64_t>(shape.out_dtype) << 12 |
                       static_cast<std::uint64_t>(shape.reduction) << 16 | std::uint64_t{shape.transpose_a} << 20 |
                       std::uint64_t{shape.transpose_b} << 21 | std::uint64_t{shape.accumulate} << 22 |
                       std::uint64_t{shape.causal} << 23 | std::uint64_t{shape.stores_mask} << 24;
  std::uint64_t factor = 0x9E3779B97F4A7C15u;
  hash *= factor;
  for (const std::int64_t dim : shape.dims) hash += static_cast<std::uint64_t>(dim) * (factor += 0xC2B2AE3D27D4EB4Eu);
  hash += std::bit_cast<std::uint64_t>(shape.scalars) * 0xD6E8FEB86659FD93u;
  hash ^= hash >> 32;
  return hash ^ hash >> 16;
}

}  // namespace

Recorder::Recorder(int rank, std::vector<std::string> terms, RecordedDetail detail, const ProgramSizes& like)
    : keeps_operands_(detail == RecordedDetail::whole), shape_table_(1024) {
  program_.rank = rank;
  program_.terms = std::move(terms);
  const auto reserve = [](auto& to, std::size_t size) { to.reserve(size + size / 16); };
  reserve(program_.ops, like.ops);
  reserve(program_.operands, like.operands);
  reserve(program_.waits, like.waits);
  reserve(program_.buffers, like.buffers);
  reserve(states_, like.buffers);
}

std::uint32_t Recorder::add_group(const Group& group) {
  const auto found = std::find(program_.groups.begin(), program_.groups.end(), group);
  if (found != program_.groups.end()) return static_cast<std::uint32_t>(found - program_.groups.begin());
  program_.groups.push_back(group);
  group_sequences_.push_back(0);
  return static_cast<std::uint32_t>(program_.groups.size() - 1);
}

Tensor Recorder::allocate_in_parts(Purpose purpose, std::uint32_t term, DType dtype, std::array<std::int64_t, 4> shape,
                                   std::uint32_t parts) {
  CHECK(term < program_.terms.size()) << "term " << term;
  Tensor tensor{.buffer = static_cast<BufferId>(program_.buffers.size()), .dtype = dtype, .offset = 0, .shape = shape};
  Arena& arena = arenas_[static_cast<int>(purpose)];
  const std::uint64_t bytes = tensor.bytes();
  const Arena::BlockId block = arena.allocate(bytes);
  program_.buffers.push_back({.purpose = purpose, .dtype = dtype, .term = term, .offset = arena.offset_of(block),
                              .bytes = bytes, .alloc_at = static_cast<OpId>(program_.ops.size())});
  std::uint32_t first = static_cast<std::uint32_t>(parts_.size());
  if (parts == 1 && !spare_parts_.empty()) {
    first = spare_parts_.back();
    spare_parts_.pop_back();
  } else {
    parts_.resize(parts_.size() + parts);
  }
  const PartState fresh{
      .part_bytes = parts == 1 ? bytes : div_exact(bytes, std::uint64_t{parts}), .parts = parts, .readers = arena.last_uses_of(block)};
  for (std::uint32_t i = 0; i < parts; ++i) parts_[first + i] = fresh;
  states_.push_back({.block = block, .first_part = first});
  return tensor;
}

std::span<Recorder::PartState> Recorder::parts_of(const Operand& operand) {
  PartState* first = parts_.data() + states_[operand.buffer].first_part;
  if (first->parts == 1 || operand.bytes == 0) return {first, 1};
  const std::uint64_t begin = operand.offset / first->part_bytes;
  return {first + begin, div_ceil(operand.offset + operand.bytes, first->part_bytes) - begin};
}

void Recorder::release(const Tensor& tensor) {
  Buffer& buffer = program_.buffers[tensor.buffer];
  CHECK(buffer.free_at == kNone) << program_.terms[buffer.term] << " is released twice";
  buffer.free_at = static_cast<OpId>(program_.ops.size());
  const BufferState& state = states_[tensor.buffer];
  LastUses uses = parts_[state.first_part].readers;
  const std::uint32_t parts = parts_[state.first_part].parts;
  for (std::uint32_t i = state.first_part; i < state.first_part + parts; ++i) {
    const PartState& part = parts_[i];
    if (i != state.first_part) uses.merge(part.readers);
    if (part.writer != 0) uses.note(part.writer_stream, part.writer);
  }
  if (parts == 1) spare_parts_.push_back(state.first_part);
  arenas_[static_cast<int>(buffer.purpose)].free(state.block, uses);
}

void Recorder::mark_saved(const Tensor& tensor, std::uint32_t term) {
  Buffer& buffer = program_.buffers[tensor.buffer];
  CHECK(buffer.saved_at == kNone) << program_.terms[term] << " is saved twice";
  buffer.saved_at = static_cast<OpId>(program_.ops.size());
  buffer.term = term;
}

std::uint32_t Recorder::intern(const OpShape& shape) {
  const std::size_t mask = shape_table_.size() - 1;
  std::size_t slot = hash_of(shape) & mask;
  for (; shape_table_[slot] != 0; slot = (slot + 1) & mask) {
    if (program_.shapes[shape_table_[slot] - 1] == shape) return shape_table_[slot] - 1;
  }
  program_.shapes.push_back(shape);
  const auto index = static_cast<std::uint32_t>(program_.shapes.size());
  shape_table_[slot] = index;
  if (program_.shapes.size() * 2 > shape_table_.size()) {
    std::vector<std::uint32_t> larger(shape_table_.size() * 2);
    for (std::size_t i = 0; i < program_.shapes.size(); ++i) {
      std::size_t place = hash_of(program_.shapes[i]) & (larger.size() - 1);
      while (larger[place] != 0) place = (place + 1) & (larger.size() - 1);
      larger[place] = static_cast<std::uint32_t>(i + 1);
    }
    shape_table_ = std::move(larger);
  }
  return index - 1;
}

OpId Recorder::append(StreamKind stream, std::uint32_t group, const OpShape& shape, std::span<const Operand> operands) {
  const auto id = static_cast<OpId>(program_.ops.size());
  const int s = static_cast<int>(stream);

  // What the own stream did is done.
  LastUses& pending = pending_[s];
  const auto need = [&](StreamKind other, std::uint32_t op_plus_one) {
    if (other != stream && op_plus_one > known_[s][static_cast<std::size_t>(other)]) pending.note(other, op_plus_one);
  };
  for (const Operand& operand : operands) {
    for (const PartState& part : parts_of(operand)) {
      need(part.writer_stream, part.writer);
      if (operand.access != Access::read) part.readers.visit(need);
    }
  }
  // Only now, so that an operand that stands in two places of one op does not wait for the op itself.
  for (const Operand& operand : operands) {
    for (PartState& part : parts_of(operand)) {
      if (operand.access == Access::read) {
        part.readers.note(stream, id + 1);
        continue;
      }
      part.writer = id + 1;
      part.writer_stream = stream;
      part.readers = {};
    }
  }

  const auto first_wait = static_cast<std::uint32_t>(program_.waits.size());
  pending.visit([&](StreamKind other, std::uint32_t wanted) {
    std::uint32_t& known = known_[s][static_cast<std::size_t>(other)];
    if (other == stream || wanted <= known) return;
    known = wanted;
    program_.waits.push_back(wanted - 1);
  });
  pending = {};

  program_.ops.push_back({.kind = shape.kind,
                          .phase = context_.phase,
                          .site = context_.site,
                          .stream = stream,
                          .operand_count = keeps_operands_ ? narrow<std::uint16_t>(operands.size()) : std::uint16_t{0},
                          .wait_count = static_cast<std::uint16_t>(program_.waits.size() - first_wait),
                          .shape = intern(shape),
                          .first_operand = static_cast<std::uint32_t>(program_.operands.size()),
                          .first_wait = first_wait,
                          .group = group,
                          .group_sequence = group == kNone ? 0 : group_sequences_[group]++,
                          .micro_batch = context_.micro_batch,
                          .layer = context_.layer,
                          .chunk = context_.chunk,
                          .joins_launch = launch_begun_,
                          .host_waits = std::exchange(host_waits_[static_cast<std::size_t>(s)], false)});
  launch_begun_ = launch_depth_ > 0;
  if (keeps_operands_) program_.operands.insert(program_.operands.end(), operands.begin(), operands.end());
  tail_[s] = id + 1;
  return id;
}

OpId Recorder::communicate(StreamKind stream, std::uint32_t group, const OpShape& shape,
                           std::initializer_list<Operand> operands) {
  CHECK(is_communication(shape.kind) && group < program_.groups.size()) << name_of(shape.kind);
  order(StreamKind::compute, stream);
  return append(stream, group, shape, {operands.begin(), operands.size()});
}

void Recorder::order(StreamKind before, StreamKind after) {
  pending_[static_cast<int>(after)].note(before, tail_[static_cast<int>(before)]);
}

Program Recorder::finish() {
  for (const Buffer& buffer : program_.buffers) {
    CHECK(buffer.free_at != kNone || !must_be_released(buffer.purpose))
        << program_.terms[buffer.term] << " (" << buffer.bytes << " bytes) is never released";
  }
  for (int purpose = 0; purpose < kPurposes; ++purpose) program_.arena_bytes[purpose] = arenas_[purpose].extent();
  return std::move(program_);
}

}  // namespace benchsuite
