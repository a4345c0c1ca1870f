#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {

namespace {

/// Ranks from 1, ties sharing their mean.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t last = first;
    while (last + 1 < order.size() && values[order[last + 1]] == values[order[first]]) ++last;
    for (std::size_t i = first; i <= last; ++i) ranks[order[i]] = static_cast<double>(first + last) / 2 + 1;
    first = last + 1;
  }
  return ranks;
}

std::optional<double> spearman(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double n = static_cast<double>(x.size()), mean = (n + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx <= 0 || yy <= 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

void add_rank_correlation(const std::vector<const RowResult*>& rows, Score& score) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> groups;
  for (const RowResult* row : rows) {
    const double published = row->published.iteration_s, predicted = row->predicted->iteration_s;
    if (!(published > 0) || !(predicted > 0)) continue;
    auto& group = groups[fmt::format("{} {} {} {}", row->model.layers, row->model.hidden, row->model.seq,
                                     row->layout.world())];
    group.first.push_back(published);
    group.second.push_back(predicted);
  }
  double sum = 0, weight = 0;
  for (const auto& [key, group] : groups) {
    if (group.first.size() < 3) continue;
    const std::optional<double> one = spearman(group.first, group.second);
    if (!one) continue;
    const auto n = static_cast<double>(group.first.size());
    sum += *one * n;
    weight += n;
    ++score.rank_groups;
  }
  if (weight > 0) score.rank_correlation = sum / weight;
}

void add_intervals(const std::vector<const RowResult*>& rows, Score& score) {
  std::size_t inside = 0, all = 0;
  std::vector<double> widths;
  for (const RowResult* row : rows) {
    if (!row->interval) continue;
    const double published = row->published_seconds();
    ++all;
    inside += row->interval->first <= published && published <= row->interval->second ? 1 : 0;
    widths.push_back(50 * (row->interval->second - row->interval->first) / published);
  }
  if (all == 0) return;
  score.interval_coverage = static_cast<double>(inside) / static_cast<double>(all);
  std::nth_element(widths.begin(), widths.begin() + static_cast<std::ptrdiff_t>(widths.size() / 2), widths.end());
  score.interval_half_width_pct = widths[widths.size() / 2];
}

Score score_of(const std::string& name, const std::vector<const RowResult*>& rows) {
  Score score;
  score.name = name;
  score.rows = rows.size();
  std::vector<const RowResult*> compared;
  std::map<std::string, std::pair<double, double>> configurations;
  for (const RowResult* row : rows) {
    score.mapped += row->mapped ? 1 : 0;
    if (row->predicted && (row->published.out_of_memory || row->published.iteration_s > 0)) {
      ++score.memory_rows;
      const bool right = row->predicted->fits != row->published.out_of_memory;
      score.memory_right += right ? 1 : 0;
      score.false_fits += !right && row->published.out_of_memory ? 1 : 0;
      score.false_ooms += !right && !row->published.out_of_memory ? 1 : 0;
    }
    if (!row->error_pct) continue;
    compared.push_back(row);
    const double error = *row->error_pct;
    score.mean_abs_pct += std::abs(error);
    score.bias_pct += error;
    if (score.worst.empty() || std::abs(error) > score.max_abs_pct) {
      score.max_abs_pct = std::abs(error);
      score.worst = row->id;
    }
    auto& [sum, count] = configurations[row->configuration()];
    sum += error;
    count += 1;
  }
  if (score.memory_rows > 0) score.memory_right /= static_cast<double>(score.memory_rows);
  score.compared = compared.size();
  if (compared.empty()) return score;
  score.mean_abs_pct /= static_cast<double>(compared.size());
  score.bias_pct /= static_cast<double>(compared.size());
  score.configurations = configurations.size();
  for (const auto& [key, value] : configurations) {
    const double mean = std::abs(value.first / value.second);
    score.configuration_mean_abs_pct += mean / static_cast<double>(configurations.size());
    score.configuration_max_abs_pct = std::max(score.configuration_max_abs_pct, mean);
  }
  add_rank_correlation(compared, score);
  add_intervals(compared, score);
  return score;
}

}  // namespace

double RowResult::published_seconds() const {
  return kind == RowKind::layer_time ? published.layer_forward_s + published.layer_backward_s : published.iteration_s;
}

double RowResult::predicted_seconds() const {
  return kind == RowKind::layer_time ? predicted->layer_forward_s + predicted->layer_backward_s : predicted->iteration_s;
}

std::vector<std::string> Score::missed_goals() const {
  std::vector<std::string> missed;
  if (target_mean_pct && compared > 0) {
    const double target = *target_mean_pct;
    if (mean_abs_pct > target) missed.push_back("mean");
    if (max_abs_pct > target_max_pct.value_or(kWorstInTargets * target)) missed.push_back("worst");
    if (std::abs(bias_pct) > kBiasInTargets * target) missed.push_back("bias");
    if (interval_coverage && *interval_coverage < kLeastCoverage) missed.push_back("coverage");
    if (interval_half_width_pct && *interval_half_width_pct > kWidthInTargets * target) missed.push_back("width");
  }
  for (const SubScore& sub : sub_scores) {
    if (!sub.met()) missed.push_back(sub.target.name);
  }
  return missed;
}

std::string RowResult::configuration() const {
  return fmt::format("{} | {} {} {} {} {} | t{} p{} v{} c{} b{} | {} {} {} {}", source, model.name, model.layers, model.hidden,
                     model.seq, model.vocab, layout.tp, layout.pp, layout.vpp, layout.cp, layout.micro_batch,
                     layout.sequence_parallel, name_of(layout.recompute.granularity), name_of(layout.precision),
                     layout.zero_stage);
}

Score score_all(const std::vector<RowResult>& rows) {
  std::vector<const RowResult*> members;
  for (const RowResult& row : rows) members.push_back(&row);
  return score_of(std::string(kAllRows), members);
}

std::vector<Score> score_by(const std::vector<RowResult>& rows, bool by_set, const SourceRules& rules) {
  std::vector<std::pair<std::string, std::vector<const RowResult*>>> groups;
  for (const RowResult& row : rows) {
    const std::string& name = by_set ? row.set : row.source;
    auto found = std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == name; });
    if (found == groups.end()) found = groups.insert(groups.end(), {name, {}});
    found->second.push_back(&row);
  }
  std::vector<Score> scores;
  for (const auto& [name, members] : groups) {
    Score& score = scores.emplace_back(score_of(name, members));
    if (const SetTarget* target = by_set ? rules.target_of(name) : nullptr) {
      score.target_mean_pct = target->mean_abs_pct;
      score.target_max_pct = target->max_abs_pct;
      score.residual = target->residual;
    }
    if (const auto note = rules.interval_notes.find(name); by_set && note != rules.interval_notes.end()) {
      score.interval_note = note->second;
    }
  }
  return scores;
}

}  // namespace benchsuite
