#include "engine/core/exact_sum.h"
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

constexpr std::int64_t kTokens = 4, kVocabulary = 6;
constexpr float kLossScale = 0.25f, kGradientScale = 2.0f;

struct Loss {
  float loss = 0;
  std::vector<float> dlogits;  // [tokens, vocabulary]
};

/// The chain on `shards` thread ranks, each with its columns, and the three all-reduces between.
Loss cross_entropy(const std::vector<float>& logits, const std::vector<std::int32_t>& labels, int shards) {
  const std::int64_t cols = kVocabulary / shards;
  std::vector<int> members;
  for (int rank = 0; rank < shards; ++rank) members.push_back(rank);
  std::vector<TinyProgram> programs;
  std::vector<const Program*> pointers;
  Tensor x, labels_in, row_max, predicted, sum_exp, loss;
  for (int rank = 0; rank < shards; ++rank) programs.emplace_back(rank);
  for (TinyProgram& tiny : programs) {
    const std::int64_t first = tiny.program.rank * cols;
    x = tiny.tensor(kTokens * cols);
    labels_in = tiny.tensor(kTokens, DType::int32, Purpose::inputs);
    row_max = tiny.tensor(kTokens);
    predicted = tiny.tensor(kTokens);
    sum_exp = tiny.tensor(kTokens);
    loss = tiny.tensor(1);
    const std::uint32_t group = tiny.group(GroupKind::tensor, members);
    OpShape reduce = shape_of(OpKind::all_reduce, {kTokens});
    const auto all_reduce = [&](const Tensor& tensor, Reduction reduction, OpId after) {
      reduce.reduction = reduction;
      return tiny.op(reduce, {updates(tensor)}, {.stream = StreamKind::tensor, .waits = {after}, .group = group});
    };
    const OpId max = tiny.op(shape_of(OpKind::ce_max, {kTokens, cols}), {reads(x), writes(row_max)});
    const OpId reduced_max = all_reduce(row_max, Reduction::max, max);
    const OpId sum = tiny.op(shape_of(OpKind::ce_sum, {kTokens, cols, first}),
                             {updates(x), reads(row_max), reads(labels_in), writes(predicted), writes(sum_exp)},
                             {.waits = {reduced_max}});
    all_reduce(predicted, Reduction::sum, sum);
    const OpId reduced = all_reduce(sum_exp, Reduction::sum, sum);
    tiny.op(shape_of(OpKind::ce_loss, {kTokens, cols}, kLossScale),
            {updates(x), reads(predicted), reads(sum_exp), updates(loss)}, {.waits = {reduced}});
    tiny.op(shape_of(OpKind::ce_backward, {kTokens, cols, first}, kGradientScale), {updates(x), reads(labels_in)});
    pointers.push_back(&tiny.program);
  }
  HostWork host;
  host.before_step = [&](CpuRank& rank, int) {
    for (std::int64_t t = 0; t < kTokens; ++t) {
      std::copy_n(logits.begin() + t * kVocabulary + rank.rank() * cols, cols, rank.data(x) + t * cols);
    }
    std::copy(labels.begin(), labels.end(), rank.view<std::int32_t>(labels_in).begin());
    rank.data(loss)[0] = 0;
  };
  const auto ranks = run_ranks(pointers, host, 1);
  Loss result;
  result.loss = ranks[0]->data(loss)[0];
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (const auto& rank : ranks) {
      EXPECT_EQ(rank->data(loss)[0], result.loss);
      result.dlogits.insert(result.dlogits.end(), rank->data(x) + t * cols, rank->data(x) + (t + 1) * cols);
    }
  }
  return result;
}

TEST(CrossEntropy, IsTheFormula) {
  std::vector<float> logits = random_floats(kTokens * kVocabulary, 1);
  for (float& x : logits) x = 90 * x + 40;  // exp of it overflows fp32 unless the maximum is taken out
  const std::vector<std::int32_t> labels = {5, 0, 2, 3};
  double expected = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    double sum = 0;
    for (std::size_t i = 0; i < 6; ++i) sum += std::exp(static_cast<double>(logits[t * 6 + i]));
    expected += kLossScale * (std::log(sum) - logits[t * 6 + static_cast<std::size_t>(labels[t])]);
  }
  EXPECT_NEAR(cross_entropy(logits, labels, 1).loss, expected, 1e-6 * std::abs(expected));  // fp32 sums of four
}

TEST(CrossEntropy, ShardsOfTheVocabularyEqualTheWhole) {
  const std::vector<float> logits = random_floats(kTokens * kVocabulary, 1);
  const std::vector<std::int32_t> labels = {5, 0, 2, 3};
  const Loss whole = cross_entropy(logits, labels, 1);
  for (const int shards : {2, 3}) {
    const Loss sharded = cross_entropy(logits, labels, shards);
    // Only the six-term sum of exponentials is added in another order.
    EXPECT_NEAR(sharded.loss, whole.loss, 1e-6);
    expect_near(sharded.dlogits, whole.dlogits, 1e-6, "dlogits");
  }
}

TEST(CrossEntropy, GradientOfBothShards) {
  std::vector<float> logits = random_floats(kTokens * kVocabulary, 1);
  const std::vector<std::int32_t> labels = {5, 0, 2, 3};
  std::vector<float> gradient = cross_entropy(logits, labels, 2).dlogits;
  // The loss is scaled by kLossScale, its gradient by kGradientScale: the ops take them apart.
  for (float& value : gradient) value *= kLossScale / kGradientScale;
  expect_gradient(logits, gradient, [&] { return static_cast<double>(cross_entropy(logits, labels, 2).loss); },
                  "logits");
}

TEST(Optimizer, SumOfSquaresAccumulatesOverItsInputs) {
  Value a = floats({1, 2}), b = floats({-3}), digits = floats(std::vector<float>(kExactSumDigits, 0));
  run_op(shape_of(OpKind::sum_squares, {3}, 1.0f), {in(a), in(b), inout(digits)});
  EXPECT_EQ(ExactSum::value_of(digits.f), 14);
  run_op(shape_of(OpKind::sum_squares, {3}, 0.5f), {in(a), in(b), inout(digits)});
  EXPECT_EQ(ExactSum::value_of(digits.f), 21) << "weighted by the scalar";
}

TEST(Optimizer, ClipCoefficient) {
  Value digits = floats(std::vector<float>(kExactSumDigits, 0)), result = output(2);
  ExactSum sum;
  sum.add(25);
  sum.add_to(digits.f);
  run_op(shape_of(OpKind::clip_coefficient, {}, 1.0f), {in(digits), out(result)});
  EXPECT_EQ(result.f[0], 5);
  EXPECT_FLOAT_EQ(result.f[1], 1.0f / (5.0f + 1e-6f));
  run_op(shape_of(OpKind::clip_coefficient, {}, 10.0f), {in(digits), out(result)});
  EXPECT_EQ(result.f[1], 1) << "a small norm is left alone";
  run_op(shape_of(OpKind::clip_coefficient, {}, 0.0f), {in(digits), out(result)});
  EXPECT_EQ(result.f[1], 1) << "no clipping";
  digits.f[0] = std::numeric_limits<float>::quiet_NaN();
  run_op(shape_of(OpKind::clip_coefficient, {}, 1.0f), {in(digits), out(result)});
  EXPECT_TRUE(std::isnan(result.f[1])) << "a broken gradient must show";
}

TEST(Optimizer, AdamwOverThreeStepsAgainstTheFormula) {
  const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1, clip = 0.5;
  const std::int64_t n = 5;
  Value master = random_value(n, 1), m = floats(std::vector<float>(5, 0)), v = m, parameters = output(n);
  std::vector<double> w(master.f.begin(), master.f.end()), first(5), second(5);
  for (int step = 1; step <= 3; ++step) {
    Value gradient = random_value(n, static_cast<std::uint32_t>(10 + step));
    Value scalars = floats({static_cast<float>(lr), static_cast<float>(beta1), static_cast<float>(beta2),
                            static_cast<float>(eps), static_cast<float>(step)});
    Value coefficient = floats({99, static_cast<float>(clip)});
    run_op(shape_of(OpKind::adamw, {n}, static_cast<float>(decay)),
           {in(gradient), in(scalars), in(coefficient), inout(master), inout(m), inout(v), out(parameters)});
    for (std::size_t i = 0; i < 5; ++i) {
      const double g = clip * gradient.f[i];
      first[i] = beta1 * first[i] + (1 - beta1) * g;
      second[i] = beta2 * second[i] + (1 - beta2) * g * g;
      const double m_hat = first[i] / (1 - std::pow(beta1, step)), v_hat = second[i] / (1 - std::pow(beta2, step));
      w[i] -= lr * (m_hat / (std::sqrt(v_hat) + eps) + decay * w[i]);
      // 1 - beta in fp32 is off by 6e-8 / 0.05 = 1e-6, in an update of 0.01 beside a weight below 1 in fp32.
      EXPECT_NEAR(master.f[i], w[i], 3e-7 * step) << "step " << step;
      EXPECT_NEAR(m.f[i], first[i], 1e-6);
      EXPECT_NEAR(v.f[i], second[i], 1e-6);
    }
    EXPECT_EQ(parameters.f, master.f);
  }
  Value gradient = random_value(n, 1), scalars = floats({0.1f, 0.9f, 0.95f, 1e-8f, 4}), one = floats({0, 1});
  const std::vector<float> before = master.f;
  run_op(shape_of(OpKind::adamw, {n}), {in(gradient), in(scalars), in(one), inout(master), inout(m), inout(v)});
  EXPECT_NE(master.f, before) << "parameters that are their own master";
}

}  // namespace
}  // namespace benchsuite::testing_cpu
