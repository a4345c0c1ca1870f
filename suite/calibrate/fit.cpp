// t = a + size f / busbw + c sqrt(size), fitted in the logarithm of time.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "suite/calibrate/calibrate.h"

namespace benchsuite {

namespace {

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
}

using Three = std::array<double, 3>;

/// Solves the symmetric positive system m x = b by Gauss' elimination with pivots.
Three solve(std::array<Three, 3> m, Three b) {
  for (std::size_t i = 0; i < 3; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < 3; ++r)
      if (std::abs(m[r][i]) > std::abs(m[pivot][i])) pivot = r;
    std::swap(m[i], m[pivot]);
    std::swap(b[i], b[pivot]);
    if (m[i][i] == 0) continue;
    for (std::size_t r = 0; r < 3; ++r) {
      if (r == i) continue;
      const double share = m[r][i] / m[i][i];
      for (std::size_t c = i; c < 3; ++c) m[r][c] -= share * m[i][c];
      b[r] -= share * b[i];
    }
  }
  for (std::size_t i = 0; i < 3; ++i) b[i] = m[i][i] == 0 ? 0 : b[i] / m[i][i];
  return b;
}

}  // namespace

double CollectiveModelFit::seconds(double bytes, double factor) const {
  return a_s + bytes * factor / busbw + c_s * std::sqrt(bytes);
}

std::optional<CollectiveModelFit> fit_collective(const std::vector<CollectiveRow>& rows, double factor) {
  std::set<std::int64_t> sizes;
  for (const CollectiveRow& row : rows) sizes.insert(row.size);
  if (sizes.size() < 5 || *sizes.rbegin() < 64 * *sizes.begin()) return std::nullopt;

  // Parameters are logarithms, which keeps them positive; a term that is not there runs towards nothing.
  const auto term = [&](const Three& p, const CollectiveRow& row) {
    const double bytes = static_cast<double>(row.size);
    return Three{std::exp(p[0]), std::exp(p[1]) * bytes * factor, std::exp(p[2]) * std::sqrt(bytes)};
  };
  // A disturbed row (three times off) must not bend the line: beyond 0.2 its weight falls as Huber's (1964).
  constexpr double kHuber = 0.2;
  const auto residual = [&](const Three& p, const CollectiveRow& row) {
    const Three t = term(p, row);
    return std::log((t[0] + t[1] + t[2]) / row.best_s());
  };
  const auto cost = [&](const Three& p) {
    double sum = 0;
    for (const CollectiveRow& row : rows) {
      const double r = std::abs(residual(p, row));
      sum += r < kHuber ? r * r : kHuber * (2 * r - kHuber);
    }
    return sum;
  };

  double fastest = std::numeric_limits<double>::infinity(), rate = 0;
  for (const CollectiveRow& row : rows) {
    fastest = std::min(fastest, row.best_s());
    rate = std::max(rate, static_cast<double>(row.size) * factor / row.best_s());
  }
  Three best{};
  double least = std::numeric_limits<double>::infinity();
  for (const double root_share : {1e-3, 0.1, 1.0}) {
    Three p{std::log(fastest * 0.9), std::log(1 / (rate * 1.05)),
            std::log(root_share * fastest / std::sqrt(static_cast<double>(*sizes.rbegin())) * 10)};
    double damping = 1e-2, now = cost(p);
    for (int step = 0; step < 200; ++step) {  // Levenberg and Marquardt
      std::array<Three, 3> normal{};
      Three gradient{};
      for (const CollectiveRow& row : rows) {
        const Three t = term(p, row);
        const double whole = t[0] + t[1] + t[2], r = std::log(whole / row.best_s());
        const double weight = std::abs(r) < kHuber ? 1 : kHuber / std::abs(r);
        for (std::size_t i = 0; i < 3; ++i) {
          gradient[i] -= weight * r * t[i] / whole;
          for (std::size_t j = 0; j < 3; ++j) normal[i][j] += weight * t[i] * t[j] / (whole * whole);
        }
      }
      auto damped = normal;
      for (std::size_t i = 0; i < 3; ++i) damped[i][i] += damping * (normal[i][i] + 1e-9);
      const Three change = solve(damped, gradient);
      Three next = p;
      for (std::size_t i = 0; i < 3; ++i) next[i] += std::clamp(change[i], -2.0, 2.0);
      const double then = cost(next);
      if (then < now) {
        const bool done = now - then < 1e-13 * (1 + now);
        p = next;
        now = then;
        damping = std::max(damping / 4, 1e-9);
        if (done) break;
      } else if ((damping *= 4) > 1e9) {
        break;
      }
    }
    if (now < least) {
      least = now;
      best = p;
    }
  }

  CollectiveModelFit fit;
  fit.a_s = std::exp(best[0]);
  fit.busbw = 1 / std::exp(best[1]);
  fit.c_s = std::exp(best[2]);
  // A square-root term below a thousandth of the time everywhere is none.
  double most = 0;
  for (const CollectiveRow& row : rows) {
    const Three t = term(best, row);
    most = std::max(most, t[2] / (t[0] + t[1] + t[2]));
  }
  if (most < 1e-3) fit.c_s = 0;
  fit.rows = rows.size();
  std::vector<double> errors;
  for (const CollectiveRow& row : rows)
    errors.push_back(std::abs(fit.seconds(static_cast<double>(row.size), factor) / row.best_s() - 1));
  fit.median_error = quantile(errors, 0.5);
  fit.p90_error = quantile(errors, 0.9);
  return fit;
}

}  // namespace benchsuite
