#include <gtest/gtest.h>

#include "engine/core/dtype.h"

namespace benchsuite {
namespace {

TEST(DType, Sizes) {
  EXPECT_EQ(size_of(DType::fp32), 4);
  EXPECT_EQ(size_of(DType::int32), 4);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::fp16), 2);
  EXPECT_EQ(size_of(DType::fp8), 1);
  EXPECT_EQ(size_of(DType::uint8), 1);
}

TEST(DType, Names) {
  EXPECT_EQ(name_of(DType::fp32), "fp32");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::fp16), "fp16");
  EXPECT_EQ(name_of(DType::fp8), "fp8");
  EXPECT_EQ(name_of(DType::int32), "int32");
  EXPECT_EQ(name_of(DType::uint8), "uint8");
}

}  // namespace
}  // namespace benchsuite
