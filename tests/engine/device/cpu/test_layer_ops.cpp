// Norms, elementwise ops and embeddings: forward against the formula, backward against finite differences.
#include "engine/device/cpu/kernels.h"
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

TEST(LayerNorm, ForwardIsTheFormula) {
  const std::int64_t rows = 3, cols = 7;
  Value x = random_value(rows * cols, 1), gamma = random_value(cols, 2), beta = random_value(cols, 3);
  Value y = output(rows * cols), stats = output(rows * 2);
  run_op(shape_of(OpKind::layernorm, {rows, cols}, 1e-5f), {in(x), in(gamma), in(beta), out(y), out(stats)});
  for (std::size_t row = 0; row < 3; ++row) {
    double mean = 0, square = 0;
    for (std::size_t i = 0; i < 7; ++i) mean += x.f[row * 7 + i] / 7.0;
    for (std::size_t i = 0; i < 7; ++i) square += x.f[row * 7 + i] * static_cast<double>(x.f[row * 7 + i]) / 7.0;
    const double inverse = 1 / std::sqrt(square - mean * mean + 1e-5);
    EXPECT_NEAR(stats.f[2 * row], mean, 1e-6);  // fp32 of values near 1, here and below
    EXPECT_NEAR(stats.f[2 * row + 1], inverse, 1e-6 * inverse);
    for (std::size_t i = 0; i < 7; ++i) {
      EXPECT_NEAR(y.f[row * 7 + i], (x.f[row * 7 + i] - mean) * inverse * gamma.f[i] + beta.f[i], 2e-6);
    }
  }
}

TEST(LayerNorm, Gradients) {
  const std::int64_t rows = 3, cols = 7;
  Value x = random_value(rows * cols, 1), gamma = random_value(cols, 2), beta = random_value(cols, 3);
  Value weight = random_value(rows * cols, 4), y = output(rows * cols), stats = output(rows * 2);
  const auto forward = [&] {
    run_op(shape_of(OpKind::layernorm, {rows, cols}, 1e-5f), {in(x), in(gamma), in(beta), out(y), out(stats)});
    return weighted(y.f, weight.f);
  };
  forward();
  Value dx = output(rows * cols);
  Value dgamma = floats(std::vector<float>(7, 2)), dbeta = floats(std::vector<float>(7, 3));
  run_op(shape_of(OpKind::layernorm_backward, {rows, cols}, 1e-5f),
         {in(weight), in(x), in(gamma), in(stats), out(dx), inout(dgamma), inout(dbeta)});
  for (float& value : dgamma.f) value -= 2;  // they accumulate
  for (float& value : dbeta.f) value -= 3;
  expect_gradient(x.f, dx.f, forward, "x");
  expect_gradient(gamma.f, dgamma.f, forward, "gamma");
  expect_gradient(beta.f, dbeta.f, forward, "beta");
}

TEST(Softmax, RowsAreDistributionsAndCausalOnesEndAtTheDiagonal) {
  for (const bool causal : {false, true}) {
    const std::int64_t rows = 10, cols = 5;  // two matrices of 5 x 5
    OpShape shape = shape_of(OpKind::softmax, {rows, cols});
    shape.causal = causal;
    Value s = random_value(rows * cols, 1), p = output(rows * cols);
    for (float& x : s.f) x = 100 * x;  // exp of it overflows unless the maximum is taken out
    run_op(shape, {in(s), out(p)});
    for (std::size_t row = 0; row < 10; ++row) {
      const std::size_t kept = causal ? row % 5 + 1 : 5;
      double sum = 0;
      for (std::size_t i = 0; i < kept; ++i) sum += std::exp(static_cast<double>(s.f[row * 5 + i]));
      for (std::size_t i = 0; i < 5; ++i) {
        const double expected = i < kept ? std::exp(static_cast<double>(s.f[row * 5 + i])) / sum : 0;
        EXPECT_NEAR(p.f[row * 5 + i], expected, 1e-5 * expected + 1e-30);  // scores of 100 have ulps of 8e-6
        if (i >= kept) {
          EXPECT_EQ(p.f[row * 5 + i], 0);
        }
      }
    }
  }
}

TEST(Softmax, Gradient) {
  for (const bool causal : {false, true}) {
    const std::int64_t rows = 8, cols = 4;
    OpShape shape = shape_of(OpKind::softmax, {rows, cols});
    shape.causal = causal;
    Value s = random_value(rows * cols, 1), p = output(rows * cols), weight = random_value(rows * cols, 2);
    const auto forward = [&] {
      run_op(shape, {in(s), out(p)});
      return weighted(p.f, weight.f);
    };
    forward();
    Value ds = output(rows * cols);
    shape.kind = OpKind::softmax_backward;
    run_op(shape, {in(weight), in(p), out(ds)});
    shape.kind = OpKind::softmax;
    expect_gradient(s.f, ds.f, forward, "scores");
  }
}

double gelu_in_double(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

TEST(Gelu, ForwardsAreTheTanhForm) {
  Value x = random_value(15, 1), bias = random_value(5, 2), y = output(15), biased = output(15);
  for (float& value : x.f) value *= 4;
  run_op(shape_of(OpKind::gelu, {3, 5}), {in(x), out(y)});
  run_op(shape_of(OpKind::bias_gelu, {3, 5}), {in(x), in(bias), out(biased)});
  for (std::size_t i = 0; i < 15; ++i) {
    // fp32 of values up to 4; the slope constant has eight digits.
    EXPECT_NEAR(y.f[i], gelu_in_double(x.f[i]), 2e-6);
    EXPECT_NEAR(biased.f[i], gelu_in_double(static_cast<double>(x.f[i]) + bias.f[i % 5]), 2e-6);
  }
}

TEST(Gelu, Gradients) {
  Value x = random_value(15, 1), bias = random_value(5, 2), weight = random_value(15, 3);
  for (float& value : x.f) value *= 3;
  const auto plain = [&] {
    Value y = output(15);
    run_op(shape_of(OpKind::gelu, {3, 5}), {in(x), out(y)});
    return weighted(y.f, weight.f);
  };
  const auto biased = [&] {
    Value y = output(15);
    run_op(shape_of(OpKind::bias_gelu, {3, 5}), {in(x), in(bias), out(y)});
    return weighted(y.f, weight.f);
  };
  Value dx = output(15);
  run_op(shape_of(OpKind::gelu_backward, {3, 5}), {in(weight), in(x), out(dx)});
  expect_gradient(x.f, dx.f, plain, "gelu x");
  run_op(shape_of(OpKind::bias_gelu_backward, {3, 5}), {in(weight), in(x), in(bias), out(dx)});
  expect_gradient(x.f, dx.f, biased, "bias_gelu x");
  Value dbias = floats(std::vector<float>(5, 1));
  run_op(shape_of(OpKind::bias_gradient, {3, 5}), {in(dx), inout(dbias)});
  for (float& value : dbias.f) value -= 1;
  expect_gradient(bias.f, dbias.f, biased, "bias_gelu bias");
}

TEST(Elementwise, BiasAddAddCastFill) {
  Value x = floats({1, 2, 3, 4, 5, 6}), bias = floats({10, 20, 30}), y = output(6);
  run_op(shape_of(OpKind::bias_add, {2, 3}), {in(x), in(bias), out(y)});
  EXPECT_EQ(y.f, (std::vector<float>{11, 22, 33, 14, 25, 36}));
  Value dbias = floats({1, 1, 1});
  run_op(shape_of(OpKind::bias_gradient, {2, 3}), {in(x), inout(dbias)});
  EXPECT_EQ(dbias.f, (std::vector<float>{6, 8, 10}));
  Value sum = output(6), same = output(6), sevens = output(4);
  run_op(shape_of(OpKind::add, {6}), {in(x), in(y), out(sum)});
  EXPECT_EQ(sum.f, (std::vector<float>{12, 24, 36, 18, 30, 42}));
  run_op(shape_of(OpKind::cast, {6}), {in(x), out(same)});
  EXPECT_EQ(same.f, x.f);
  run_op(shape_of(OpKind::fill, {4}, 7), {out(sevens)});
  EXPECT_EQ(sevens.f, (std::vector<float>{7, 7, 7, 7}));
}

TEST(Elementwise, PackAndUnpack) {
  Value a = floats({1, 2}), b = floats({3}), c = floats({4, 5, 6}), y = output(6);
  run_op(shape_of(OpKind::pack, {6}), {in(a), in(b), in(c), out(y)});
  EXPECT_EQ(y.f, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  Value first = output(4), second = output(2);
  run_op(shape_of(OpKind::unpack, {6}), {in(y), out(first), out(second)});
  EXPECT_EQ(first.f, (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(second.f, (std::vector<float>{5, 6}));
  EXPECT_THROW(run_op(shape_of(OpKind::unpack, {6}), {in(y), out(first)}), Error);
  EXPECT_THROW(run_op(shape_of(OpKind::pack, {6}), {in(a), in(b), out(y)}), Error);
}

TEST(Sums, AccumulateAddsAndPiecesAddInTheirOrder) {
  Value x = floats({1, 2, 3}), y = floats({10, 20, 30});
  run_op(shape_of(OpKind::accumulate, {3}), {in(x), inout(y)});
  EXPECT_EQ(y.f, (std::vector<float>{11, 22, 33}));
  // In fp32 (1e8 + 1) - 1e8 is 0 and (1e8 - 1e8) + 1 is 1.
  Value pieces = floats({1e8f, 1e8f, 1, -1e8f, -1e8f, 1}), sum = output(2);
  run_op(shape_of(OpKind::sum_pieces, {2, 3}), {in(pieces), out(sum)});
  EXPECT_EQ(sum.f, (std::vector<float>{0, 1}));
}

TEST(RmsNorm, IsTheFormulaAndKeepsTheInverseRoot) {
  Value x = random_value(2 * 3, 1), gamma = floats({2, -1, 0.5f}), y = output(6), stats = output(2);
  run_op(shape_of(OpKind::rmsnorm, {2, 3}, 1e-5f), {in(x), in(gamma), out(y), out(stats)});
  for (std::size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 3; ++i) squares += std::pow(x.f[row * 3 + i], 2.0);
    const double inverse = 1 / std::sqrt(squares / 3 + 1e-5);
    EXPECT_NEAR(stats.f[row], inverse, 1e-6 * inverse);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(y.f[row * 3 + i], x.f[row * 3 + i] * inverse * gamma.f[i], 1e-6);
  }
}

TEST(RmsNorm, Gradients) {
  const std::int64_t rows = 3, cols = 4;
  Value x = random_value(rows * cols, 1), gamma = random_value(cols, 2), weight = random_value(rows * cols, 3);
  Value stats = output(rows);
  const auto loss = [&] {
    Value y = output(rows * cols);
    run_op(shape_of(OpKind::rmsnorm, {rows, cols}, 1e-5f), {in(x), in(gamma), out(y), out(stats)});
    return weighted(y.f, weight.f);
  };
  loss();
  Value dx = output(rows * cols), dgamma = floats({1, 1, 1, 1});
  run_op(shape_of(OpKind::rmsnorm_backward, {rows, cols}, 1e-5f),
         {in(weight), in(x), in(gamma), in(stats), out(dx), inout(dgamma)});
  for (float& value : dgamma.f) value -= 1;
  expect_gradient(x.f, dx.f, loss, "x", 3e-4);  // 1/rms of four values: the fifth derivative is some hundreds
  expect_gradient(gamma.f, dgamma.f, loss, "gamma");
}

TEST(SwiGlu, ValuesAndGradient) {
  Value x = random_value(2 * 3 * 2, 1), weight = random_value(6, 2);
  for (float& value : x.f) value *= 3;
  const auto loss = [&] {
    Value y = output(6);
    run_op(shape_of(OpKind::swiglu, {2, 3}), {in(x), out(y)});
    for (std::size_t i = 0; i < 6; ++i) {
      const double gate = x.f[2 * i], expected = gate / (1 + std::exp(-gate)) * x.f[2 * i + 1];
      EXPECT_NEAR(y.f[i], expected, 1e-6 + 1e-6 * std::abs(expected));
    }
    return weighted(y.f, weight.f);
  };
  Value dx = output(12);
  run_op(shape_of(OpKind::swiglu_backward, {2, 3}), {in(weight), in(x), out(dx)});
  expect_gradient(x.f, dx.f, loss, "x");
}

TEST(Embedding, ShardsOfTheVocabularyAddUpToTheWhole) {
  Value ids = ints({4, 0, 2, 4, 5}), table = random_value(6 * 3, 1), whole = output(15);
  run_op(shape_of(OpKind::embedding, {5, 3, 6, 0}), {in(ids), in(table), out(whole)});
  for (std::size_t t = 0; t < 5; ++t) {
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(whole.f[t * 3 + i], table.f[static_cast<std::size_t>(ids.i[t]) * 3 + i]);
    }
  }
  // The shards lie inside the whole table, so that a row outside its shard would be found and counted twice.
  std::vector<float> sum(15);
  for (const std::int64_t first : {0, 3}) {
    Value y = output(15);
    const auto shard = std::span(table.f).subspan(static_cast<std::size_t>(first) * 3, 9);
    const std::vector<std::span<std::byte>> operands = {std::as_writable_bytes(std::span(ids.i)),
                                                        std::as_writable_bytes(shard),
                                                        std::as_writable_bytes(std::span(y.f))};
    cpu::Staging staging;
    cpu::run_kernel({shape_of(OpKind::embedding, {5, 3, 3, first}), operands, -1, staging});
    for (std::size_t i = 0; i < 15; ++i) sum[i] += y.f[i];
  }
  EXPECT_EQ(sum, whole.f);
}

TEST(Embedding, Gradient) {
  Value ids = ints({4, 0, 3, 4, 5}), shard = random_value(3 * 2, 1), weight = random_value(10, 2);
  const auto loss = [&] {
    Value y = output(10);
    run_op(shape_of(OpKind::embedding, {5, 2, 3, 3}), {in(ids), in(shard), out(y)});
    return weighted(y.f, weight.f);
  };
  Value dtable = floats(std::vector<float>(6, 5));
  run_op(shape_of(OpKind::embedding_backward, {5, 2, 3, 3}), {in(ids), in(weight), inout(dtable)});
  for (float& value : dtable.f) value -= 5;
  expect_gradient(shard.f, dtable.f, loss, "table rows 3 .. 5");
}

TEST(Position, OffsetAndGradient) {
  const std::int64_t s = 2, b = 3, h = 2, first = 1;  // a sequence shard: positions 1 and 2 of 4
  Value x = random_value(s * b * h, 1), table = random_value(4 * h, 2), y = output(s * b * h);
  Value weight = random_value(s * b * h, 3);
  const auto forward = [&] {
    run_op(shape_of(OpKind::position, {s, b, h, first}), {in(x), in(table), out(y)});
    return weighted(y.f, weight.f);
  };
  forward();
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(y.f[i], x.f[i] + table.f[(1 + i / 6) * 2 + i % 2]);
  Value dtable = floats(std::vector<float>(8, 1));
  run_op(shape_of(OpKind::position_backward, {s, b, h, first}), {in(weight), inout(dtable)});
  for (float& value : dtable.f) value -= 1;
  expect_gradient(table.f, dtable.f, forward, "table");
  Value short_table = random_value(2 * h, 2);
  EXPECT_THROW(run_op(shape_of(OpKind::position, {s, b, h, first}), {in(x), in(short_table), out(y)}), Error);
}

}  // namespace
}  // namespace benchsuite::testing_cpu
