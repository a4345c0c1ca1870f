// Every byte a rank holds has a name and a closed formula: state from the number of parameters N, inputs and outputs, and each
// short-lived buffer by what it is. The formulas are written here from the letters, not from the layers.
#include <map>
#include <set>

#include "engine/core/exact_sum.h"
#include "engine/model/flops.h"
#include "engine/model/stage_layers.h"
#include "engine/train/step.h"
#include "tests/engine/train/same_engine.h"

namespace benchsuite {
namespace {

using testing_train::kBothModels;
using testing_train::SameEngine;

class MemoryTerms : public SameEngine {};

/// The letters of one rank, as integers.
struct Letters {
  explicit Letters(const TrainConfig& c, std::int64_t stage)
      : llama(c.model.family == ModelFamily::llama), s(c.model.seq), b(c.layout.micro_batch), h(c.model.hidden),
        f(c.model.ffn_hidden), a(c.model.heads), keys(c.model.kv_heads * h / a), t(c.layout.tp),
        d(c.layout.dp), m(c.layout.micro_batches()), zero(c.layout.zero_stage), split(c.layout.sequence_parallel ? t : 1),
        e(size_of(c.layout.precision)), w(size_of(c.stack.gradient_dtype)),
        vocabulary(padded_vocab(c.model.vocab, t) * h / t), layers(stage_layers(c.model, c.layout, stage).all),
        by_parameter(c.stack.sharded_parameters.unit == ShardedParameterConfig::Unit::parameter),
        scattered(c.stack.scatters_pipeline_activations ? t : 1),
        distributed(c.layout.recompute.distribute_saved_activations ? t : 1), first(stage == 0),
        last(stage == c.layout.pp - 1), parameters(rank_parameters(c.model, c.layout, stage).total()) {}

  bool llama;
  std::int64_t s, b, h, f, a;
  std::int64_t keys;  // u d: width of all keys
  std::int64_t t, d, m;
  int zero;
  std::int64_t split;  // of the sequence outside the tensor-parallel regions
  std::int64_t e, w;   // bytes of an activation, of a gradient
  std::int64_t vocabulary, layers;
  bool by_parameter;
  std::int64_t scattered, distributed;  // what divides a received tensor, a kept input
  bool first, last;
  std::int64_t parameters;  // N

  std::int64_t sharded(int from) const { return zero >= from ? d : 1; }
};

/// Bytes of what lives for ever, by purpose.
std::map<Purpose, std::int64_t> state_bytes(const Letters& n, const TrainConfig& config) {
  // Gradients of a tied embedding stay whole until the end of the step; with p = 1 the head's lies beside the embedding's.
  const std::int64_t words = !n.llama && (n.first || n.last) ? n.vocabulary : 0;
  const std::int64_t both = !n.llama && n.first && n.last ? n.vocabulary : 0;
  const bool master = config.layout.precision != DType::fp32;
  return {
      {Purpose::inputs, n.m * 4 * (n.s * n.b * ((n.first ? 1 : 0) + (n.last ? 1 : 0)) + n.b + 2) + 5 * 4},
      {Purpose::outputs, 4 + 4 * kExactSumDigits + 2 * 4},
      {Purpose::parameters, n.e * n.parameters / n.sharded(3)},
      {Purpose::gradients, n.w * ((n.parameters - words) / n.sharded(2) + words + both)},
      {Purpose::master, master ? 4 * n.parameters / n.sharded(1) : 0},
      {Purpose::moments, 8 * n.parameters / n.sharded(1)},
  };
}

/// Sizes a short-lived buffer of each term may have.
std::map<std::string, std::set<std::int64_t>> scratch_bytes(const Letters& n) {
  const std::int64_t x = n.e * n.s * n.b * n.h, local = x / n.split, tokens = n.s * n.b;
  const std::int64_t qkv = n.e * tokens * (n.h + 2 * n.keys) / n.t, heads = x / n.t, wide = n.e * tokens * n.f / n.t;
  const std::int64_t up = n.llama ? 2 * wide : wide;  // gate and up are one product
  const std::int64_t matrix = n.a * n.s * n.s * n.b / n.t, mask = tokens * n.h / n.split;
  const std::int64_t rows = (n.llama ? 4 : 8) * tokens / n.split;  // RMSNorm has no mean
  const std::int64_t columns = n.vocabulary / n.h;
  // What ZeRO-2 and 3 gather and reduce at once: attention, MLP, words, and positions or the final norm; an untied head lies with
  // the final norm.
  const std::int64_t matrices = n.h * (2 * n.h + 2 * n.keys);
  std::set<std::int64_t> units =
      n.llama ? std::set{n.h + matrices / n.t, n.h + 3 * n.h * n.f / n.t, n.vocabulary, n.h + n.vocabulary}
              : std::set{3 * n.h + (matrices + 3 * n.h) / n.t, 3 * n.h + (2 * n.h * n.f + n.f) / n.t, n.vocabulary, n.s * n.h,
                         2 * n.h};
  if (n.by_parameter) {
    // Matrices, column biases, and vectors of h: row biases and norms.
    units = {3 * n.h * n.h / n.t, n.h * n.h / n.t, n.h * n.f / n.t, 3 * n.h / n.t, n.f / n.t, n.h, n.s * n.h, n.vocabulary};
  }
  const auto times = [&](std::int64_t factor, std::int64_t divisor) {
    std::set<std::int64_t> sizes;
    for (const std::int64_t unit : units) sizes.insert(factor * unit / divisor);
    return sizes;
  };
  std::map<std::string, std::set<std::int64_t>> sizes = {
      {"query, key, value", {qkv}},
      {"attention context", {heads}},
      {"softmax output", {n.e * matrix}},
      {"softmax dropout output", {n.e * matrix}},
      {"attention scores", {n.e * matrix}},
      {"softmax dropout mask", {matrix}},
      {"attention log-sum-exp", {4 * n.a * tokens / n.t}},
      {"FC1 output", {up}},
      {"GELU output", {wide}},
      {"logits (fp32)", {4 * tokens * columns}},
      {"logits (16 bit)", {n.e * tokens * columns, x}},  // both products of the head: the logits, the gradient of its input
      {"cross-entropy row values", {4 * tokens}},
      {"gathered sequence", {x}},
      {"linear output", {qkv, x, up, wide, heads, local, x * (n.t - 1) / n.t}},  // in tiles, all but the rank's own are sent
      {"gradient inside a layer", {local, x, qkv, up, wide, heads, n.e * matrix}},
      {"weight gradient of a micro-batch",
       {n.e * 3 * n.h * n.h / n.t, n.e * n.h * n.h / n.t, n.e * n.h * n.f / n.t, n.e * n.vocabulary}},
      {"packed gradients", {n.w * n.h * (n.llama ? 2 * n.layers + (n.last ? 1 : 0) : 6 * n.layers + (n.last ? 2 : 0))}},
      {"gathered parameters", times(n.e, 1)},
      {"unreduced gradients", times(n.w, 1)},
      {"reduced gradients", times(n.w, n.d)},
  };
  for (const char* name : {"attention input", "attention LayerNorm output", "MLP input", "MLP LayerNorm output",
                           "layer output", "final LayerNorm input", "final LayerNorm output", "gradient of the input",
                           "gradient of the output", "reduced sequence"}) {
    sizes[name] = {local};
  }
  for (const char* name : {"received activation", "received gradient"}) sizes[name] = {local / n.scattered};
  sizes["layer group input"] = {local / n.distributed};
  for (const char* name : {"attention LayerNorm statistics", "MLP LayerNorm statistics", "final LayerNorm statistics"}) {
    sizes[name] = {rows};
  }
  for (const char* name : {"attention output dropout mask", "MLP output dropout mask", "embedding dropout mask"}) sizes[name] = {mask};
  return sizes;
}

TEST_P(MemoryTerms, EveryByteHasANameAndAFormula) {
  const TrainConfig config = SameEngine::config();
  for (int rank = 0; rank < config.layout.world(); ++rank) {
    const std::int64_t stage = stage_of(config, static_cast<std::size_t>(rank));
    const Letters n(config, stage);
    const Program program = record_step(config, rank).program;
    const auto scratch = scratch_bytes(n);
    std::map<Purpose, std::int64_t> permanent, extents;
    std::map<Purpose, bool> mixed;
    for (const Buffer& buffer : program.buffers) {
      ASSERT_LT(buffer.term, program.terms.size());
      const std::string& term = program.terms[buffer.term];
      const auto bytes = static_cast<std::int64_t>(buffer.bytes);
      if (buffer.free_at == kNone) {
        permanent[buffer.purpose] += bytes;
        extents[buffer.purpose] += round_up<std::int64_t>(bytes, 256);
        continue;
      }
      mixed[buffer.purpose] = true;
      ASSERT_TRUE(scratch.contains(term)) << term << " has no formula";
      EXPECT_TRUE(scratch.at(term).contains(bytes)) << term << " of " << bytes << " bytes, rank " << rank;
    }
    for (const auto& [purpose, bytes] : state_bytes(n, config)) {
      EXPECT_EQ(permanent[purpose], bytes) << name_of(purpose) << ", rank " << rank;
      permanent.erase(purpose);
      if (mixed[purpose]) continue;  // ZeRO-2 and 3: gathers and unreduced gradients lie among them
      EXPECT_EQ(static_cast<std::int64_t>(program.arena_bytes[static_cast<std::size_t>(purpose)]), extents[purpose])
          << name_of(purpose) << ": the arena is what lies in it, each at a multiple of 256, rank " << rank;
    }
    EXPECT_TRUE(permanent.empty()) << "something lives for ever that is not state";
  }
}

INSTANTIATE_TEST_SUITE_P(Configurations, MemoryTerms, kBothModels, testing_train::configuration_name);

}  // namespace
}  // namespace benchsuite
