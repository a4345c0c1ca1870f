#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

struct Draw {
  std::int32_t seed = 11, step = 3;
  std::vector<std::int32_t> samples = {100, 207};
  std::int16_t layer = 4;
  std::int64_t site = kMlpOutputDropout;
  float p = 0.5f;
};

Value samples_of(const Draw& draw) {
  std::vector<std::int32_t> values = draw.samples;
  values.insert(values.end(), {draw.step, draw.seed});
  return ints(values);
}

/// y of dropout over ones: the mask, scaled. dims = {s, b, cols, first position, first channel}.
std::vector<float> mask_of(const Draw& draw, std::int64_t s, std::int64_t cols, std::int64_t first_position = 0,
                           std::int64_t first_channel = 0) {
  const auto b = static_cast<std::int64_t>(draw.samples.size());
  const std::int64_t n = s * b * cols * (draw.site == kAttentionDropout ? s : 1);
  Value x = floats(std::vector<float>(static_cast<std::size_t>(n), 1)), y = output(n), samples = samples_of(draw);
  run_op(shape_of(OpKind::dropout, {s, b, cols, first_position, first_channel, draw.site}, draw.p),
         {in(x), in(samples), out(y)}, draw.layer);
  return y.f;
}

TEST(Dropout, MaskIsTheDocumentedFunction) {
  const Draw draw;
  const std::vector<float> y = mask_of(draw, 3, 6, 10, 5);
  std::size_t i = 0;
  for (std::uint32_t position = 10; position < 13; ++position) {
    for (const std::uint32_t sample : {100u, 207u}) {
      for (std::uint32_t channel = 5; channel < 11; ++channel, ++i) {
        const PhiloxCounter words = philox(std::uint64_t{3} << 32 | 11, {channel / 4, position, sample, 5 * 256 + 3});
        EXPECT_EQ(y[i], uniform_from(words[channel % 4]) < 0.5f ? 0.0f : 2.0f) << "element " << i;
      }
    }
  }
}

TEST(Dropout, ShardsSeeTheMaskOfTheWhole) {
  const Draw draw;
  const std::int64_t s = 6, b = 2, cols = 10;
  const std::vector<float> whole = mask_of(draw, s, cols);
  std::vector<float> by_position = mask_of(draw, 2, cols, 0);
  for (const float value : mask_of(draw, 4, cols, 2)) by_position.push_back(value);
  EXPECT_EQ(by_position, whole);
  const std::vector<float> left = mask_of(draw, s, 3, 0, 0), right = mask_of(draw, s, 7, 0, 3);
  for (std::int64_t row = 0; row < s * b; ++row) {
    for (std::int64_t i = 0; i < cols; ++i) {
      const float part = i < 3 ? left[static_cast<std::size_t>(row * 3 + i)]
                               : right[static_cast<std::size_t>(row * 7 + i - 3)];
      EXPECT_EQ(part, whole[static_cast<std::size_t>(row * cols + i)]) << row << ", " << i;
    }
  }
  Draw second = draw;  // a micro-batch of the second sample alone
  second.samples = {207};
  const std::vector<float> alone = mask_of(second, s, cols);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(alone[row * 10 + i], whole[(row * 2 + 1) * 10 + i]);
  }
}

TEST(Dropout, AttentionHeadsSeeTheMaskOfTheWhole) {
  Draw draw;
  draw.site = kAttentionDropout;
  const std::int64_t s = 5;  // s x heads is no multiple of the four words of a draw
  const std::vector<float> whole = mask_of(draw, s, 3);
  const std::vector<float> first = mask_of(draw, s, 1), rest = mask_of(draw, s, 2, 0, 1);
  for (std::size_t sample = 0; sample < 2; ++sample) {
    for (std::size_t i = 0; i < 75; ++i) {
      EXPECT_EQ(whole[sample * 75 + i], i < 25 ? first[sample * 25 + i] : rest[sample * 50 + i - 25]);
    }
  }
}

TEST(Dropout, EveryCoordinateMatters) {
  const Draw draw;
  const std::vector<float> base = mask_of(draw, 8, 16);
  EXPECT_EQ(mask_of(draw, 8, 16), base);
  const auto differs = [&](auto change) {
    Draw other = draw;
    change(other);
    EXPECT_NE(mask_of(other, 8, 16), base);
  };
  differs([](Draw& d) { d.seed = 12; });
  differs([](Draw& d) { d.step = 4; });
  differs([](Draw& d) { d.layer = 5; });
  differs([](Draw& d) { d.layer = -1; });
  differs([](Draw& d) { d.site = kAttentionOutputDropout; });
  differs([](Draw& d) { d.samples = {101, 207}; });
  EXPECT_NE(mask_of(draw, 8, 16, 1), base);
  EXPECT_NE(mask_of(draw, 8, 16, 0, 1), base);
}

TEST(Dropout, KeepsTheRightShareAndItsMean) {
  for (const float p : {0.1f, 0.5f}) {
    Draw draw;
    draw.p = p;
    const std::vector<float> y = mask_of(draw, 500, 200);
    const double n = static_cast<double>(y.size());
    const auto kept = static_cast<double>(std::count_if(y.begin(), y.end(), [](float v) { return v != 0; }));
    // Five standard deviations of a binomial share.
    EXPECT_NEAR(kept / n, 1 - p, 5 * std::sqrt(p * (1 - p) / n));
    for (const float value : y) ASSERT_TRUE(value == 0 || value == 1.0f / (1.0f - p));
  }
}

TEST(Dropout, StoredMaskIsTheRegeneratedOne) {
  const Draw draw;
  const std::int64_t s = 3, b = 2, cols = 5, n = s * b * cols;
  OpShape shape = shape_of(OpKind::dropout, {s, b, cols, 0, 0, draw.site}, draw.p);
  Value x = random_value(n, 1), dy = random_value(n, 2), samples = samples_of(draw);
  Value y = output(n), y_stored = output(n), mask = bytes_of_mask(static_cast<std::size_t>(n));
  run_op(shape, {in(x), in(samples), out(y)}, draw.layer);
  shape.stores_mask = true;
  run_op(shape, {in(x), in(samples), out(y_stored), out(mask)}, draw.layer);
  EXPECT_EQ(y.f, y_stored.f);
  for (std::size_t i = 0; i < y.f.size(); ++i) {
    EXPECT_LE(mask.u[i], 1);
    EXPECT_EQ(mask.u[i] == 1, y.f[i] != 0) << i;
  }
  Value dx = output(n), dx_stored = output(n);
  shape.kind = OpKind::dropout_backward;
  run_op(shape, {in(dy), in(mask), out(dx_stored)}, draw.layer);
  shape.stores_mask = false;
  run_op(shape, {in(dy), in(samples), out(dx)}, draw.layer);
  EXPECT_EQ(dx.f, dx_stored.f);
}

TEST(Dropout, Gradients) {
  const Draw draw;
  const std::int64_t s = 2, b = 2, cols = 3, n = s * b * cols;
  const std::initializer_list<std::int64_t> dims = {s, b, cols, 0, 0, draw.site};
  Value x = random_value(n, 1), bias = random_value(cols, 2), residual = random_value(n, 3);
  Value weight = random_value(n, 4), samples = samples_of(draw), dx = output(n);
  run_op(shape_of(OpKind::dropout_backward, dims, draw.p), {in(weight), in(samples), out(dx)}, draw.layer);
  expect_gradient(x.f, dx.f, [&] {
    Value y = output(n);
    run_op(shape_of(OpKind::dropout, dims, draw.p), {in(x), in(samples), out(y)}, draw.layer);
    return weighted(y.f, weight.f);
  }, "dropout x");
  const auto fused = [&] {
    Value y = output(n);
    run_op(shape_of(OpKind::bias_dropout_add, dims, draw.p), {in(x), in(bias), in(residual), in(samples), out(y)},
           draw.layer);
    return weighted(y.f, weight.f);
  };
  expect_gradient(x.f, dx.f, fused, "bias_dropout_add x");
  Value dbias = floats(std::vector<float>(3, 0));
  run_op(shape_of(OpKind::bias_gradient, {s * b, cols}), {in(dx), inout(dbias)});
  expect_gradient(bias.f, dbias.f, fused, "bias_dropout_add bias");
  expect_gradient(residual.f, weight.f, fused, "bias_dropout_add residual");
}

TEST(Dropout, FusedEqualsItsPartsAndStoresTheSameMask) {
  const Draw draw;
  const std::int64_t s = 3, b = 2, cols = 5, n = s * b * cols;
  Value x = random_value(n, 1), bias = random_value(cols, 2), residual = random_value(n, 3);
  Value samples = samples_of(draw), mask = bytes_of_mask(static_cast<std::size_t>(n));
  Value biased = output(n), dropped = output(n), sum = output(n), fused = output(n);
  run_op(shape_of(OpKind::bias_add, {s * b, cols}), {in(x), in(bias), out(biased)});
  run_op(shape_of(OpKind::dropout, {s, b, cols, 0, 0, draw.site}, draw.p), {in(biased), in(samples), out(dropped)},
         draw.layer);
  run_op(shape_of(OpKind::add, {n}), {in(residual), in(dropped), out(sum)});
  OpShape shape = shape_of(OpKind::bias_dropout_add, {s, b, cols, 0, 0, draw.site}, draw.p);
  shape.stores_mask = true;
  run_op(shape, {in(x), in(bias), in(residual), in(samples), out(fused), out(mask)}, draw.layer);
  EXPECT_EQ(fused.f, sum.f);
  for (std::size_t i = 0; i < sum.f.size(); ++i) EXPECT_EQ(mask.u[i] == 1, dropped.f[i] != 0);
}

}  // namespace
}  // namespace benchsuite::testing_cpu
