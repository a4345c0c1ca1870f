// Embeddings and rotary positions.
#include <cmath>

#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

class Embedding : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, Embedding, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

struct Size {
  std::int64_t tokens, h, rows, first_row;
};
// Ids run from 0 to 2 rows, so that some are below and some beyond the shard, and many repeat.
constexpr Size kSizes[] = {{1, 1, 1, 0}, {9, 5, 4, 2}, {40, 24, 7, 3}, {300, 2072, 3, 1}, {70, 13, 90, 30}};

TEST_P(Embedding, GathersRowsAndZeros) {
  for (const auto [tokens, h, rows, first_row] : kSizes) {
    const auto ids = numbers_.integers(tokens, 0, static_cast<std::int32_t>(2 * rows));
    const auto table = numbers_.normal(rows * h, type());
    Expected y{.type = type(), .values = std::vector<double>(static_cast<std::size_t>(tokens * h), 0)};
    for (std::int64_t t = 0; t < tokens; ++t) {
      const std::int64_t row = ids[static_cast<std::size_t>(t)] - first_row;
      for (std::int64_t i = 0; i < h && row >= 0 && row < rows; ++i) at(y.values, t * h + i) = at(table, row * h + i);
    }
    Case(shape_of(OpKind::embedding, {tokens, h, rows, first_row}, type()))
        .reads(ids)
        .reads(type(), table)
        .writes(y)
        .check();
  }
}

TEST_P(Embedding, ScatterAddsTokensInTheirOrder) {
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    for (const auto [tokens, h, rows, first_row] : kSizes) {
      const auto ids = numbers_.integers(tokens, 0, static_cast<std::int32_t>(2 * rows));
      const auto dy = numbers_.normal(tokens * h, type()), before = numbers_.normal(rows * h, gradient);
      // In fp32, token by token, rounded once at the end: exactly so, hence bit for bit.
      std::vector<float> sums(before.begin(), before.end());
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t row = ids[static_cast<std::size_t>(t)] - first_row;
        for (std::int64_t i = 0; i < h && row >= 0 && row < rows; ++i) {
          sums[static_cast<std::size_t>(row * h + i)] += static_cast<float>(at(dy, t * h + i));
        }
      }
      OpShape shape = shape_of(OpKind::embedding_backward, {tokens, h, rows, first_row}, type());
      shape.out_dtype = gradient;
      Case(shape)
          .reads(ids)
          .reads(type(), dy)
          .updates(before, {.type = gradient, .values = {sums.begin(), sums.end()}})
          .check();
    }
  }
}

struct Positions {
  std::int64_t s, b, h, first, table;
};
constexpr Positions kPositions[] = {{1, 1, 1, 0, 1}, {3, 2, 5, 4, 9}, {4, 3, 16, 2, 6}, {2, 1, 1032, 0, 2}};

TEST_P(Embedding, PositionsAreAddedToEverySample) {
  for (const auto [s, b, h, first, rows] : kPositions) {
    const auto x = numbers_.normal(s * b * h, type()), table = numbers_.normal(rows * h, type());
    Expected y{.type = type(), .values = x};
    for (std::int64_t i = 0; i < s * b * h; ++i) at(y.values, i) += at(table, (first + i / (b * h)) * h + i % h);
    Case(shape_of(OpKind::position, {s, b, h, first}, type()))
        .reads(type(), x)
        .reads(type(), table)
        .writes(y)
        .may_alias(2, 0)
        .check();
  }
}

TEST_P(Embedding, PositionGradientsAddSamplesInTheirOrder) {
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    for (const auto [s, b, h, first, rows] : kPositions) {
      const auto dy = numbers_.normal(s * b * h, type()), before = numbers_.normal(rows * h, gradient);
      std::vector<float> sums(before.begin(), before.end());
      for (std::int64_t i = 0; i < s * b * h; ++i) {
        sums[static_cast<std::size_t>((first + i / (b * h)) * h + i % h)] += static_cast<float>(at(dy, i));
      }
      OpShape shape = shape_of(OpKind::position_backward, {s, b, h, first}, type());
      shape.out_dtype = gradient;
      Case(shape).reads(type(), dy).updates(before, {.type = gradient, .values = {sums.begin(), sums.end()}}).check();
    }
  }
}

TEST(Position, ATableTooShortIsRefused) {
  const std::vector<double> x(4, 1), table(4, 1);
  EXPECT_THROW(Case(shape_of(OpKind::position, {2, 1, 2, 1}))
                   .reads(DType::fp32, x)
                   .reads(DType::fp32, table)
                   .writes({.values = x})
                   .check(),
               Error);
}

struct Rotation {
  std::int64_t s, b, a, d, u, first;  // u = 0: as many key-value heads as query heads
};
// Halves that are whole packs and halves that are not, grouped queries, positions far out, more angles than a table
// holds.
constexpr Rotation kRotations[] = {
    {3, 2, 2, 16, 0, 0}, {4, 1, 6, 10, 2, 7}, {2, 2, 4, 64, 1, 100000}, {2, 1, 1, 544, 0, 3}, {1, 1, 1, 2, 0, 1}};

/// qkv as [s, b, u, a/u + 2, d], turned by `direction`.
std::vector<double> turned(const std::vector<double>& qkv, const Rotation& r, double base, double direction) {
  std::vector<double> out = qkv;
  const std::int64_t groups = r.u == 0 ? r.a : r.u, slots = r.a / groups + 2;
  for (std::int64_t head = 0; head < r.s * r.b * groups * slots; ++head) {
    if (head % slots == slots - 1) continue;  // values stay
    const auto position = static_cast<double>(r.first + head / (r.b * groups * slots));
    for (std::int64_t i = 0; i < r.d / 2; ++i) {
      const double angle =
          direction * position * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(r.d));
      const double x = at(qkv, head * r.d + i), y = at(qkv, head * r.d + i + r.d / 2);
      at(out, head * r.d + i) = x * std::cos(angle) - y * std::sin(angle);
      at(out, head * r.d + i + r.d / 2) = y * std::cos(angle) + x * std::sin(angle);
    }
  }
  return out;
}

TEST_P(Embedding, RopeTurnsQueriesAndKeys) {
  for (const Rotation& r : kRotations) {
    for (const bool backward : {false, true}) {
      const std::int64_t groups = r.u == 0 ? r.a : r.u, n = r.s * r.b * groups * (r.a / groups + 2) * r.d;
      const auto qkv = numbers_.normal(n, type());
      // Rounded sine and cosine, two products, a sum.
      Expected after{.type = type(), .values = turned(qkv, r, 10000, backward ? -1 : 1), .ulps = 3, .magnitudes = qkv};
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t other = i % r.d < r.d / 2 ? i + r.d / 2 : i - r.d / 2;
        at(after.magnitudes, i) = std::abs(at(qkv, i)) + std::abs(at(qkv, other));
      }
      const OpShape shape = shape_of(backward ? OpKind::rope_backward : OpKind::rope,
                                     {r.s, r.b, r.a, r.d, r.u, r.first}, type(), {10000.0f});
      Case(shape).updates(qkv, after).check();
    }
  }
}

TEST(Rope, PositionsBeyondTheReductionAreRefused) {
  const std::vector<double> qkv(6, 1);
  EXPECT_THROW(Case(shape_of(OpKind::rope, {1, 1, 1, 2, 0, 1 << 20}, DType::fp32, {10000.0f}))
                   .updates(qkv, {.values = qkv})
                   .check(),
               Error);
  EXPECT_THROW(
      Case(shape_of(OpKind::rope, {1, 1, 1, 3, 0, 0}, DType::fp32, {10000.0f})).updates(qkv, {.values = qkv}).check(),
      Error);
}

}  // namespace
}  // namespace benchsuite::testing_cuda
