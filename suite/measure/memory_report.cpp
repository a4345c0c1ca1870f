#include "suite/measure/memory_report.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "engine/model/formulas.h"
#include "engine/parallel/rank_grid.h"
#include "engine/program/memory_summary.h"
#include "engine/train/reserved_memory.h"
#include "suite/measure/memory_terms.h"

namespace benchsuite {

namespace {

/// Buffers of one name and, unless they are state, of one size.
struct Tally {
  double bytes = 0;
  std::int64_t buffers = 0;
};
using Tallies = std::map<std::tuple<Purpose, std::uint32_t, std::uint64_t>, Tally>;

/// The tallies of all buffers for which `counts` holds, as terms with formulas.
template <class Counts>
std::vector<StageMemory::Term> terms_of(const Program& program, const MemoryLetters& letters, const Counts& counts) {
  Tallies tallies;
  for (const Buffer& buffer : program.buffers) {
    if (!counts(buffer)) continue;
    const bool state = is_state(static_cast<Term>(buffer.term));
    Tally& tally = tallies[{buffer.purpose, buffer.term, state ? 0 : buffer.bytes}];
    tally.bytes += static_cast<double>(buffer.bytes);
    ++tally.buffers;
  }
  std::vector<StageMemory::Term> terms;
  for (const auto& [key, tally] : tallies) {
    const auto& [purpose, index, size] = key;
    const auto term = static_cast<Term>(index);
    const bool state = is_state(term);
    const std::string each = term_formula(letters, term, state ? tally.bytes : static_cast<double>(size));
    terms.push_back({program.terms[index], tally.bytes,
                     state || each.empty() ? each : fmt::format("{} x {}", tally.buffers, each),
                     std::string(name_of(purpose))});
  }
  return terms;
}

/// Communicators that reduce among GPUs of a node: of the tensor and the data group and of all ranks, where these differ.
std::size_t node_communicators(const Program& program, const Placement& placement) {
  std::set<std::vector<int>> found;
  for (const Group& group : program.groups) {
    if (group.kind != GroupKind::tensor && group.kind != GroupKind::data && group.kind != GroupKind::world) continue;
    std::set<int> nodes;
    for (const int rank : group.ranks) nodes.insert(placement.node[static_cast<std::size_t>(rank)]);
    if (nodes.size() < group.ranks.size()) found.insert(group.ranks);
  }
  return found.size();
}

/// What the stack adds outside the Program.
std::vector<StageMemory::Term> outside_terms(const TrainConfig& config, const Program& program, int gpus_per_node) {
  // Each arena in use is rounded up to whole segments of the allocator: at most one segment each.
  std::int64_t arenas = 0;
  for (const std::uint64_t bytes : program.arena_bytes) arenas += bytes > 0 ? 1 : 0;
  const std::size_t inside =
      config.stack.node_communicator_bytes > 0 ? node_communicators(program, place(config.layout, gpus_per_node)) : 0;
  const auto bytes = [](std::int64_t each, std::size_t count) {
    return static_cast<double>(each) * static_cast<double>(count);
  };
  return {{"context", bytes(config.stack.context_bytes, 1), "context_bytes of the stack", "overhead"},
          {"communicators", bytes(config.stack.communicator_bytes, program.groups.size()),
           fmt::format("{} x communicator_bytes of the stack", program.groups.size()), "overhead"},
          {"node communicators", bytes(config.stack.node_communicator_bytes, inside),
           fmt::format("{} x node_communicator_bytes of the stack", inside), "overhead"},
          {"allocator segments", bytes(config.stack.segment_bytes, static_cast<std::size_t>(arenas)),
           fmt::format("{} x segment_bytes of the stack", arenas), "overhead"}};
}

}  // namespace

MeasuredMemory measure_memory(const TrainConfig& config, std::int64_t stage, const Program& program, std::int64_t capacity,
                              int gpus_per_node) {
  const MemorySummary summary = summarise_memory(program);
  const MemoryLetters letters(config, stage);
  StageMemory memory;
  memory.terms = terms_of(program, letters, [&](const Buffer& buffer) {
    return buffer.alloc_at <= summary.peak_at && summary.peak_at < buffer.free_at;
  });
  if (config.stack.workspace_bytes > 0) {
    memory.terms.push_back({"workspace", static_cast<double>(config.stack.workspace_bytes),
                            "workspace_bytes of the stack", std::string(name_of(Purpose::workspace))});
  }
  double outside = 0;
  for (StageMemory::Term& term : outside_terms(config, program, gpus_per_node)) {
    outside += term.bytes;
    if (term.bytes > 0) memory.terms.push_back(std::move(term));
  }
  for (int purpose = 0; purpose < kPurposes; ++purpose) {
    double bytes = static_cast<double>(summary.peak_by_purpose[static_cast<std::size_t>(purpose)]);
    if (static_cast<Purpose>(purpose) == Purpose::workspace) bytes += static_cast<double>(config.stack.workspace_bytes);
    memory.by_purpose.emplace_back(name_of(static_cast<Purpose>(purpose)), bytes);
    memory.peak_bytes += bytes;
  }
  memory.by_purpose.emplace_back("overhead", outside);
  memory.peak_bytes += outside;

  memory.saved_terms = terms_of(program, letters, [&](const Buffer& buffer) {
    return buffer.saved_at != kNone && buffer.saved_at <= summary.saved_peak_at &&
           summary.saved_peak_at < buffer.free_at;
  });
  const std::vector<std::string> names = term_names();
  for (StageMemory::Term& term : memory.saved_terms) {
    const auto index = static_cast<std::uint32_t>(std::find(names.begin(), names.end(), term.name) - names.begin());
    if (is_neglected_in_paper(static_cast<Term>(index))) {
      term.name += " (not in the paper's count)";
    } else {
      memory.saved_bytes += term.bytes;
    }
  }
  const SavedActivations saved = saved_activations(config.model, config.layout, config.stack, stage);
  memory.saved_formula_bytes = saved.layers_total + saved.outside_bytes;
  MeasuredMemory measured{.stage = std::move(memory)};
  if (config.stack.caching_allocator) {
    const double left = std::max(0.0, static_cast<double>(capacity) - outside);
    const ReservedMemory reserved = reserve_memory(program, config.stack, static_cast<std::uint64_t>(left));
    measured.reserved_bytes = measured.stage.reserved_bytes = static_cast<double>(reserved.reserved_bytes) + outside;
    measured.fits = reserved.fits;
    return measured;
  }
  measured.reserved_bytes =
      static_cast<double>(summary.reserved_bytes) + static_cast<double>(config.stack.workspace_bytes) + outside;
  measured.fits = measured.reserved_bytes <= static_cast<double>(capacity);
  return measured;
}

}  // namespace benchsuite
