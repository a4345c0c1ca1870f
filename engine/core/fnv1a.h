// FNV-1a, 64 bit (Fowler, Noll and Vo): fingerprints of names, texts and files. It tells things apart and is no protection against
// a forger. Any one changed byte changes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace benchsuite {

inline constexpr std::uint64_t kFnv1aStart = 0xCBF29CE484222325u, kFnv1aPrime = 0x100000001B3u;

constexpr std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = kFnv1aStart;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * kFnv1aPrime;
  return hash;
}

/// The hash of what `before` is the hash of, and `bytes` behind it.
constexpr std::uint64_t fnv1a64(std::span<const std::byte> bytes, std::uint64_t before = kFnv1aStart) {
  for (const std::byte byte : bytes) before = (before ^ static_cast<std::uint64_t>(byte)) * kFnv1aPrime;
  return before;
}

}  // namespace benchsuite
