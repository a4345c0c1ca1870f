#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

struct Sizes {
  std::int64_t s, b, a, d;
  std::int64_t g = 0;  // key-value heads, 0: as many as heads
  std::int64_t groups() const { return g == 0 ? a : g; }
  std::int64_t served() const { return a / groups(); }
  std::int64_t qkv() const { return s * b * groups() * (served() + 2) * d; }
  std::int64_t context() const { return s * b * a * d; }
  std::int64_t scores() const { return b * a * s * s; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(d)); }
};

const Sizes kSmall{3, 2, 2, 5};
const Sizes kGrouped{3, 2, 4, 5, 2};
const Sizes kSingle{3, 2, 4, 5, 1};  // one key-value head for all

OpShape attention(OpKind kind, const Sizes& n) { return shape_of(kind, {n.s, n.b, n.a, n.d, n.g}, n.scale()); }

OpShape flash(OpKind kind, const Sizes& n, bool causal, float p, std::int64_t first_head = 0) {
  OpShape shape = shape_of(kind, {n.s, n.b, n.a, n.d, n.g, first_head}, n.scale(), p);
  shape.causal = causal;
  return shape;
}

OpShape softmax(OpKind kind, const Sizes& n, bool causal) {
  OpShape shape = shape_of(kind, {n.b * n.a * n.s, n.s});
  shape.causal = causal;
  return shape;
}

OpShape probability_dropout(OpKind kind, const Sizes& n, float p, std::int64_t first_head = 0) {
  return shape_of(kind, {n.s, n.b, n.a, 0, first_head, kAttentionDropout}, p);
}

/// Element of the packed qkv: part 0 q, 1 k, 2 v.
float at(const Sizes& n, const Value& qkv, std::int64_t s, std::int64_t b, std::int64_t a, int part, std::int64_t d) {
  const std::int64_t width = n.served() + 2, group = (s * n.b + b) * n.groups() + a / n.served();
  const std::int64_t row = part == 0 ? a % n.served() : n.served() + part - 1;
  return qkv.f[static_cast<std::size_t>((group * width + row) * n.d + d)];
}

/// The elements of one part where `part` is, else `other`.
std::vector<float> only_part(const Sizes& n, const std::vector<float>& qkv, std::int64_t part, float other) {
  std::vector<float> result = qkv;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / n.d % (n.served() + 2);
    if (std::max<std::int64_t>(row - n.served() + 1, 0) != part) result[i] = other;
  }
  return result;
}

Value samples_of(std::int64_t b) {  // sample indices 100, 107, ...; step 3, seed 11
  std::vector<std::int32_t> values;
  for (std::int64_t i = 0; i < b; ++i) values.push_back(static_cast<std::int32_t>(100 + 7 * i));
  values.insert(values.end(), {3, 11});
  return ints(values);
}

TEST(Attention, ScoresAndContextAreTheirDefinition) {
  for (const Sizes& n : {kSmall, kGrouped, kSingle}) {
    Value qkv = random_value(n.qkv(), 1), scores = output(n.scores()), context = output(n.context());
    run_op(attention(OpKind::attention_scores, n), {in(qkv), out(scores)});
    Value p = random_value(n.scores(), 2);
    run_op(attention(OpKind::attention_context, n), {in(p), in(qkv), out(context)});
    std::vector<float> expected_scores, expected_context(static_cast<std::size_t>(n.context()));
    for (std::int64_t b = 0; b < n.b; ++b) {
      for (std::int64_t a = 0; a < n.a; ++a) {
        for (std::int64_t q = 0; q < n.s; ++q) {
          for (std::int64_t k = 0; k < n.s; ++k) {
            double dot = 0;
            for (std::int64_t d = 0; d < n.d; ++d) {
              dot += static_cast<double>(at(n, qkv, q, b, a, 0, d)) * at(n, qkv, k, b, a, 1, d);
              expected_context[static_cast<std::size_t>(((q * n.b + b) * n.a + a) * n.d + d)] +=
                  p.f[static_cast<std::size_t>(((b * n.a + a) * n.s + q) * n.s + k)] * at(n, qkv, k, b, a, 2, d);
            }
            expected_scores.push_back(static_cast<float>(n.scale() * dot));
          }
        }
      }
    }
    expect_near(scores.f, expected_scores, 1e-6, "scores");     // five products below 1 in fp32
    expect_near(context.f, expected_context, 1e-6, "context");  // three
  }
}

TEST(Attention, ScoreGradientsTouchOnlyTheirPart) {
  for (const Sizes& n : {kSmall, kGrouped, kSingle}) {
    Value qkv = random_value(n.qkv(), 1), weight = random_value(n.scores(), 2);
    const auto loss = [&] {
      Value scores = output(n.scores());
      run_op(attention(OpKind::attention_scores, n), {in(qkv), out(scores)});
      return weighted(scores.f, weight.f);
    };
    Value dqkv = floats(std::vector<float>(static_cast<std::size_t>(n.qkv()), 7));
    run_op(attention(OpKind::attention_scores_backward_q, n), {in(weight), in(qkv), inout(dqkv)});
    EXPECT_EQ(only_part(n, dqkv.f, 0, 7), dqkv.f);
    run_op(attention(OpKind::attention_scores_backward_k, n), {in(weight), in(qkv), inout(dqkv)});
    EXPECT_EQ(only_part(n, dqkv.f, 2, 7), std::vector<float>(dqkv.f.size(), 7)) << "V is not theirs";
    for (float& value : dqkv.f) value = value == 7 ? 0 : value;
    expect_gradient(qkv.f, dqkv.f, loss, "qkv");
  }
}

TEST(Attention, ContextGradients) {
  for (const Sizes& n : {kSmall, kGrouped, kSingle}) {
    Value qkv = random_value(n.qkv(), 1), p = random_value(n.scores(), 2), weight = random_value(n.context(), 3);
    const auto loss = [&] {
      Value context = output(n.context());
      run_op(attention(OpKind::attention_context, n), {in(p), in(qkv), out(context)});
      return weighted(context.f, weight.f);
    };
    Value dp = output(n.scores()), dqkv = floats(std::vector<float>(static_cast<std::size_t>(n.qkv()), 7));
    run_op(attention(OpKind::attention_context_backward_p, n), {in(weight), in(qkv), out(dp)});
    run_op(attention(OpKind::attention_context_backward_v, n), {in(p), in(weight), inout(dqkv)});
    expect_gradient(p.f, dp.f, loss, "p");
    EXPECT_EQ(only_part(n, dqkv.f, 2, 7), dqkv.f);
    expect_gradient(qkv.f, only_part(n, dqkv.f, 2, 0), loss, "v");
  }
}

struct Result {
  Value context, dqkv;
};

Result unfused(const Sizes& n, Value& qkv, Value& dcontext, bool causal, float p, std::int64_t first_head = 0) {
  Value samples = samples_of(n.b);
  Value scores = output(n.scores()), probabilities = output(n.scores()), dropped = output(n.scores());
  Result result{output(n.context()), output(n.qkv())};
  run_op(attention(OpKind::attention_scores, n), {in(qkv), out(scores)});
  run_op(softmax(OpKind::softmax, n, causal), {in(scores), out(probabilities)});
  run_op(probability_dropout(OpKind::dropout, n, p, first_head), {in(probabilities), in(samples), out(dropped)}, 4);
  run_op(attention(OpKind::attention_context, n), {in(dropped), in(qkv), out(result.context)});
  Value ddropped = output(n.scores()), dprobabilities = output(n.scores()), dscores = output(n.scores());
  run_op(attention(OpKind::attention_context_backward_v, n), {in(dropped), in(dcontext), inout(result.dqkv)});
  run_op(attention(OpKind::attention_context_backward_p, n), {in(dcontext), in(qkv), out(ddropped)});
  run_op(probability_dropout(OpKind::dropout_backward, n, p, first_head),
         {in(ddropped), in(samples), out(dprobabilities)}, 4);
  run_op(softmax(OpKind::softmax_backward, n, causal), {in(dprobabilities), in(probabilities), out(dscores)});
  run_op(attention(OpKind::attention_scores_backward_q, n), {in(dscores), in(qkv), inout(result.dqkv)});
  run_op(attention(OpKind::attention_scores_backward_k, n), {in(dscores), in(qkv), inout(result.dqkv)});
  return result;
}

Result fused(const Sizes& n, Value& qkv, Value& dcontext, bool causal, float p, std::int64_t first_head = 0) {
  Value samples = samples_of(n.b), lse = output(n.b * n.a * n.s);
  Result result{output(n.context()), output(n.qkv())};
  run_op(flash(OpKind::flash_attention, n, causal, p, first_head),
         {in(qkv), in(samples), out(result.context), out(lse)}, 4);
  run_op(flash(OpKind::flash_attention_backward, n, causal, p, first_head),
         {in(dcontext), in(result.context), in(qkv), in(lse), in(samples), out(result.dqkv)}, 4);
  return result;
}

TEST(FlashAttention, EqualsUnfusedAcrossTiles) {
  for (const std::int64_t s : {3, 64, 131}) {  // less than a tile, exactly one, two and a bit
    for (const bool causal : {false, true}) {
      for (const float p : {0.0f, 0.3f}) {
        for (const std::int64_t g : {2, 1}) {
          const Sizes n{s, 2, 2, 5, g};
          Value qkv = random_value(n.qkv(), 1), dcontext = random_value(n.context(), 2);
          for (float& x : qkv.f) x *= 3;  // scores of several units: the running maximum moves
          const Result expected = unfused(n, qkv, dcontext, causal, p, 6);
          const Result actual = fused(n, qkv, dcontext, causal, p, 6);
          // Up to 131 terms of size 3 added in another order: 131 x 3 x 6e-8 = 2.4e-5.
          expect_near(actual.context.f, expected.context.f, 3e-5, "context");
          expect_near(actual.dqkv.f, expected.dqkv.f, 3e-5, "dqkv");
        }
      }
    }
  }
}

TEST(FlashAttention, GradientAgainstFiniteDifferences) {
  for (const Sizes& n : {Sizes{4, 2, 2, 3}, Sizes{4, 2, 4, 3, 2}}) {
    const float p = n.g == 0 ? 0.4f : 0.0f;
    Value qkv = random_value(n.qkv(), 1), weight = random_value(n.context(), 2);
    const auto loss = [&] { return weighted(fused(n, qkv, weight, true, p).context.f, weight.f); };
    const Result result = fused(n, qkv, weight, true, p);
    expect_gradient(qkv.f, result.dqkv.f, loss, "qkv");
  }
}

TEST(FlashAttention, HeadShardsSeeTheWholeMask) {
  const Sizes whole{5, 2, 4, 3}, half{5, 2, 2, 3};
  Value qkv = random_value(whole.qkv(), 1), dcontext = random_value(whole.context(), 2);
  const Result all = fused(whole, qkv, dcontext, true, 0.5f);
  for (const std::int64_t first : {0, 2}) {
    const auto shard = [&](const std::vector<float>& values, std::int64_t per_head) {
      std::vector<float> part;
      for (std::int64_t row = 0; row < whole.s * whole.b; ++row) {
        const auto begin = values.begin() + (row * 4 + first) * per_head;
        part.insert(part.end(), begin, begin + 2 * per_head);
      }
      return part;
    };
    Value shard_qkv = floats(shard(qkv.f, 9)), shard_dcontext = floats(shard(dcontext.f, 3));
    const Result part = fused(half, shard_qkv, shard_dcontext, true, 0.5f, first);
    EXPECT_EQ(part.context.f, shard(all.context.f, 3));
    EXPECT_EQ(part.dqkv.f, shard(all.dqkv.f, 9));
  }
}

OpShape rotation(OpKind kind, const Sizes& n, std::int64_t first_position) {
  return shape_of(kind, {n.s, n.b, n.a, n.d, n.g, first_position}, 100.0f);
}

TEST(Rope, TurnsPairsOfQueriesAndKeysByTheirPosition) {
  const Sizes n{3, 2, 4, 6, 2};
  Value before = random_value(n.qkv(), 1), after = before;
  run_op(rotation(OpKind::rope, n, 5), {inout(after)});
  for (std::int64_t s = 0; s < n.s; ++s) {
    for (std::int64_t b = 0; b < n.b; ++b) {
      for (std::int64_t a = 0; a < n.a; ++a) {
        for (std::int64_t i = 0; i < 3; ++i) {
          const double angle = static_cast<double>(5 + s) * std::pow(100.0, -2.0 * static_cast<double>(i) / 6);
          for (const int part : {0, 1}) {
            const double x = at(n, before, s, b, a, part, i), y = at(n, before, s, b, a, part, i + 3);
            // Two products below 1 in fp32.
            EXPECT_NEAR(at(n, after, s, b, a, part, i), x * std::cos(angle) - y * std::sin(angle), 3e-7);
            EXPECT_NEAR(at(n, after, s, b, a, part, i + 3), y * std::cos(angle) + x * std::sin(angle), 3e-7);
          }
        }
      }
    }
  }
  EXPECT_EQ(only_part(n, after.f, 2, 0), only_part(n, before.f, 2, 0)) << "values are not turned";
}

TEST(Rope, ScoresDependOnDistanceAlone) {
  // The same query and key at every position; a score between positions i and j then depends on i - j.
  const Sizes n{4, 1, 1, 6};
  const std::vector<float> one = random_floats(18, 1);
  Value qkv = floats({}), scores = output(16);
  for (std::int64_t s = 0; s < n.s; ++s) qkv.f.insert(qkv.f.end(), one.begin(), one.end());
  run_op(rotation(OpKind::rope, n, 2), {inout(qkv)});
  run_op(attention(OpKind::attention_scores, n), {in(qkv), out(scores)});
  for (std::size_t i = 1; i < 4; ++i) {
    for (std::size_t j = 1; j < 4; ++j) EXPECT_NEAR(scores.f[i * 4 + j], scores.f[(i - 1) * 4 + j - 1], 1e-6);
  }
  EXPECT_GT(std::abs(scores.f[4] - scores.f[0]), 1e-3) << "nothing was turned";
}

TEST(Rope, Gradient) {
  const Sizes n{3, 2, 4, 4, 2};
  Value qkv = random_value(n.qkv(), 1), weight = random_value(n.qkv(), 2);
  const auto loss = [&] {
    Value turned = qkv;
    run_op(rotation(OpKind::rope, n, 3), {inout(turned)});
    return weighted(turned.f, weight.f);
  };
  Value gradient = weight;
  run_op(rotation(OpKind::rope_backward, n, 3), {inout(gradient)});
  expect_gradient(qkv.f, gradient.f, loss, "qkv");
}

}  // namespace
}  // namespace benchsuite::testing_cpu
