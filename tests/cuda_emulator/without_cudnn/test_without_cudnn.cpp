// What stands in for cuDNN's kernels where the library was not found.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/device/cuda/fused_attention.h"

namespace benchsuite::cuda {
namespace {

TEST(WithoutCudnn, NothingRunsFusedAndItSaysSo) {
  std::vector<std::string> said;
  FusedAttention attention([&](const std::string& text) { said.push_back(text); });
  const OpShape shape{.kind = OpKind::flash_attention, .dtype = DType::bf16, .out_dtype = DType::bf16, .dims = {128, 1, 4, 64, 4}};
  attention.plan(shape);
  EXPECT_EQ(said, std::vector<std::string>{"flash attention runs as matrix products around one softmax kernel: built without cuDNN "
                                           "9.16 or later"});
  EXPECT_FALSE(attention.takes(shape));
  EXPECT_EQ(attention.workspace(shape), 0u);
  EXPECT_THROW(attention.run({.shape = shape}), Error);
}

}  // namespace
}  // namespace benchsuite::cuda
