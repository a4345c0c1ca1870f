// Attention through cuDNN's fused kernels: both passes against float64 over shapes that do not divide evenly, what they
// leave to the unfused path, and that a result depends on nothing but its inputs.
#include "engine/device/cuda/fused_attention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <random>

#include "engine/core/bf16.h"
#include "engine/device/cuda/handles.h"
#include "tests/cuda_emulator/emulator.h"

namespace benchsuite::cuda {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Values = std::vector<double>;

struct Shape {
  std::int64_t s, b, a, d, u;
  bool causal = false;
  std::int64_t served() const { return a / u; }
  std::size_t qkv() const { return static_cast<std::size_t>(s * b * u * (served() + 2) * d); }
  std::size_t context() const { return static_cast<std::size_t>(s * b * a * d); }
  std::size_t rows() const { return static_cast<std::size_t>(b * a * s); }
  /// Of channel c at a position, in packed qkv; `part` counts the head's group's queries, its key and its value.
  std::size_t at(std::int64_t position, std::int64_t sample, std::int64_t group, std::int64_t part,
                 std::int64_t c) const {
    return static_cast<std::size_t>((((position * b + sample) * u + group) * (served() + 2) + part) * d + c);
  }
  std::size_t context_at(std::int64_t position, std::int64_t sample, std::int64_t head, std::int64_t c) const {
    return static_cast<std::size_t>(((position * b + sample) * a + head) * d + c);
  }
  std::size_t row(std::int64_t position, std::int64_t sample, std::int64_t head) const {
    return static_cast<std::size_t>((sample * a + head) * s + position);
  }
};
void PrintTo(const Shape& x, std::ostream* out) {
  *out << "s " << x.s << " b " << x.b << " a " << x.a << " d " << x.d << " u " << x.u << (x.causal ? " causal" : "");
}

OpShape op_of(const Shape& x, OpKind kind, DType type = DType::bf16) {
  OpShape op{.kind = kind, .dtype = type, .out_dtype = type, .causal = x.causal};
  op.dims = {x.s, x.b, x.a, x.d, x.u, 0};
  op.scalars = {0.3f, 0};
  return op;
}

/// A result and how far off it may be.
struct Bounded {
  Values values, errors;
  explicit Bounded(std::size_t count) : values(count), errors(count) {}
};

struct Reference {
  Bounded context, dqkv;
  Values lse;
};

constexpr double kUlp = 0x1p-8;  // half a unit of the last place of bf16, relative

/// Both passes in float64. Where the graph rounds to bf16 (probabilities and the gradient of scores before they are
/// multiplied, gradients of heads that share a key before they are added, results) each rounding adds to the bound.
Reference reference_of(const Shape& x, const Values& qkv, const Values& dcontext, float scale) {
  Reference out{Bounded(x.context()), Bounded(x.qkv()), Values(x.rows())};
  const auto n = static_cast<std::size_t>(x.s);
  Bounded& gradient = out.dqkv;
  for (std::int64_t sample = 0; sample < x.b; ++sample) {
    for (std::int64_t head = 0; head < x.a; ++head) {
      const std::int64_t group = head / x.served(), q = head % x.served(), k = x.served(), v = k + 1;
      Bounded dk(n * static_cast<std::size_t>(x.d)), dv = dk;
      for (std::int64_t i = 0; i < x.s; ++i) {
        const std::int64_t seen = x.causal ? i + 1 : x.s;
        Values p(n), dp(n);
        double largest = -INFINITY, sum = 0, row_sum = 0, row_sum_size = 0;
        for (std::int64_t j = 0; j < seen; ++j) {
          for (std::int64_t c = 0; c < x.d; ++c) {
            p[static_cast<std::size_t>(j)] +=
                scale * qkv[x.at(i, sample, group, q, c)] * qkv[x.at(j, sample, group, k, c)];
            dp[static_cast<std::size_t>(j)] +=
                dcontext[x.context_at(i, sample, head, c)] * qkv[x.at(j, sample, group, v, c)];
          }
          largest = std::max(largest, p[static_cast<std::size_t>(j)]);
        }
        for (std::int64_t j = 0; j < seen; ++j)
          sum += p[static_cast<std::size_t>(j)] = std::exp(p[static_cast<std::size_t>(j)] - largest);
        out.lse[x.row(i, sample, head)] = largest + std::log(sum);
        for (std::int64_t c = 0; c < x.d; ++c) {
          double value = 0, size = 0;
          for (std::int64_t j = 0; j < seen; ++j) {
            const double term = p[static_cast<std::size_t>(j)] / sum * qkv[x.at(j, sample, group, v, c)];
            value += term, size += std::fabs(term);
          }
          const std::size_t at = x.context_at(i, sample, head, c);
          out.context.values[at] = value;
          out.context.errors[at] = kUlp * (size + std::fabs(value));
          row_sum += dcontext[at] * value;
          row_sum_size += std::fabs(dcontext[at] * value);
        }
        for (std::int64_t j = 0; j < seen; ++j) {
          const auto key = static_cast<std::size_t>(j);
          const double probability = p[key] / sum, ds = probability * (dp[key] - row_sum) * scale;
          // The row sum is made of the context in bf16.
          const double ds_error = kUlp * (std::fabs(ds) + probability * row_sum_size * scale);
          for (std::int64_t c = 0; c < x.d; ++c) {
            const std::size_t at = key * static_cast<std::size_t>(x.d) + static_cast<std::size_t>(c),
                              to_q = x.at(i, sample, group, q, c);
            const double key_value = qkv[x.at(j, sample, group, k, c)], query = qkv[to_q];
            const double dctx = dcontext[x.context_at(i, sample, head, c)];
            gradient.values[to_q] += ds * key_value, gradient.errors[to_q] += ds_error * std::fabs(key_value);
            dk.values[at] += ds * query, dk.errors[at] += ds_error * std::fabs(query);
            dv.values[at] += probability * dctx, dv.errors[at] += kUlp * std::fabs(probability * dctx);
          }
        }
      }
      for (std::int64_t j = 0; j < x.s; ++j) {
        for (std::int64_t c = 0; c < x.d; ++c) {
          const auto at = static_cast<std::size_t>(j * x.d + c);
          for (const auto& [part, of] : {std::pair{k, &dk}, {v, &dv}}) {
            const std::size_t to = x.at(j, sample, group, part, c);
            gradient.values[to] += of->values[at];
            gradient.errors[to] += of->errors[at] + (x.served() > 1 ? kUlp * std::fabs(of->values[at]) : 0);
          }
        }
      }
    }
  }
  for (std::size_t i = 0; i < gradient.values.size(); ++i) gradient.errors[i] += kUlp * std::fabs(gradient.values[i]);
  return out;
}

/// Device memory with values of a type; without values, of the fill of fresh memory.
class Array {
 public:
  Array(DType type, std::size_t count, const Values& values = {})
      : type_(type), bytes_(count * static_cast<std::size_t>(size_of(type))) {
    memory_ = make_device_memory(bytes_.size());
    if (values.empty()) return;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(values[i]);
      const Bf16 narrow = round_to_bf16(value);
      std::memcpy(bytes_.data() + i * static_cast<std::size_t>(size_of(type)),
                  type == DType::bf16 ? static_cast<const void*>(&narrow) : &value,
                  static_cast<std::size_t>(size_of(type)));
    }
    CUDA_CHECK(cudaMemcpy(memory_.get(), bytes_.data(), bytes_.size(), cudaMemcpyHostToDevice));
  }
  std::span<std::byte> span() const { return {static_cast<std::byte*>(memory_.get()), bytes_.size()}; }
  Values fetch() {
    CUDA_CHECK(cudaMemcpy(bytes_.data(), memory_.get(), bytes_.size(), cudaMemcpyDeviceToHost));
    Values out(bytes_.size() / static_cast<std::size_t>(size_of(type_)));
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = type_ == DType::bf16 ? widen(reinterpret_cast<const Bf16*>(bytes_.data())[i])
                                    : reinterpret_cast<const float*>(bytes_.data())[i];
    }
    return out;
  }

 private:
  DType type_;
  std::vector<std::byte> bytes_;
  DeviceMemory memory_;
};

struct Inputs {
  explicit Inputs(const Shape& x, unsigned seed = std::random_device{}()) : qkv(x.qkv()), dcontext(x.context()) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (Values* values : {&qkv, &dcontext}) {
      for (double& value : *values) value = widen(round_to_bf16(normal(random)));
    }
  }
  Values qkv, dcontext;
};

/// Runs a pass of a shape that is planned; returns context and log-sums, or the gradient.
std::vector<Values> run(FusedAttention& attention, const OpShape& op, const Shape& x, const Inputs& in,
                        const Reference& reference) {
  const bool backward = op.kind == OpKind::flash_attention_backward;
  const Stream stream = make_stream(false);
  Array qkv(DType::bf16, x.qkv(), in.qkv), samples(DType::int32, static_cast<std::size_t>(x.b + 2)),
      dqkv(DType::bf16, x.qkv());
  Array context(DType::bf16, x.context(), backward ? reference.context.values : Values{}),
      dcontext(DType::bf16, x.context(), in.dcontext);
  Array lse(DType::fp32, x.rows(), backward ? reference.lse : Values{});
  const DeviceMemory workspace = make_device_memory(attention.workspace(op));
  const std::vector<std::span<std::byte>> forward_operands{qkv.span(), samples.span(), context.span(), lse.span()};
  const std::vector<std::span<std::byte>> backward_operands{dcontext.span(), context.span(), qkv.span(),
                                                            lse.span(),      samples.span(), dqkv.span()};
  attention.run({op,
                 backward ? backward_operands : forward_operands,
                 0,
                 {static_cast<std::byte*>(workspace.get()), attention.workspace(op)},
                 stream.get()});
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  EXPECT_EQ(qkv.fetch(), in.qkv) << "an input was changed";
  if (backward) return {dqkv.fetch()};
  return {context.fetch(), lse.fetch()};
}

void expect_within(const Values& got, const Bounded& wanted) {
  ASSERT_EQ(got.size(), wanted.values.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    // fp32 sums of at most some tens of terms of order one stay far below 1e-5.
    ASSERT_NEAR(got[i], wanted.values[i], wanted.errors[i] + 1e-5) << "element " << i;
  }
}

constexpr Shape kShapes[] = {{1, 1, 1, 8, 1},  {7, 2, 3, 8, 3}, {7, 2, 3, 8, 3, true}, {13, 2, 4, 16, 2, true},
                             {5, 1, 6, 24, 1}, {9, 3, 4, 8, 2}, {9, 3, 4, 8, 2, true}, {21, 1, 2, 40, 1, true}};

class Attention : public ::testing::TestWithParam<Shape> {};

TEST_P(Attention, EqualsFloat64) {
  const Shape& x = GetParam();
  cuda_emulator::reset();
  const Inputs in(x);
  const Reference reference = reference_of(x, in.qkv, in.dcontext, 0.3f);
  std::vector<std::string> said;
  FusedAttention attention([&](const std::string& text) { said.push_back(text); });
  for (const OpKind kind : {OpKind::flash_attention, OpKind::flash_attention_backward}) {
    const OpShape op = op_of(x, kind);
    attention.plan(op);
    ASSERT_TRUE(attention.takes(op));
    const std::vector<Values> got = run(attention, op, x, in, reference);
    if (kind == OpKind::flash_attention) {
      expect_within(got[0], reference.context);
      // The largest score of unit normals in 40 channels, scaled: below 20; a few fp32 roundings of that.
      for (std::size_t i = 0; i < reference.lse.size(); ++i) ASSERT_NEAR(got[1][i], reference.lse[i], 1e-5);
    } else {
      expect_within(got[0], reference.dqkv);
    }
  }
  EXPECT_THAT(said, IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Shapes, Attention, ::testing::ValuesIn(kShapes), [](const auto& info) {
  const Shape& x = info.param;
  return fmt::format("s{}_b{}_a{}_d{}_u{}{}", x.s, x.b, x.a, x.d, x.u, x.causal ? "_causal" : "");
});

TEST(FusedAttention, EveryShapeOfAModelHasAPlanOfItsOwn) {
  cuda_emulator::reset();
  // Each differs from the first in one thing.
  const Shape shapes[] = {{6, 2, 4, 8, 4}, {6, 2, 4, 8, 4, true}, {4, 2, 4, 8, 4}, {6, 1, 4, 8, 4},
                          {6, 2, 2, 8, 2}, {6, 2, 4, 16, 4},      {6, 2, 4, 8, 2}};
  FusedAttention attention({});
  for (const OpKind kind : {OpKind::flash_attention, OpKind::flash_attention_backward}) {
    for (const Shape& x : shapes) attention.plan(op_of(x, kind));
  }
  for (const Shape& x : shapes) {
    const Inputs in(x);
    const Reference reference = reference_of(x, in.qkv, in.dcontext, 0.3f);
    expect_within(run(attention, op_of(x, OpKind::flash_attention), x, in, reference)[0], reference.context);
    expect_within(run(attention, op_of(x, OpKind::flash_attention_backward), x, in, reference)[0], reference.dqkv);
  }
}

TEST(FusedAttention, TheSameInputsGiveTheSameBits) {
  const Shape x{9, 2, 4, 8, 2, true};
  const Inputs in(x, 5);
  const Reference reference = reference_of(x, in.qkv, in.dcontext, 0.3f);
  std::vector<std::vector<Values>> first;
  for (const std::uint64_t seed : {1, 2, 3}) {
    cuda_emulator::reset(
        {.seed = seed, .fill = seed == 2 ? cuda_emulator::Fill::small : cuda_emulator::Fill::not_a_number});
    FusedAttention attention({});
    std::vector<std::vector<Values>> got;
    for (const OpKind kind : {OpKind::flash_attention, OpKind::flash_attention_backward}) {
      attention.plan(op_of(x, kind));
      for (int repeat = 0; repeat < 2; ++repeat) got.push_back(run(attention, op_of(x, kind), x, in, reference));
    }
    EXPECT_EQ(got[0], got[1]);
    EXPECT_EQ(got[2], got[3]);
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << "seed " << seed;
  }
}

/// What is said about a shape that is left to the unfused path.
std::vector<std::string> said_of(const OpShape& op, cuda_emulator::Settings settings = {}) {
  cuda_emulator::reset(settings);
  std::vector<std::string> said;
  FusedAttention attention([&](const std::string& text) { said.push_back(text); });
  EXPECT_FALSE(attention.takes(op)) << "not planned";
  attention.plan(op);
  EXPECT_FALSE(attention.takes(op));
  EXPECT_FALSE(said.empty());
  EXPECT_THROW(attention.workspace(op), Error);
  attention.plan(op);  // again, for another op of this shape
  return said;
}

TEST(FusedAttention, WhatTheLibraryDoesNotTakeIsSaid) {
  const OpKind forward = OpKind::flash_attention, backward = OpKind::flash_attention_backward;
  OpShape with_dropout = op_of({8, 1, 2, 8, 2}, forward);
  with_dropout.scalars[1] = 0.1f;
  EXPECT_THAT(said_of(with_dropout), Each(HasSubstr("do not draw our dropout masks")));
  EXPECT_THAT(said_of(op_of({8, 1, 2, 8, 2}, forward, DType::fp32)), Each(HasSubstr("bf16 only")));
  EXPECT_THAT(said_of(op_of({8, 1, 2, 8, 2}, forward), {.cudnn_version = 91500}), Each(HasSubstr("older than 9.16")));
  const std::string kept = "flash attention runs as matrix products around one softmax kernel: cuDNN 91900 has no ";
  EXPECT_THAT(
      said_of(op_of({8, 1, 2, 12, 1}, forward)),
      ElementsAre(kept +
                  "forward kernel for 8 positions, 2 heads of 12 channels on 1 key-value heads (no deterministic engine takes it)"));
  EXPECT_THAT(
      said_of(op_of({8, 1, 2, 136, 2}, backward)),
      ElementsAre(
          kept + "backward kernel for 8 positions, 2 heads of 136 channels on 2 key-value heads (no deterministic engine takes it)"));
  EXPECT_THAT(said_of(op_of({8, 1, 2, 8, 2}, forward), {.compute_major = 7}), ::testing::SizeIs(1));
  EXPECT_THAT(said_of(op_of({8, 1, 2, 8, 2}, backward), {.compute_major = 10}), Each(HasSubstr("nothing shows them deterministic")));
}

TEST(FusedAttention, CallsThatDoNotFitTheirPlanAreRefused) {
  cuda_emulator::reset();
  const Shape x{4, 1, 2, 8, 2};
  const OpShape op = op_of(x, OpKind::flash_attention);
  FusedAttention attention({});
  attention.plan(op);
  Array qkv(DType::bf16, x.qkv() + 1), samples(DType::int32, 3), context(DType::bf16, x.context()),
      lse(DType::fp32, x.rows());
  const std::uint64_t bytes = attention.workspace(op);
  const DeviceMemory workspace = make_device_memory(bytes);
  const auto run_with = [&](std::span<std::byte> packed, std::uint64_t workspace_bytes) {
    const std::vector<std::span<std::byte>> operands{packed, samples.span(), context.span(), lse.span()};
    try {
      attention.run({op, operands, 0, {static_cast<std::byte*>(workspace.get()), workspace_bytes}, nullptr});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const std::size_t size = 2 * x.qkv();
  EXPECT_EQ(run_with(qkv.span().first(size), bytes), "nothing");
  EXPECT_THAT(run_with(qkv.span().last(size), bytes), HasSubstr("operand 0 is not aligned to 16 bytes"));
  EXPECT_THAT(run_with(qkv.span(), bytes), HasSubstr("operand 0 has"));
  EXPECT_THAT(run_with(qkv.span().first(size), bytes - 1), HasSubstr("bytes of workspace"));
  cuda_emulator::fail_call("cudnnBackendExecute", 1, cudaErrorUnknown);
  EXPECT_THAT(run_with(qkv.span().first(size), bytes),
              HasSubstr("CUDNN_STATUS_EXECUTION_FAILED (cudnnBackendExecute fails)"));
  CUDA_CHECK(cudaDeviceSynchronize());
}

TEST(FusedAttention, ALibraryThatDoesNotStartStopsTheRank) {
  cuda_emulator::reset();
  cuda_emulator::fail_call("cudnnCreate", 1, cudaErrorUnknown);
  FusedAttention attention({});
  EXPECT_THROW(attention.plan(op_of({4, 1, 2, 8, 2}, OpKind::flash_attention)), Error);
}

// Wherever the library answers that it does not support the graph, the unfused path runs; where it fails, nothing falls
// back: a rank alone on the other path would have other sums than its peers.
TEST(FusedAttention, AnswersAreToldFromFailuresAtEveryCall) {
  const OpShape op = op_of({4, 1, 2, 8, 2}, OpKind::flash_attention);
  int answers = 0, failures = 0;
  for (int nth = 1; nth < 200; ++nth) {
    for (const cudaError_t fault : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
      cuda_emulator::reset();
      cuda_emulator::fail_call("cudnnBackendFinalize", nth, fault);
      std::vector<std::string> said;
      FusedAttention attention([&](const std::string& text) { said.push_back(text); });
      try {
        attention.plan(op);
        answers += !said.empty();
        EXPECT_TRUE(said.empty() || fault == cudaErrorUnknown) << "call " << nth << " fails, and nobody says so";
        EXPECT_TRUE(attention.takes(op) || !said.empty());
      } catch (const Error& error) {
        ++failures;
        // Call 1 describes the GPU, which is no question of what is supported.
        EXPECT_TRUE(fault == cudaErrorMemoryAllocation || nth == 1) << "call " << nth << ": " << error.what();
      }
    }
  }
  EXPECT_GT(answers, 10);
  EXPECT_GE(failures, answers);
}

}  // namespace
}  // namespace benchsuite::cuda
