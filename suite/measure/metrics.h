// From timelines to numbers: where every instant of a rank went, and what each kind of communication cost.
//
// The compute stream comes first: while it runs an op, the instant belongs to the op's phase (fills, gradient
// synchronisation and the optimizer are one category). In its gaps the instant belongs to the communication op that is
// transferring (from the last member's arrival to the end), by the order of Category; a rank that only waits for other
// members is in the bubble. Each rank is padded with bubble to the end of the step: parts add up to the step exactly.
//
// Exposed time of a communication op is the part of its transfer that decided the category of an instant, the rest of
// the transfer is hidden: exposed times add up to the communication categories exactly.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/device/sim/replay.h"
#include "suite/results/run.h"

namespace benchsuite {

/// One kind of communication on one rank, over one step.
struct KindTotal {
  std::string kind;  ///< as CommunicationTime::kind
  Picoseconds exposed = 0, hidden = 0;
  double bytes = 0;  ///< sent by this rank, ring algorithms; receives send nothing
  std::int64_t calls = 0;
};

/// What the pipeline passes of one rank took.
struct RankPasses {
  /// Forwards and backwards (recompute included) [chunk][forward, backward][micro-batch]: compute, and exposed
  /// communication other than the pipeline's.
  std::vector<std::array<std::vector<Picoseconds>, 2>> time;
  Picoseconds end = 0;     ///< of the last pass
  Picoseconds travel = 0;  ///< sum over pipeline sends, from both sides being there to the end
  std::int64_t sends = 0;
  std::vector<GanttSpan> idle_after;  ///< waiting after the rank's last pass
  Picoseconds launches = 0;  ///< of the waiting up to the last pass: all that was missing was the host's launch
};

/// The sum of a rank's passes, in picoseconds.
double pass_time(const RankPasses& passes);

struct RankMetrics {
  Breakdown breakdown;
  Picoseconds busy = 0;                  ///< a compute op runs or a communication kernel is resident (even if it waits)
  std::vector<GanttSpan> spans;          ///< the whole step without gaps, neighbours of one kind merged; full detail
  std::vector<KindTotal> communication;  ///< in a fixed order of kinds; groups of one rank are left out
  std::int64_t peak_in_flight = 0;       ///< most chunk-forwards started whose backward had not ended
  RankPasses passes;
};

/// What apply_metrics keeps of the ranks of a role.
struct RoleMetrics {
  RankPasses passes;
  std::vector<KindTotal> communication;
  std::int64_t ranks = 0;
};

/// `step` is when the last rank ended, not before the timeline's own end.
RankMetrics measure_rank(const Program& program, const Timeline& timeline, Picoseconds step);

/// Fills what timelines decide: step, iteration_s, stages (breakdown, gpu_busy, gantt, peak_in_flight, stage and
/// representative_rank; other fields of stages that are there already are kept), communication, mean_breakdown,
/// ranks_in_breakdown, gpu_busy, bubble_share, bubble_over_ideal (of the passes), recompute_s and ops. Means weigh every rank alike.
/// Kinds of communication that are in `result` already keep their place and expected_bytes; new ones follow.
/// Returns what only the caller can use, by role. Roles are measured on `threads` threads.
std::vector<RoleMetrics> apply_metrics(const World& world, const ReplayResult& replayed, VariantResult& result,
                                       int threads = 1);

/// What a reader calls an operation of such a group: "tensor all_gather (recomputed)". Groups that do one thing share a word.
std::string communication_kind(GroupKind group, OpKind op, bool recomputed);

/// Whether `kind` names a kind of communication, e.g. "tensor all_gather (recomputed)".
bool is_communication_kind(const std::string& kind);

/// Bytes a rank sends for one communication op among `members` ranks: ring all-gather and reduce-scatter (n-1)/n of the
/// whole tensor, all-reduce twice that, a send its tensor, a receive nothing.
double wire_bytes(const OpShape& shape, std::int64_t members);

}  // namespace benchsuite
