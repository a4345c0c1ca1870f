#include "engine/program/memory_summary.h"

#include <algorithm>
#include <numeric>

#include "engine/core/error.h"

namespace benchsuite {

namespace {

/// Bytes by instant, given as changes.
class Sweep {
 public:
  explicit Sweep(std::size_t instants) : change_(instants) {}

  void add(std::size_t from, std::size_t to, std::uint64_t bytes) {
    if (from >= to) return;
    change_[from] += static_cast<std::int64_t>(bytes);
    if (to < change_.size()) change_[to] -= static_cast<std::int64_t>(bytes);
  }

  void peak(std::uint64_t& bytes, OpId& at) const {
    std::int64_t now = 0, most = 0;
    for (std::size_t i = 0; i < change_.size(); ++i) {
      now += change_[i];
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

  Sweep live(instants), saved(instants), transient(instants);
  for (const Buffer& buffer : program.buffers) {
    CHECK(buffer.alloc_at < instants && buffer.alloc_at <= buffer.free_at)
        << "a buffer lives from op " << buffer.alloc_at << " to " << buffer.free_at << " of " << program.ops.size();
    const std::size_t end = std::min<std::size_t>(buffer.free_at, instants);
    std::size_t transient_end = end;
    live.add(buffer.alloc_at, end, buffer.bytes);
    if (buffer.saved_at != kNone) {
      CHECK(buffer.saved_at >= buffer.alloc_at && buffer.saved_at <= buffer.free_at)
          << "a buffer saved at op " << buffer.saved_at << " lives from op " << buffer.alloc_at << " to "
          << buffer.free_at;
      saved.add(buffer.saved_at, end, buffer.bytes);
      transient_end = std::min<std::size_t>(buffer.saved_at, end);
    }
    if (is_transient(buffer.purpose)) transient.add(buffer.alloc_at, transient_end, buffer.bytes);
  }
  live.peak(summary.peak_bytes, summary.peak_at);
  saved.peak(summary.saved_peak_bytes, summary.saved_peak_at);
  transient.peak(summary.transient_peak_bytes, summary.transient_peak_at);

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
