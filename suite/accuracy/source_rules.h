// Which software stands behind a source, and what it does where a row says nothing: expected/published/sources.json.
//
//   {"rules": [{"set": "Korthikanti Table 5", "id": ["korthikanti2022.table5"], "where": {"layout.pp": 1},
//               "stack": "megatron-2022", "why": "...", "defaults": {"layout.zero_stage": 0},
//               "unstated": [{"key": "layout.vpp", "values": [1, 2], "why": "..."}]}],
//    "targets": [{"set": "...", "mean_abs_pct": 3, "max_abs_pct": 6, "residual": "..."}],
//    "sub_targets": [...],   (SubTarget)
//    "intervals": {"set": "why fewer than four in five of its rows lie in their interval"},
//    "relative": [...]}   (relative.h)
//
// The first rule whose id prefix begins the row's id and whose `where` holds (row values by dotted key) is the row's. Where
// there is none, it is the first that names the row's source ("sources": ["2205.05198*Table 5"], holds_text() below), so that
// rows of a known paper need no ids of ours; then the first of those for any row, whose id prefix is "".
// Defaults fill what the row leaves out, never what it states. Values with a meaning of their own: layout.vpp "layers_per_stage"
// (one layer a chunk), layout.micro_batch "all" (one micro-batch a step), layout.global_batch "micro_batch", layout.dp "world".
// stack.* is what the source's own scripts change of its software's defaults.
//
// What the ensemble draws: `unstated` names settings that the source is silent about and what its software documents as
// possible. Before them come the alternatives that the stack documents for every source (cases/stacks/*.json, "alternatives": the
// same form), but for keys that a row states, that `unstated` has, or that are in `stated`: what the source says of all its
// rows in its text or scripts. A rule may instead say "unmapped" with the reason. "memory": "held" where the source's figures are
// nvidia-smi's: what the process holds, its allocator's cache and the context included; else the most that is allocated.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "suite/accuracy/published_row.h"

namespace benchsuite {

struct UnstatedSetting {
  std::string key;  ///< model.*, layout.*, stack.* or cluster.* (its interconnect, in the rows' words)
  std::vector<Json> values;
  std::string why;
};

struct SourceRule {
  std::string set;
  std::vector<std::string> ids;
  std::vector<std::string> sources;  ///< what names the source in a row's `source`, holds_text()
  std::vector<std::pair<std::string, Json>> where;
  std::string stack, why;
  std::vector<std::pair<std::string, Json>> defaults;
  std::vector<UnstatedSetting> unstated;
  std::vector<std::string> stated;
  std::string unmapped;  ///< the reason; empty: rows of this rule are mapped
  bool held_memory = false;  ///< the source's memory is what a process holds of the device, not what is allocated at most

  /// Whether it stands for rows of any source.
  bool knows_no_source() const;
};

struct SetTarget {
  std::string set;
  double mean_abs_pct = 0;
  std::optional<double> max_abs_pct;
  std::string residual;  ///< what carries the error that is left, and how that is known
};

/// A bound on some rows of a set, or on one figure of them: {"set": "...", "name": "...", "id": [...], "where": {...},
/// "metric": "mean_abs_pct", "bound": 8}. Without a bound the figure is shown and can't be missed.
struct SubTarget {
  enum class Metric : std::uint8_t {
    mean_abs_pct,
    rank_correlation,
    worst_forward_pct,   ///< of rows of one layer, likewise backward
    worst_backward_pct,
    memory_right_pct,
    memory_side,  ///< |false fits - false out-of-memory| over the root of their sum: standard deviations of a fair coin
  };
  struct Term {
    enum class Kind : std::uint8_t { equal, at_most, multiple_of };
    std::string key;  ///< dotted, and model.head_size (hidden over heads)
    Kind kind{};
    Json value;
  };

  std::string set;               ///< of a rule, or kAllRows
  std::string name;              ///< what it asks for, in words
  std::vector<std::string> ids;  ///< ids that begin so; empty: all
  std::vector<Term> where;
  Metric metric{};
  std::optional<double> bound;  ///< the least for rank_correlation and memory_right_pct, else the most

  bool at_least() const { return metric == Metric::rank_correlation || metric == Metric::memory_right_pct; }
  bool covers(const PublishedRow& row, const std::string& set_of_row) const;
};
/// The name of the score over every row.
inline constexpr std::string_view kAllRows = "all rows";

/// Rows compared by their ratio to a reference row: relative.h.
struct RelativeSet {
  enum class Compares : std::uint8_t { step, schedule };

  std::string set;
  std::vector<std::string> of;   ///< the sets whose rows are compared
  std::vector<std::string> ids;  ///< of these, ids that begin so; empty: all
  Compares compares = Compares::step;
  std::vector<std::pair<std::string, Json>> reference;  ///< what sets a reference row apart, by dotted key
  double mean_abs_pct = 0;
  std::string why, residual;

  bool covers(const PublishedRow& row, const std::string& set_of_row) const;
  bool is_reference(const PublishedRow& row) const;
};

struct SourceRules {
  std::vector<SourceRule> rules;
  std::vector<SetTarget> targets;
  std::vector<SubTarget> sub_targets;
  std::vector<RelativeSet> relative;
  std::map<std::string, std::string> interval_notes;  ///< by set

  /// The row's rule; nullptr when none fits.
  const SourceRule* rule_of(const PublishedRow& row) const;
  const SetTarget* target_of(const std::string& set) const;
};

/// Whether `text` holds `part`, or matches it from end to end where it has stars, each of which stands for anything. Upper and
/// lower case are alike.
bool holds_text(std::string text, std::string part);

/// A list of {"key", "values", "why"}. What is wrong becomes a problem at `path`.
std::vector<UnstatedSetting> read_unstated_settings(const Json& list, const std::string& file, const std::string& path,
                                                    std::vector<Violation>& problems);

SourceRules read_source_rules(const Json& json, const std::string& file, std::vector<Violation>& problems);
/// Throws Error with every problem.
SourceRules load_source_rules(const std::string& file);

/// The value at a dotted key such as "layout.pp"; null where the row has none.
Json row_value(const PublishedRow& row, const std::string& dotted);

}  // namespace benchsuite
