#include "engine/core/exact_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace benchsuite {
namespace {

using Digits = std::array<float, kExactSumDigits>;

std::vector<double> squares(int count) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> terms;
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<float>(normal(random) * std::pow(10.0, static_cast<int>(random() % 9) - 6));
    terms.push_back(static_cast<double>(x) * x);
  }
  return terms;
}

TEST(ExactSum, DoesNotDependOnOrderNorOnHowTermsAreSpread) {
  std::vector<double> terms = squares(5000);
  Digits whole{};
  ExactSum once;
  for (const double term : terms) once.add(term);
  once.add_to(whole);
  std::shuffle(terms.begin(), terms.end(), std::mt19937(11));
  Digits spread{};
  for (std::size_t rank = 0; rank < 64; ++rank) {
    ExactSum part;
    for (std::size_t i = rank; i < terms.size(); i += 64) part.add(terms[i]);
    part.add_to(spread);
  }
  EXPECT_EQ(ExactSum::value_of(whole), ExactSum::value_of(spread));
}

TEST(ExactSum, IsTheSum) {
  long double wanted = 0;
  ExactSum sum;
  for (const double term : squares(1000)) {
    sum.add(term);
    wanted += term;
  }
  Digits digits{};
  sum.add_to(digits);
  // Each term is rounded to 2^-84; the value is read out in double.
  EXPECT_NEAR(ExactSum::value_of(digits), static_cast<double>(wanted), static_cast<double>(wanted) * 1e-15 + 1000 * 0x1p-84);
}

TEST(ExactSum, WhatIsNotANumberShows) {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan(""), 1e11}) {
    ExactSum sum;
    sum.add(1);
    sum.add(bad);
    Digits digits{};
    sum.add_to(digits);
    EXPECT_TRUE(std::isnan(ExactSum::value_of(digits)));
  }
}

TEST(ExactSum, ManyContributionsStayExact) {
  ExactSum full;
  full.add(68719476735.0);  // 2^36 - 1: the upper digits are all ones
  Digits digits{};
  for (int rank = 0; rank < 1 << 14; ++rank) full.add_to(digits);
  EXPECT_EQ(ExactSum::value_of(digits), 68719476735.0 * (1 << 14));
}

}  // namespace
}  // namespace benchsuite
