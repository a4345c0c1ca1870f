#include <algorithm>
#include <cmath>

#include "suite/accuracy/accuracy.h"

namespace benchsuite {

namespace {

void take_worst(const std::vector<RowResult>& rows, std::optional<double> RowResult::* error, SubScore& sub) {
  for (const RowResult& row : rows) {
    if (!(row.*error)) continue;
    ++sub.rows;
    sub.value = std::max(sub.value, std::abs(*(row.*error)));
  }
}

SubScore sub_score_of(const SubTarget& target, const std::vector<RowResult>& rows) {
  using Metric = SubTarget::Metric;
  SubScore sub;
  sub.target = target;
  const Score score = score_all(rows);
  switch (target.metric) {
    case Metric::mean_abs_pct:
      sub.rows = score.compared;
      sub.value = score.mean_abs_pct;
      break;
    case Metric::rank_correlation:
      sub.rows = score.rank_correlation ? score.compared : 0;
      sub.value = score.rank_correlation.value_or(0);
      break;
    case Metric::worst_forward_pct: take_worst(rows, &RowResult::forward_error_pct, sub); break;
    case Metric::worst_backward_pct: take_worst(rows, &RowResult::backward_error_pct, sub); break;
    case Metric::memory_right_pct:
      sub.rows = score.memory_rows;
      sub.value = 100 * score.memory_right;
      break;
    case Metric::memory_side: {
      sub.rows = score.memory_rows;
      const auto fits = static_cast<double>(score.false_fits), ooms = static_cast<double>(score.false_ooms);
      sub.value = fits + ooms > 0 ? std::abs(fits - ooms) / std::sqrt(fits + ooms) : 0;
      break;
    }
  }
  return sub;
}

}  // namespace

bool SubScore::met() const {
  if (!target.bound) return true;
  return target.at_least() ? value >= *target.bound : value <= *target.bound;
}

void add_sub_scores(const std::vector<PublishedRow>& rows, const std::vector<RowResult>& results, const SourceRules& rules,
                    std::vector<Score>& sets, Score& all) {
  for (const SubTarget& target : rules.sub_targets) {
    std::vector<RowResult> covered;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (target.covers(rows[i], results[i].set)) covered.push_back(results[i]);
    }
    SubScore sub = sub_score_of(target, covered);
    if (sub.rows == 0) continue;
    const auto set = std::find_if(sets.begin(), sets.end(), [&](const Score& score) { return score.name == target.set; });
    (set == sets.end() ? all : *set).sub_scores.push_back(std::move(sub));
  }
}

}  // namespace benchsuite
