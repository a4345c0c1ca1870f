#include "engine/comm/threads/collectives.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/core/bf16.h"
#include "engine/core/error.h"

namespace benchsuite {
namespace {

constexpr std::int64_t kBlock = 4096;  // elements reduced at a time: small enough to stay in the first-level cache

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

float load(const float* x) { return *x; }
float load(const Bf16* x) { return widen(*x); }
void store(float value, float* to) { *to = value; }
void store(float value, Bf16* to) { *to = round_to_bf16(value); }

/// out[0 .. count) = reduction over members of x[first .. first + count), in rank order. T: float or Bf16.
template <class T>
void reduce_block(std::span<const CollectiveCall> calls, std::int64_t first, std::int64_t count, float* out) {
  const bool sum = calls[0].reduction == Reduction::sum;
  const auto input = [&](std::size_t member) { return reinterpret_cast<const T*>(calls[member].input) + first; };
  for (std::int64_t i = 0; i < count; ++i) out[i] = load(input(0) + i);
  for (std::size_t member = 1; member < calls.size(); ++member) {
    const T* x = input(member);
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = load(x + i);
      // A NaN must survive the maximum: it is how a broken rank shows.
      out[i] = sum ? out[i] + value : value > out[i] || value != value ? value : out[i];
    }
  }
}

template <class T>
void store_block(const float* values, std::int64_t count, T* to) {
  for (std::int64_t i = 0; i < count; ++i) store(values[i], to + i);
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

void shift(std::span<const CollectiveCall> calls) {
  const std::int64_t bytes = calls[0].elements * size_of(calls[0].dtype);
  for (std::size_t member = 0; member < calls.size(); ++member) {
    const std::size_t to = (member + static_cast<std::size_t>(calls[0].distance)) % calls.size();
    copy_bytes(calls[to].output, calls[member].input, bytes);
  }
}

template <class T>
void reduce_scatter(std::span<const CollectiveCall> calls) {
  const std::int64_t slice = div_exact(calls[0].elements, static_cast<std::int64_t>(calls.size()));
  std::array<float, kBlock> sum;
  for (std::size_t member = 0; member < calls.size(); ++member) {
    for (std::int64_t at = 0; at < slice; at += kBlock) {
      const std::int64_t count = std::min(kBlock, slice - at);
      reduce_block<T>(calls, static_cast<std::int64_t>(member) * slice + at, count, sum.data());
      store_block(sum.data(), count, reinterpret_cast<T*>(calls[member].output) + at);
    }
  }
}

template <class T>
void all_reduce(std::span<const CollectiveCall> calls) {
  std::array<float, kBlock> result;
  for (std::int64_t at = 0; at < calls[0].elements; at += kBlock) {
    const std::int64_t count = std::min(kBlock, calls[0].elements - at);
    reduce_block<T>(calls, at, count, result.data());
    for (const CollectiveCall& call : calls) {
      store_block(result.data(), count, reinterpret_cast<T*>(call.output) + at);
    }
  }
}

}  // namespace

void run_collective(std::span<const CollectiveCall> calls) {
  const OpKind kind = calls[0].kind;
  const bool bf16 = calls[0].dtype == DType::bf16;
  if (kind == OpKind::reduce_scatter || kind == OpKind::all_reduce) {
    CHECK(calls[0].dtype == DType::fp32 || bf16) << name_of(kind) << " of " << name_of(calls[0].dtype);
    CHECK(calls[0].reduction == Reduction::sum || (kind == OpKind::all_reduce && calls[0].reduction == Reduction::max))
        << name_of(kind) << " without a reduction it knows";
  }
  switch (kind) {
    case OpKind::all_gather: return all_gather(calls);
    case OpKind::reduce_scatter: return bf16 ? reduce_scatter<Bf16>(calls) : reduce_scatter<float>(calls);
    case OpKind::all_reduce: return bf16 ? all_reduce<Bf16>(calls) : all_reduce<float>(calls);
    case OpKind::shift:
      CHECK(calls[0].distance > 0) << "a shift by " << calls[0].distance;
      return shift(calls);
    case OpKind::send:  // member 0 of a channel sends, member 1 receives
      CHECK(calls.size() == 2 && calls[1].kind == OpKind::receive) << "a channel has a sender and a receiver";
      return copy_bytes(calls[1].output, calls[0].input, calls[0].elements * size_of(calls[0].dtype));
    default: CHECK(false) << name_of(kind) << " does not start a collective";
  }
}

}  // namespace benchsuite
