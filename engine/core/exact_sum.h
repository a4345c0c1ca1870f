// A sum of non-negative numbers that does not depend on their order, nor on how they are spread over ranks.
//
// Every term is rounded to a multiple of 2^-84 and added as an integer. The integer travels as kExactSumDigits fp32 digits of
// ten bits each, lowest first, so that an ordinary fp32 sum over ranks is exact: 2^14 contributions of digits below 2^10
// stay below 2^24. Sums reach 2^36; a term that is not finite, or a larger sum, makes the value NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace benchsuite {

inline constexpr int kExactSumDigits = 12;

/// Outside ISO C++, but in every compiler we build with.
__extension__ using UInt128 = unsigned __int128;

class ExactSum {
 public:
  void add(double term) {
    if (!(term >= 0 && term < kLimit)) {
      broken_ = true;
      return;
    }
    sum_ += static_cast<UInt128>(std::nearbyint(std::ldexp(term, kFractionBits)));
    broken_ = broken_ || sum_ >> kBits != 0;
  }

  /// Adds the sum to `digits` [kExactSumDigits].
  void add_to(std::span<float> digits) const {
    UInt128 rest = sum_;
    for (float& digit : digits) {
      digit += broken_ ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(rest & kMask);
      rest >>= kDigitBits;
    }
  }

  /// The sum that `digits` hold; digits may have grown past ten bits by addition.
  static double value_of(std::span<const float> digits) {
    double value = 0, scale = std::ldexp(1.0, -kFractionBits);
    for (const float digit : digits) {
      value += static_cast<double>(digit) * scale;
      scale *= 1 << kDigitBits;
    }
    return value;
  }

 private:
  static constexpr int kDigitBits = 10, kBits = kDigitBits * kExactSumDigits, kFractionBits = 84;
  static constexpr unsigned kMask = (1u << kDigitBits) - 1;
  static constexpr double kLimit = 68719476736.0;  // 2^36

  UInt128 sum_ = 0;
  bool broken_ = false;
};

}  // namespace benchsuite
