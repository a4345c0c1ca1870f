// Which role acts next: a tournament over one key per role.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/letters.h"

namespace benchsuite {

inline constexpr Picoseconds kNever = INT64_MAX;

class Earliest {
 public:
  explicit Earliest(std::size_t players) {
    while (leaves_ < players) leaves_ *= 2;
    keys_.assign(2 * leaves_, kNever);
  }

  Picoseconds time() const { return keys_[1]; }

  /// The lowest player with the earliest key.
  std::size_t player() const {
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (keys_[2 * node] == keys_[node] ? 0 : 1);
    return node - leaves_;
  }

  void set(std::size_t player, Picoseconds key) {
    std::size_t node = leaves_ + player;
    keys_[node] = key;
    while (node > 1) {
      const Picoseconds best = std::min(keys_[node], keys_[node ^ 1]);
      node /= 2;
      if (keys_[node] == best) return;
      keys_[node] = best;
    }
  }

 private:
  std::size_t leaves_ = 1;
  std::vector<Picoseconds> keys_;  ///< a binary tree: node n has children 2n and 2n + 1
};

}  // namespace benchsuite
