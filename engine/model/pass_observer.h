// Who manages parameters and gradients hears from a chunk what it is about to run and what it has run.
#pragma once

#include <compare>
#include <cstdint>

namespace benchsuite {

/// A part of a chunk whose parameters are used together. `layer` is chunk-local; the ends have none (0).
struct Part {
  enum class Kind : std::uint8_t { embedding, attention, mlp, head };  ///< in forward order within a chunk or layer

  Kind kind{};
  std::int64_t layer = 0;

  friend bool operator==(const Part&, const Part&) = default;
};

/// Parts run in this order forward and in the opposite order backward.
constexpr bool comes_before(const Part& a, const Part& b) {
  const auto place = [](const Part& part) {
    switch (part.kind) {
      case Part::Kind::embedding: return std::int64_t{-1};
      case Part::Kind::attention: return 2 * part.layer;
      case Part::Kind::mlp: return 2 * part.layer + 1;
      case Part::Kind::head: return INT64_MAX;
    }
    return std::int64_t{0};
  };
  return place(a) < place(b);
}

/// The phase in the recorder's context tells forward, recompute and backward apart.
class PassObserver {
 public:
  virtual ~PassObserver() = default;
  virtual void begin(std::int64_t chunk, const Part& part) = 0;
  virtual void end(std::int64_t chunk, const Part& part) = 0;
};

}  // namespace benchsuite
