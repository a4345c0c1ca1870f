// Dropout: masks against the counter's definition in engine/device/op_table.h, written once more here; and against
// device cpu.
#include "engine/core/rng.h"
#include "engine/device/cpu/dropout_mask.h"
#include "engine/device/op_table.h"
#include "tests/engine/device/cuda/kernels/kernel_case.h"

namespace benchsuite::testing_cuda {
namespace {

struct Geometry {
  std::int64_t s, b, cols;
  std::int64_t first_position = 0, first_channel = 0, site = kMlpOutputDropout;
  std::int32_t layer = 3;
};

/// Of the element (s, b, c), or (b, a, q, k) of attention: the Philox counter by its definition.
bool keeps(const Geometry& g, const std::vector<std::int32_t>& samples, std::int64_t sample, std::int64_t position,
           std::int64_t channel, float p) {
  const auto at = [&](std::int64_t i) { return static_cast<std::uint32_t>(samples[static_cast<std::size_t>(i)]); };
  const std::uint64_t key = std::uint64_t{at(g.b)} << 32 | at(g.b + 1);
  const PhiloxCounter counter{static_cast<std::uint32_t>(channel / 4), static_cast<std::uint32_t>(position), at(sample),
                              static_cast<std::uint32_t>((g.layer + 1) * 256 + g.site)};
  return uniform_from(philox(key, counter)[static_cast<std::size_t>(channel % 4)]) >= p;
}

std::vector<bool> mask_of(const Geometry& g, const std::vector<std::int32_t>& samples, float p) {
  std::vector<bool> mask;
  if (g.site == kAttentionDropout) {
    for (std::int64_t sample = 0; sample < g.b; ++sample) {
      for (std::int64_t head = 0; head < g.cols; ++head) {
        for (std::int64_t q = 0; q < g.s; ++q) {
          for (std::int64_t k = 0; k < g.s; ++k)
            mask.push_back(keeps(g, samples, sample, q, (g.first_channel + head) * g.s + k, p));
        }
      }
    }
    return mask;
  }
  for (std::int64_t position = 0; position < g.s; ++position) {
    for (std::int64_t sample = 0; sample < g.b; ++sample) {
      for (std::int64_t c = 0; c < g.cols; ++c) {
        mask.push_back(keeps(g, samples, sample, g.first_position + position, g.first_channel + c, p));
      }
    }
  }
  return mask;
}

// Rows that are whole packs and rows that are not; ranks whose channels begin inside a Philox draw; attention of odd
// length.
const Geometry kGeometries[] = {
    {.s = 3, .b = 2, .cols = 40, .first_position = 5},
    {.s = 2, .b = 3, .cols = 13, .first_channel = 26, .site = kEmbeddingDropout, .layer = -1},
    {.s = 1, .b = 1, .cols = 1, .first_channel = 3},
    {.s = 4, .b = 2, .cols = 16, .first_channel = 17},
    {.s = 2, .b = 1, .cols = 520, .first_channel = 7 * 520, .site = kAttentionOutputDropout},
    {.s = 8, .b = 2, .cols = 3, .first_channel = 6, .site = kAttentionDropout},
    {.s = 7, .b = 2, .cols = 2, .first_channel = 2, .site = kAttentionDropout}};

class Dropout : public ::testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  OpShape shape(OpKind kind, const Geometry& g, float p, bool stores_mask) const {
    OpShape out = shape_of(kind, {g.s, g.b, g.cols, g.first_position, g.first_channel, g.site}, type(), {p});
    out.stores_mask = stores_mask;
    return out;
  }
  std::int64_t elements(const Geometry& g) const {
    return g.s * g.b * g.cols * (g.site == kAttentionDropout ? g.s : 1);
  }
  std::vector<std::int32_t> samples(const Geometry& g) { return numbers_.integers(g.b + 2, -5, 1 << 30); }

  Numbers numbers_;
};
INSTANTIATE_TEST_SUITE_P(Types, Dropout, ::testing::Values(DType::fp32, DType::bf16),
                         [](const auto& instance) { return std::string(name_of(instance.param)); });

Expected mask_bytes(const std::vector<bool>& mask) {
  return {.type = DType::uint8, .values = {mask.begin(), mask.end()}};
}

TEST_P(Dropout, KeepsWhatTheCounterSaysAndScalesIt) {
  for (const Geometry& g : kGeometries) {
    for (const float p : {0.0f, 0.3f}) {
      const auto x = numbers_.normal(elements(g), type());
      const auto drawn = samples(g);
      const std::vector<bool> mask = mask_of(g, drawn, p);
      const double scale = 1.0f / (1.0f - p);
      Expected y{.type = type(), .values = x};
      for (std::size_t i = 0; i < x.size(); ++i) y.values[i] = mask[i] ? x[i] * scale : 0;
      Case(shape(OpKind::dropout, g, p, false), g.layer)
          .reads(type(), x)
          .reads(drawn)
          .writes(y)
          .may_alias(2, 0)
          .check();
      Case(shape(OpKind::dropout, g, p, true), g.layer)
          .reads(type(), x)
          .reads(drawn)
          .writes(y)
          .writes(mask_bytes(mask))
          .check();
    }
  }
}

TEST_P(Dropout, BackwardUsesTheSameMaskStoredOrMadeAgain) {
  for (const Geometry& g : kGeometries) {
    const float p = 0.4f;
    const auto dy = numbers_.normal(elements(g), type());
    const auto drawn = samples(g);
    const std::vector<bool> mask = mask_of(g, drawn, p);
    const double scale = 1.0f / (1.0f - p);
    Expected dx{.type = type(), .values = dy};
    for (std::size_t i = 0; i < dy.size(); ++i) dx.values[i] = mask[i] ? dy[i] * scale : 0;
    Case(shape(OpKind::dropout_backward, g, p, false), g.layer)
        .reads(type(), dy)
        .reads(drawn)
        .writes(dx)
        .may_alias(2, 0)
        .check();
    Case(shape(OpKind::dropout_backward, g, p, true), g.layer)
        .reads(type(), dy)
        .reads(DType::uint8, mask_bytes(mask).values)
        .writes(dx)
        .may_alias(2, 0)
        .check();
  }
}

TEST_P(Dropout, BiasDropoutAdd) {
  for (const Geometry& g : kGeometries) {
    if (g.site == kAttentionDropout) continue;
    for (const float p : {0.0f, 0.2f}) {
      const auto x = numbers_.normal(elements(g), type()), residual = numbers_.normal(elements(g), type());
      const auto bias = numbers_.normal(g.cols, type());
      const auto drawn = samples(g);
      const std::vector<bool> mask = mask_of(g, drawn, p);
      const double scale = 1.0f / (1.0f - p);
      // Three roundings: of the biased value, of the scaled one, of the sum.
      Expected y{.type = type(), .values = x, .ulps = 3, .magnitudes = x};
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double branch = mask[i] ? (x[i] + bias[i % bias.size()]) * scale : 0;
        y.values[i] = residual[i] + branch;
        y.magnitudes[i] = std::abs(residual[i]) + std::abs(branch);
      }
      const auto given = [&](bool stores) {
        Case out(shape(OpKind::bias_dropout_add, g, p, stores), g.layer);
        out.reads(type(), x).reads(type(), bias).reads(type(), residual).reads(drawn).writes(y);
        return out;
      };
      given(false).may_alias(4, 2).check();
      given(true).writes(mask_bytes(mask)).check();
    }
  }
}

TEST_P(Dropout, ADroppedElementIsZeroWhateverItWas) {
  const Geometry g{.s = 1, .b = 1, .cols = 64};
  const auto drawn = samples(g);
  const std::vector<bool> mask = mask_of(g, drawn, 0.5f);
  std::vector<double> x(64, std::numeric_limits<double>::infinity());
  Expected y{.type = type(), .values = x};
  for (std::size_t i = 0; i < 64; ++i) y.values[i] = mask[i] ? x[i] : 0;
  Case(shape(OpKind::dropout, g, 0.5f, false), g.layer).reads(type(), x).reads(drawn).writes(y).check();
}

TEST(DropoutMask, IsThatOfDeviceCpuBitForBit) {
  const Geometry g{.s = 5, .b = 2, .cols = 37, .first_position = 11, .first_channel = 1111};
  Numbers numbers;
  const auto samples = numbers.integers(g.b + 2, 0, 1 << 30);
  const float p = 0.25f;
  OpShape shape =
      shape_of(OpKind::dropout, {g.s, g.b, g.cols, g.first_position, g.first_channel, g.site}, DType::fp32, {p});
  const cpu::DropoutMask mask(samples.data(), g.b, g.layer, g.site, p);
  Expected y{.type = DType::fp32};
  for (std::int64_t position = 0; position < g.s; ++position) {
    for (std::int64_t sample = 0; sample < g.b; ++sample) {
      std::vector<float> factors(static_cast<std::size_t>(g.cols));
      mask.factors(sample, g.first_position + position, g.first_channel, g.cols, factors.data());
      y.values.insert(y.values.end(), factors.begin(), factors.end());
    }
  }
  Case(shape, g.layer).reads(DType::fp32, std::vector<double>(y.values.size(), 1)).reads(samples).writes(y).check();
}

TEST(DropoutMask, ProbabilitiesAreBelowOne) {
  const OpShape shape = shape_of(OpKind::dropout, {1, 1, 8, 0, 0, kMlpOutputDropout}, DType::fp32, {1.0f});
  const std::vector<double> x(8, 1);
  EXPECT_THROW(Case(shape).reads(DType::fp32, x).reads({0, 0, 0}).writes({.values = x}).check(), Error);
}

}  // namespace
}  // namespace benchsuite::testing_cuda
