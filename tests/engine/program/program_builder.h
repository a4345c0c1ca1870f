// Builds small Programs by hand: the caller gives offsets, lifetimes and waits; nothing is derived but the bookkeeping.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int rank) { program_.rank = rank; }

  /// A buffer of bytes [offset, offset + bytes) of its arena, allocated now.
  BufferId buffer(Purpose purpose, std::uint64_t offset, std::uint64_t bytes, const std::string& term) {
    const auto found = std::find(program_.terms.begin(), program_.terms.end(), term);
    const auto index = static_cast<std::uint32_t>(found - program_.terms.begin());
    if (found == program_.terms.end()) program_.terms.push_back(term);
    program_.buffers.push_back({.purpose = purpose,
                                .dtype = DType::uint8,
                                .term = index,
                                .offset = offset,
                                .bytes = bytes,
                                .alloc_at = now()});
    auto& extent = program_.arena_bytes[static_cast<int>(purpose)];
    extent = std::max(extent, offset + bytes);
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }
  void free(BufferId id) { program_.buffers[id].free_at = now(); }
  void save(BufferId id) { program_.buffers[id].saved_at = now(); }

  Operand reads(BufferId id) const { return whole(id, Access::read); }
  Operand writes(BufferId id) const { return whole(id, Access::write); }
  Operand updates(BufferId id) const { return whole(id, Access::read_write); }

  OpId op(OpKind kind, StreamKind stream, std::initializer_list<Operand> operands,
          std::initializer_list<OpId> waits = {}) {
    return append({.kind = kind, .dtype = DType::uint8, .out_dtype = DType::uint8}, stream, kNone, operands, waits);
  }
  /// `n` is dims[0] of the op table, in bytes: elements are uint8.
  OpId communicate(OpKind kind, StreamKind stream, const Group& group, std::int64_t n,
                   std::initializer_list<Operand> operands, std::initializer_list<OpId> waits = {}) {
    auto found = std::find(program_.groups.begin(), program_.groups.end(), group);
    if (found == program_.groups.end()) {
      program_.groups.push_back(group);
      sequences_.push_back(0);
      found = std::prev(program_.groups.end());
    }
    const bool reduces = kind == OpKind::all_reduce || kind == OpKind::reduce_scatter;
    return append({.kind = kind,
                   .dtype = DType::uint8,
                   .out_dtype = DType::uint8,
                   .reduction = reduces ? Reduction::sum : Reduction::none,
                   .dims = {n}},
                  stream, static_cast<std::uint32_t>(found - program_.groups.begin()), operands, waits);
  }

  /// What the next ops belong to.
  void at(std::int16_t layer, std::int32_t micro_batch) { layer_ = layer, micro_batch_ = micro_batch; }

  Program finish() { return std::move(program_); }

 private:
  OpId now() const { return static_cast<OpId>(program_.ops.size()); }
  Operand whole(BufferId id, Access access) const { return {0, program_.buffers[id].bytes, id, access}; }

  OpId append(const OpShape& shape, StreamKind stream, std::uint32_t group, std::initializer_list<Operand> operands,
              std::initializer_list<OpId> waits) {
    Op op{};
    op.kind = shape.kind;
    op.site = Site::mlp;
    op.stream = stream;
    op.operand_count = static_cast<std::uint16_t>(operands.size());
    op.wait_count = static_cast<std::uint16_t>(waits.size());
    op.shape = static_cast<std::uint32_t>(program_.shapes.size());
    op.first_operand = static_cast<std::uint32_t>(program_.operands.size());
    op.first_wait = static_cast<std::uint32_t>(program_.waits.size());
    op.group = group;
    op.group_sequence = group == kNone ? 0 : sequences_[group]++;
    op.layer = layer_;
    op.micro_batch = micro_batch_;
    program_.shapes.push_back(shape);
    program_.operands.insert(program_.operands.end(), operands);
    program_.waits.insert(program_.waits.end(), waits);
    program_.ops.push_back(op);
    return now() - 1;
  }

  Program program_;
  std::vector<std::uint32_t> sequences_;
  std::int16_t layer_ = 0;
  std::int32_t micro_batch_ = 0;
};

}  // namespace benchsuite
