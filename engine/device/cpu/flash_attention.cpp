// Fused attention by tiles with the online softmax: no s x s matrix is ever stored (Dao et al. 2022, "FlashAttention",
// algorithms 1 and 4; Dao 2023, section 3.1, for the log-sum-exp that replaces maximum and sum). Dropout falls on the
// normalised probabilities, as in the unfused path, and its mask is made again in backward.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "engine/device/cpu/attention_view.h"
#include "engine/device/cpu/dropout_mask.h"
#include "engine/device/cpu/kernels.h"
#include "engine/device/cpu/matmul.h"
#include "engine/device/op_table.h"

namespace benchsuite::cpu {
namespace {

constexpr std::int64_t kTile = 64;  // queries and keys of a tile

/// A tile of queries x keys of one head.
struct Tile {
  std::int64_t sample, head;
  std::int64_t query, queries;  // first and count
  std::int64_t key, keys;
};

/// How many keys from tile.key on query `row` of the tile sees.
std::int64_t visible(const Tile& tile, std::int64_t row, bool causal) {
  return causal ? std::clamp<std::int64_t>(tile.query + row + 1 - tile.key, 0, tile.keys) : tile.keys;
}

std::optional<DropoutMask> mask_of(const KernelCall& call, std::size_t samples_operand) {
  const std::int64_t b = call.dim(1);
  const std::int32_t* samples = call.i32(samples_operand, b + 2);
  if (call.scalar(1) == 0) return std::nullopt;
  return DropoutMask(samples, b, call.layer, kAttentionDropout, call.scalar(1));
}

/// Keep factors of the tile's row; 1 everywhere without dropout.
void row_factors(const std::optional<DropoutMask>& mask, const KernelCall& call, const Tile& tile, std::int64_t row,
                 float* factors) {
  if (!mask) {
    std::fill_n(factors, tile.keys, 1.0f);
    return;
  }
  const std::int64_t first_channel = (call.dim(5) + tile.head) * call.dim(0) + tile.key;
  mask->factors(tile.sample, tile.query + row, first_channel, tile.keys, factors);
}

template <class Body>
void for_each_query_tile(const AttentionView& view, Body body) {
  for (std::int64_t sample = 0; sample < view.b; ++sample) {
    for (std::int64_t head = 0; head < view.a; ++head) {
      for (std::int64_t query = 0; query < view.s; query += kTile) {
        body(Tile{sample, head, query, std::min(kTile, view.s - query), 0, 0});
      }
    }
  }
}

/// Calls body with the tile at each key block that some query of it sees.
template <class Body>
void for_each_key_tile(const AttentionView& view, Tile tile, bool causal, Body body) {
  const std::int64_t end = causal ? tile.query + tile.queries : view.s;
  for (tile.key = 0; tile.key < end; tile.key += kTile) {
    tile.keys = std::min(kTile, view.s - tile.key);
    body(tile);
  }
}

/// scores[queries, keys] of the tile, rows kTile apart.
void tile_scores(const AttentionView& view, const Tile& tile, const float* qkv, float* scores) {
  const std::int64_t stride = view.qkv_stride();
  matmul({tile.queries, tile.keys, view.d, view.scale, 0},
         {qkv + view.q(tile.sample, tile.head) + tile.query * stride, stride, false},
         {qkv + view.k(tile.sample, tile.head) + tile.key * stride, stride, true}, scores, kTile);
}

}  // namespace

void flash_attention(const KernelCall& call) {
  call.expect_operands(4);
  const AttentionView view(call);
  const bool causal = call.shape.causal;
  const float* qkv = call.in(0, view.qkv_elements());
  const std::optional<DropoutMask> mask = mask_of(call, 1);
  float* context = call.out(2, view.context_elements());
  float* lse = call.f32(3, view.lse_elements());  // [b, a, s]

  const auto scratch = [&](std::int64_t count) {
    return std::span<float>(call.staging.scratch(count), static_cast<std::size_t>(count));
  };
  const std::span<float> scores = scratch(kTile * kTile), factors = scratch(kTile), maximum = scratch(kTile), sum = scratch(kTile);
  const std::span<float> accumulated = scratch(kTile * view.d);  // [queries, d], not yet normalised
  for_each_query_tile(view, [&](const Tile& queries) {
    std::fill(maximum.begin(), maximum.end(), -std::numeric_limits<float>::infinity());
    std::fill(sum.begin(), sum.end(), 0.0f);
    std::fill(accumulated.begin(), accumulated.end(), 0.0f);
    for_each_key_tile(view, queries, causal, [&](const Tile& tile) {
      tile_scores(view, tile, qkv, scores.data());
      for (std::int64_t row = 0; row < tile.queries; ++row) {
        float* p = scores.data() + row * kTile;
        const std::int64_t count = visible(tile, row, causal);
        const auto r = static_cast<std::size_t>(row);
        row_factors(mask, call, tile, row, factors.data());
        const float before = maximum[r];
        for (std::int64_t i = 0; i < count; ++i) maximum[r] = std::max(maximum[r], p[i]);
        const float correction = before == maximum[r] ? 1.0f : std::exp(before - maximum[r]);
        double row_sum = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          p[i] = std::exp(p[i] - maximum[r]);
          row_sum += p[i];
          p[i] *= factors[static_cast<std::size_t>(i)];
        }
        std::fill(p + count, p + tile.keys, 0.0f);
        sum[r] = static_cast<float>(sum[r] * static_cast<double>(correction) + row_sum);
        for (std::int64_t i = 0; i < view.d; ++i) accumulated[static_cast<std::size_t>(row * view.d + i)] *= correction;
      }
      matmul({tile.queries, view.d, tile.keys, 1, 1}, {scores.data(), kTile, false},
             {qkv + view.v(tile.sample, tile.head) + tile.key * view.qkv_stride(), view.qkv_stride(), false},
             accumulated.data(), view.d);
    });
    for (std::int64_t row = 0; row < queries.queries; ++row) {
      const auto r = static_cast<std::size_t>(row);
      const float* in = accumulated.data() + row * view.d;
      float* out = context + view.context(queries.sample, queries.head) + (queries.query + row) * view.context_stride();
      for (std::int64_t i = 0; i < view.d; ++i) out[i] = in[i] / sum[r];
      lse[view.lse(queries.sample, queries.head) + queries.query + row] = maximum[r] + std::log(sum[r]);
    }
  });
}

void flash_attention_backward(const KernelCall& call) {
  call.expect_operands(6);
  const AttentionView view(call);
  const bool causal = call.shape.causal;
  const float* dcontext = call.in(0, view.context_elements());
  const float* context = call.in(1, view.context_elements());
  const float* qkv = call.in(2, view.qkv_elements());
  const float* lse = call.f32(3, view.lse_elements());
  const std::optional<DropoutMask> mask = mask_of(call, 4);
  float* dqkv = call.out(5, view.qkv_elements());
  std::fill_n(dqkv, view.qkv_elements(), 0.0f);

  const std::int64_t stride = view.qkv_stride(), context_stride = view.context_stride();
  const auto scratch = [&](std::int64_t count) {
    return std::span<float>(call.staging.scratch(count), static_cast<std::size_t>(count));
  };
  const std::span<float> p = scratch(kTile * kTile), ds = scratch(kTile * kTile), factors = scratch(kTile), delta = scratch(kTile);
  for_each_query_tile(view, [&](const Tile& queries) {
    const std::int64_t first = view.context(queries.sample, queries.head) + queries.query * context_stride;
    const Factor dout{dcontext + first, context_stride, false};  // [queries, d]
    // delta = rowsum(P dP): equal to dctx . ctx, so that it needs no second pass over the keys.
    for (std::int64_t row = 0; row < queries.queries; ++row) {
      const std::int64_t at = first + row * context_stride;
      double dot = 0;
      for (std::int64_t i = 0; i < view.d; ++i) dot += static_cast<double>(dcontext[at + i]) * context[at + i];
      delta[static_cast<std::size_t>(row)] = static_cast<float>(dot);
    }
    for_each_key_tile(view, queries, causal, [&](const Tile& tile) {
      const std::int64_t q = view.q(tile.sample, tile.head) + tile.query * stride;
      const std::int64_t k = view.k(tile.sample, tile.head) + tile.key * stride;
      const std::int64_t v = view.v(tile.sample, tile.head) + tile.key * stride;
      tile_scores(view, tile, qkv, p.data());
      matmul({tile.queries, tile.keys, view.d, 1, 0}, dout, {qkv + v, stride, true},
             ds.data(), kTile);  // gradient of the dropped-out probabilities
      for (std::int64_t row = 0; row < tile.queries; ++row) {
        const std::int64_t count = visible(tile, row, causal);
        const float row_lse = lse[view.lse(tile.sample, tile.head) + tile.query + row];
        row_factors(mask, call, tile, row, factors.data());
        for (std::int64_t i = 0; i < tile.keys; ++i) {
          float& probability = p[static_cast<std::size_t>(row * kTile + i)];
          float& gradient = ds[static_cast<std::size_t>(row * kTile + i)];
          const float factor = factors[static_cast<std::size_t>(i)];
          const float whole = i < count ? std::exp(probability - row_lse) : 0.0f;
          gradient = whole * (gradient * factor - delta[static_cast<std::size_t>(row)]);
          probability = whole * factor;
        }
      }
      matmul({tile.keys, view.d, tile.queries, 1, 1}, {p.data(), kTile, true}, dout, dqkv + v, stride);
      matmul({tile.queries, view.d, tile.keys, view.scale, 1}, {ds.data(), kTile, false}, {qkv + k, stride, false},
             dqkv + q, stride);
      matmul({tile.keys, view.d, tile.queries, view.scale, 1}, {ds.data(), kTile, true}, {qkv + q, stride, false},
             dqkv + k, stride);
    });
  });
}

}  // namespace benchsuite::cpu
