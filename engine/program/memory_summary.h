// What a Program keeps in memory, and when: a sweep over its buffers in recording order, in bytes.
//
// At op i a buffer is live when alloc_at <= i < free_at, and saved when saved_at <= i < free_at. A transient buffer is
// a live one of activations, communication or workspace that is not saved. Instant i = number of ops: after the last.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/program/program.h"

namespace benchsuite {

struct MemorySummary {
  struct Term {
    std::uint32_t term = 0;     ///< index into Program::terms
    std::uint64_t bytes = 0;
    std::uint32_t buffers = 0;  ///< how many
  };

  std::array<std::uint64_t, kPurposes> arena_bytes{};  ///< what is reserved: extents, holes included
  std::uint64_t reserved_bytes = 0;                    ///< their sum

  std::uint64_t peak_bytes = 0;                        ///< most bytes live at once, over all purposes
  OpId peak_at = 0;                                    ///< the first such instant
  std::array<std::uint64_t, kPurposes> peak_by_purpose{};  ///< live bytes at that instant, by purpose

  std::uint64_t saved_peak_bytes = 0;                  ///< most bytes saved for the backward pass at once
  OpId saved_peak_at = 0;
  std::vector<Term> saved_terms;                       ///< at that instant, by term index, each once

  std::uint64_t transient_peak_bytes = 0;
  OpId transient_peak_at = 0;
};

/// Throws when a buffer is freed before it is allocated, or saved outside its life.
MemorySummary summarise_memory(const Program& program);

}  // namespace benchsuite
