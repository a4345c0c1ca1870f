// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC'11, section 3.3).
//
// A draw is a pure function of (seed, counter), so a value belongs to a global index (parameter element,
// dropout position) and never to the rank or the order that asked for it.
#pragma once

#include <array>
#include <cstdint>

namespace benchsuite {

using PhiloxCounter = std::array<std::uint32_t, 4>;

/// Four independent uniform 32-bit words for (seed, counter).
constexpr PhiloxCounter philox(std::uint64_t seed, PhiloxCounter counter) {
  std::uint32_t key0 = static_cast<std::uint32_t>(seed);
  std::uint32_t key1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

/// Uniform in [0, 1) with 24 random bits, exactly representable in fp32.
constexpr float uniform_from(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

}  // namespace benchsuite
