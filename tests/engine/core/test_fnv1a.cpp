// Vectors of the FNV reference (Fowler, Noll, Vo), 64-bit FNV-1a.
#include "engine/core/fnv1a.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

TEST(Fnv1a, ReferenceVectors) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

TEST(Fnv1a, PartsHashLikeTheWhole) {
  const std::string_view text = "foobar";
  const auto bytes = std::as_bytes(std::span(text));
  EXPECT_EQ(fnv1a64(bytes), 0x85944171f73967e8u);
  EXPECT_EQ(fnv1a64(bytes.subspan(3), fnv1a64(bytes.first(3))), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace benchsuite
