// Which collective a table holds and where its ranks sit: what the data say, what options say, what must be asked.
#include <fmt/format.h>

#include <algorithm>

#include "suite/calibrate/calibrate.h"

namespace benchsuite {

namespace {

constexpr double kTooFast = 1.3;

std::string place_of(const CollectiveTable& table) {
  return fmt::format("{} line {}", table.file, table.rows.front().line);
}

int ranks_of(const CollectiveTable& table, const ReadingOptions& options, const HardwareProfile* hardware) {
  if (options.ranks > 0) return options.ranks;
  if (table.ranks_known()) return table.ranks_low;
  if (table.ranks_low > 0 && hardware) {
    // The printed digits leave a few counts: a job of whole nodes is the rule.
    const int per_node = hardware->gpus_per_node;
    std::vector<int> fitting;
    for (int n = round_up(table.ranks_low, per_node); n <= table.ranks_high && fitting.size() < 2; n += per_node)
      fitting.push_back(n);
    if (fitting.size() == 1) return fitting.front();
    if (options.nodes > 0 && options.nodes * per_node >= table.ranks_low &&
        options.nodes * per_node <= table.ranks_high)
      return options.nodes * per_node;
  }
  throw Error({Violation{place_of(table), "--ranks", "",
                         table.ranks_low > 0
                             ? fmt::format("the printed rates fit {} to {} ranks", table.ranks_low, table.ranks_high)
                             : std::string("the number of ranks can't be known from these rows"),
                         "give it with --ranks N"}});
}

}  // namespace

std::vector<Reading> readings_of(const CollectiveTable& table, const ReadingOptions& options,
                                 const HardwareProfile* hardware) {
  Reading first;
  first.op = options.op.empty() ? table.op_candidates.front() : options.op;
  first.ranks = ranks_of(table, options, hardware);
  const int per_node = hardware ? hardware->gpus_per_node : first.ranks;
  const bool said = options.nodes > 0 || table.nodes > 0;
  first.nodes = options.nodes > 0 ? options.nodes : table.nodes > 0 ? table.nodes : div_ceil(first.ranks, per_node);
  if (first.nodes > first.ranks) {
    throw Error({Violation{place_of(table), "--nodes", std::to_string(first.nodes),
                           fmt::format("more nodes than ranks ({})", first.ranks), "correct --nodes or --ranks"}});
  }
  std::vector<Reading> out = {first};
  if (!said && first.nodes == 1 && first.ranks > 1 && hardware && hardware->nics_per_node > 0)
    out.push_back({first.op, first.ranks, first.ranks});  // one rank on each of many nodes
  if (options.op.empty() && table.op_candidates.size() > 1) {
    const std::size_t before = out.size();
    for (std::size_t i = 0; i < before; ++i) out.push_back({table.op_candidates[1], out[i].ranks, out[i].nodes});
  }
  return out;
}

Judgement judge_table(const CollectiveTable& table, const ReadingOptions& options, const HardwareProfile* hardware) {
  const std::vector<Reading> readings = readings_of(table, options, hardware);
  Judgement judgement = judge_collective(table, readings.front(), hardware);
  if (judgement.healthy() || !judgement.judged) return judgement;
  for (std::size_t i = 1; i < readings.size(); ++i) {
    const Judgement other = judge_collective(table, readings[i], hardware);
    // Far above what that reading can do is no better a fit than far below.
    if (!other.judged || !other.healthy() || other.plateau.value_or(0) > kTooFast) continue;
    const Reading &a = readings.front(), &b = readings[i];
    const bool op = a.op != b.op;
    throw Error({Violation{
        place_of(table), op ? "--op" : "--nodes", "",
        fmt::format(
            "the rows fit a healthy {} on {} node{} and an unhealthy {} on {} node{}, and do not say which it is", b.op,
            b.nodes, b.nodes == 1 ? "" : "s", a.op, a.nodes, a.nodes == 1 ? "" : "s"),
        op ? "say it with --op " + a.op + " or --op " + b.op : "give the number of nodes with --nodes N"}});
  }
  return judgement;
}

}  // namespace benchsuite
