#include "suite/results/statistics.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"

namespace benchsuite {

double median(std::vector<double> values) {
  CHECK(!values.empty()) << "the median of nothing";
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const double upper = *middle;
  return (*std::max_element(values.begin(), middle) + upper) / 2;
}

double scaled_mad(const std::vector<double>& values) {
  const double centre = median(values);
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::abs(value - centre));
  return kScaledMad * median(std::move(distances));
}

std::optional<double> mann_whitney_p(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < kEnoughSamples || b.size() < kEnoughSamples) return std::nullopt;
  std::vector<std::pair<double, bool>> all;  // value, is of a
  for (const double value : a) all.emplace_back(value, true);
  for (const double value : b) all.emplace_back(value, false);
  std::sort(all.begin(), all.end());
  const auto na = static_cast<double>(a.size()), nb = static_cast<double>(b.size()), n = na + nb;
  double ranks_a = 0, ties = 0;
  for (std::size_t i = 0; i < all.size();) {
    std::size_t end = i;
    while (end < all.size() && all[end].first == all[i].first) ++end;
    const auto count = static_cast<double>(end - i);
    const double rank = (static_cast<double>(i + 1) + static_cast<double>(end)) / 2;  // shared by equal values
    for (std::size_t k = i; k < end; ++k) ranks_a += all[k].second ? rank : 0;
    ties += count * count * count - count;
    i = end;
  }
  const double u = ranks_a - na * (na + 1) / 2, mean = na * nb / 2;
  const double variance = na * nb / 12 * (n + 1 - ties / (n * (n - 1)));
  if (variance <= 0) return 1.0;
  const double z = std::max(0.0, std::abs(u - mean) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

std::optional<PairedRatio> paired_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size() || a.size() < kEnoughSamples) return std::nullopt;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] > 0)) return std::nullopt;
    ratios.push_back(b[i] / a[i]);
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t n = ratios.size();
  // The median lies below the k-th smallest ratio (from 0) with the probability of at most k heads in n tosses. Take
  // the tightest interval whose coverage is at least 95 %, or the whole range where there are too few pairs for that.
  double tail = 0;
  std::size_t k = 0;
  double term = std::pow(0.5, static_cast<double>(n));
  double best_tail = term;
  for (std::size_t heads = 0; heads < n / 2; ++heads) {
    tail += term;
    if (2 * tail > 0.05) break;
    k = heads;
    best_tail = tail;
    term *= static_cast<double>(n - heads) / static_cast<double>(heads + 1);
  }
  return PairedRatio{n, median(ratios), ratios[k], ratios[n - 1 - k], 1 - 2 * best_tail};
}

}  // namespace benchsuite
