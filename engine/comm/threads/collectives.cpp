#include "engine/comm/threads/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/core/error.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements reduced at a time: small enough to stay in the first-level cache

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

/// out[0 .. count) = reduction over members of x[first .. first + count), in rank order.
void reduce_block(std::span<const CollectiveCall> calls, std::int64_t first, std::int64_t count, float* out) {
  const bool sum = calls[0].reduction == Reduction::sum;
  const auto input = [&](std::size_t member) { return reinterpret_cast<const float*>(calls[member].input) + first; };
  std::copy_n(input(0), count, out);
  for (std::size_t member = 1; member < calls.size(); ++member) {
    const float* x = input(member);
    if (sum) {
      for (std::int64_t i = 0; i < count; ++i) out[i] += x[i];
    } else {
      // A NaN must survive the maximum: it is how a broken rank shows.
      for (std::int64_t i = 0; i < count; ++i) out[i] = x[i] > out[i] || x[i] != x[i] ? x[i] : out[i];
    }
  }
}

void all_gather(std::span<const CollectiveCall> calls) {
  const std::int64_t bytes =
      div_exact(calls[0].elements, static_cast<std::int64_t>(calls.size())) * size_of(calls[0].dtype);
  for (const CollectiveCall& to : calls) {
    for (std::size_t from = 0; from < calls.size(); ++from) {
      copy_bytes(to.output + static_cast<std::int64_t>(from) * bytes, calls[from].input, bytes);
    }
  }
}

void reduce_scatter(std::span<const CollectiveCall> calls) {
  const std::int64_t slice = div_exact(calls[0].elements, static_cast<std::int64_t>(calls.size()));
  std::array<float, kBlock> sum;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    for (std::int64_t at = 0; at < slice; at += kBlock) {
      const std::int64_t count = std::min(kBlock, slice - at);
      reduce_block(calls, static_cast<std::int64_t>(member) * slice + at, count, sum.data());
      std::copy_n(sum.data(), count, reinterpret_cast<float*>(calls[member].output) + at);
    }
  }
}

void all_reduce(std::span<const CollectiveCall> calls) {
  std::array<float, kBlock> result;
  for (std::int64_t at = 0; at < calls[0].elements; at += kBlock) {
    const std::int64_t count = std::min(kBlock, calls[0].elements - at);
    reduce_block(calls, at, count, result.data());
    for (const CollectiveCall& call : calls) {
      std::copy_n(result.data(), count, reinterpret_cast<float*>(call.output) + at);
    }
  }
}

}  // namespace

void run_collective(std::span<const CollectiveCall> calls) {
  const OpKind kind = calls[0].kind;
  if (kind == OpKind::reduce_scatter || kind == OpKind::all_reduce) {
    CHECK(calls[0].dtype == DType::fp32) << name_of(kind) << " of " << name_of(calls[0].dtype);
    CHECK(calls[0].reduction == Reduction::sum || (kind == OpKind::all_reduce && calls[0].reduction == Reduction::max))
        << name_of(kind) << " without a reduction it knows";
  }
  switch (kind) {
    case OpKind::all_gather: return all_gather(calls);
    case OpKind::reduce_scatter: return reduce_scatter(calls);
    case OpKind::all_reduce: return all_reduce(calls);
    case OpKind::send:  // member 0 of a channel sends, member 1 receives
      CHECK(calls.size() == 2 && calls[1].kind == OpKind::receive) << "a channel has a sender and a receiver";
      return copy_bytes(calls[1].output, calls[0].input, calls[0].elements * size_of(calls[0].dtype));
    default: CHECK(false) << name_of(kind) << " does not start a collective";
  }
}

}  // namespace benchsuite
