// The Program: what one rank does in one training step, as data.
//
// Ops stand in recording order. Each belongs to a stream; a stream runs its ops in that order. An op starts when
// its predecessor on the stream and every op it waits for (`waits`, ops of the same rank on other streams) have
// ended, and, for a collective, when all members have arrived. Nothing else orders anything.
//
// Buffers live at fixed offsets of their purpose's arena from op `alloc_at` until op `free_at`; the offsets repeat
// every step. engine/program/recorder.h writes Programs, verifier.h proves them sound, devices run them.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/op.h"

namespace benchsuite {

enum class Purpose : std::uint8_t {
  inputs,         ///< tokens, labels, sample indices, step scalars: filled by the host before the step
  outputs,        ///< loss and gradient norm: read by the host after the step
  parameters,     ///< in compute precision
  gradients,      ///< main gradients (fp32 by default)
  master,         ///< fp32 copy of the parameters
  moments,        ///< Adam's two moments
  activations,    ///< made in forward or backward by compute ops
  communication,  ///< results of collectives and received tensors
  workspace,      ///< one range per stream of the largest device workspace
};
inline constexpr int kPurposes = 9;
std::string_view name_of(Purpose purpose);

struct Buffer {
  Purpose purpose{};
  DType dtype{};
  std::uint32_t term = 0;      ///< index into Program::terms: what this is, e.g. "attention softmax output"
  std::uint64_t offset = 0;    ///< bytes from the start of the purpose's arena
  std::uint64_t bytes = 0;
  OpId alloc_at = 0;           ///< index of the first op recorded after the allocation
  OpId saved_at = kNone;       ///< from this op on it is kept only for the backward pass (kNone: never)
  OpId free_at = kNone;        ///< index of the first op recorded after the free (kNone: lives for ever)
};

enum class GroupKind : std::uint8_t {
  tensor, data, parameters, pipeline_forward, pipeline_backward, embedding, model_parallel, world
};
std::string_view name_of(GroupKind kind);

/// The members of one communicator. Equal on all members, apart from nothing: ranks are global and ordered.
struct Group {
  GroupKind kind{};
  std::vector<int> ranks;  ///< pipeline groups are directed channels {source, destination}

  friend bool operator==(const Group&, const Group&) = default;
};

struct Program {
  int rank = 0;
  std::vector<Op> ops;
  std::vector<OpShape> shapes;
  std::vector<Operand> operands;  ///< empty when recorded without (recorder.h)
  std::vector<OpId> waits;
  std::vector<Buffer> buffers;
  std::vector<std::string> terms;
  std::vector<Group> groups;
  std::array<std::uint64_t, kPurposes> arena_bytes{};  ///< extent of each arena

  std::span<const Operand> operands_of(const Op& op) const {
    return {operands.data() + op.first_operand, op.operand_count};
  }
  std::span<const OpId> waits_of(const Op& op) const { return {waits.data() + op.first_wait, op.wait_count}; }
  const OpShape& shape_of(const Op& op) const { return shapes[op.shape]; }
};

}  // namespace benchsuite
