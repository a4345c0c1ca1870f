#include "engine/program/memory_summary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

/// Bytes by instant, given as changes. One is used for one question after the other: a step has very many instants.
class Sweep {
 public:
  explicit Sweep(std::size_t instants) : change_(instants) {}

  void add(std::size_t from, std::size_t to, std::uint64_t bytes) {
    if (from >= to) return;
    change_[from] += static_cast<std::int64_t>(bytes);
    if (to < change_.size()) change_[to] -= static_cast<std::int64_t>(bytes);
  }

  /// The most at one instant, and the first such instant. Forgets what was added.
  void take_peak(std::uint64_t& bytes, OpId& at) {
    std::int64_t now = 0, most = 0;
    for (std::size_t i = 0; i < change_.size(); ++i) {
      now += std::exchange(change_[i], 0);
      if (now <= most) continue;
      most = now;
      at = static_cast<OpId>(i);
    }
    bytes = static_cast<std::uint64_t>(most);
  }

 private:
  std::vector<std::int64_t> change_;
};

bool is_transient(Purpose purpose) {
  return purpose == Purpose::activations || purpose == Purpose::communication || purpose == Purpose::workspace;
}

}  // namespace

MemorySummary summarise_memory(const Program& program) {
  const std::size_t instants = program.ops.size() + 1;
  MemorySummary summary;
  summary.arena_bytes = program.arena_bytes;
  summary.reserved_bytes = std::accumulate(program.arena_bytes.begin(), program.arena_bytes.end(), std::uint64_t{0});

  Sweep sweep(instants);
  const auto end_of = [&](const Buffer& buffer) { return std::min<std::size_t>(buffer.free_at, instants); };
  for (const Buffer& buffer : program.buffers) {
    CHECK(buffer.alloc_at < instants && buffer.alloc_at <= buffer.free_at)
        << "a buffer lives from op " << buffer.alloc_at << " to " << buffer.free_at << " of " << program.ops.size();
    CHECK(buffer.saved_at == kNone || (buffer.saved_at >= buffer.alloc_at && buffer.saved_at <= buffer.free_at))
        << "a buffer saved at op " << buffer.saved_at << " lives from op " << buffer.alloc_at << " to " << buffer.free_at;
    sweep.add(buffer.alloc_at, end_of(buffer), buffer.bytes);
  }
  sweep.take_peak(summary.peak_bytes, summary.peak_at);
  for (const Buffer& buffer : program.buffers) {
    if (buffer.saved_at != kNone) sweep.add(buffer.saved_at, end_of(buffer), buffer.bytes);
  }
  sweep.take_peak(summary.saved_peak_bytes, summary.saved_peak_at);
  for (const Buffer& buffer : program.buffers) {
    if (is_transient(buffer.purpose)) {
      sweep.add(buffer.alloc_at, std::min<std::size_t>(buffer.saved_at, end_of(buffer)), buffer.bytes);
    }
  }
  sweep.take_peak(summary.transient_peak_bytes, summary.transient_peak_at);

  std::vector<MemorySummary::Term> terms(program.terms.size());
  for (const Buffer& buffer : program.buffers) {
    if (buffer.alloc_at <= summary.peak_at && summary.peak_at < buffer.free_at) {
      summary.peak_by_purpose[static_cast<int>(buffer.purpose)] += buffer.bytes;
    }
    if (buffer.saved_at != kNone && buffer.saved_at <= summary.saved_peak_at &&
        summary.saved_peak_at < buffer.free_at) {
      CHECK(buffer.term < terms.size()) << "term " << buffer.term << " of " << terms.size();
      terms[buffer.term].bytes += buffer.bytes;
      ++terms[buffer.term].buffers;
    }
  }
  for (std::uint32_t term = 0; term < terms.size(); ++term) {
    terms[term].term = term;
    if (terms[term].buffers > 0) summary.saved_terms.push_back(terms[term]);
  }
  return summary;
}

}  // namespace benchsuite
