#include "engine/device/cuda/attention.h"

#include <algorithm>

namespace benchsuite::cuda {

namespace {

constexpr std::int64_t kAlignment = 256;  // bytes, of matrices in the workspace

/// Where heads lie in packed tensors: qkv is [s, b, u, a/u + 2, d], the context [s, b, a d], scores [b, a, s, s].
struct Heads {
  std::int64_t s, b, a, d, u, served;

  explicit Heads(const OpShape& shape)
      : s(shape.dims[0]), b(shape.dims[1]), a(shape.dims[2]), d(shape.dims[3]), u(shape.dims[4] == 0 ? a : shape.dims[4]),
        served(div_exact(a, u)) {}

  std::int64_t qkv_elements() const { return s * b * u * (served + 2) * d; }
  std::int64_t context_elements() const { return s * b * a * d; }
  std::int64_t score_elements() const { return b * a * s * s; }
  std::int64_t lse_elements() const { return b * a * s; }
};

/// A factor or result of a product over heads: the first element of query head `r` of the first group, the distance from
/// position to position, and from group to group.
struct Place {
  std::int64_t first, row, group;
};

class HeadPlaces {
 public:
  explicit HeadPlaces(const Heads& h) : h_(h) {}
  Place q(std::int64_t r) const { return {r * h_.d, qkv_row(), group()}; }
  Place k(std::int64_t) const { return {h_.served * h_.d, qkv_row(), group()}; }
  Place v(std::int64_t) const { return {(h_.served + 1) * h_.d, qkv_row(), group()}; }
  Place context(std::int64_t r) const { return {r * h_.d, h_.b * h_.a * h_.d, h_.served * h_.d}; }
  Place scores(std::int64_t r) const { return {r * h_.s * h_.s, h_.s, h_.served * h_.s * h_.s}; }

 private:
  std::int64_t qkv_row() const { return h_.b * group() * h_.u; }
  std::int64_t group() const { return (h_.served + 2) * h_.d; }
  const Heads& h_;
};

const void* at(const void* base, DType type, std::int64_t element) {
  return static_cast<const std::byte*>(base) + element * size_of(type);
}

/// What one of the six products multiplies.
struct HeadProduct {
  bool to_scores;  ///< [s, s] over channels; else [s, d] over positions
  bool transpose_a, transpose_b;
  float alpha;
  bool shared;  ///< the result belongs to the key-value head: query heads that share it add up
};

struct Factor {
  const void* base;
  Place (HeadPlaces::*place)(std::int64_t) const;
};

/// Type of factors, type of the result.
struct Types {
  DType in, out;
};

void add_products(std::vector<GemmCall>& calls, const Heads& heads, const HeadProduct& what, Types types, Factor a, Factor b,
                  Factor c) {
  const HeadPlaces places(heads);
  for (std::int64_t r = 0; r < heads.served; ++r) {
    const Place pa = (places.*a.place)(r), pb = (places.*b.place)(r), pc = (places.*c.place)(r);
    GemmCall& call = calls.emplace_back();
    GemmShape& shape = call.shape;
    shape.m = heads.s;
    shape.n = what.to_scores ? heads.s : heads.d;
    shape.k = what.to_scores ? heads.d : heads.s;
    shape.batch = heads.b * heads.u;
    shape.in = types.in;
    shape.out = types.out;
    shape.transpose_a = what.transpose_a;
    shape.transpose_b = what.transpose_b;
    shape.accumulate = what.shared && r > 0;
    shape.lda = pa.row;
    shape.ldb = pb.row;
    shape.ldc = pc.row;
    shape.stride_a = pa.group;
    shape.stride_b = pb.group;
    shape.stride_c = pc.group;
    call.alpha = what.alpha;
    call.a = at(a.base, types.in, pa.first);
    call.b = at(b.base, types.in, pb.first);
    call.c = const_cast<void*>(at(c.base, types.out, pc.first));
  }
}

GemmCall plain_product(const KernelCall& call) {
  call.expect_operands(3);
  const OpShape& op = call.shape;
  GemmCall product;
  product.shape = dense_gemm(op.dims[0], op.dims[1], op.dims[2], std::max<std::int64_t>(op.dims[3], 1), op.transpose_a,
                             op.transpose_b);
  GemmShape& shape = product.shape;
  shape.in = op.dtype;
  shape.out = op.out_dtype;
  shape.accumulate = op.accumulate;
  const auto expect = [&](std::size_t index, std::int64_t elements, DType type) {
    CHECK(call.bytes(index) == static_cast<std::uint64_t>(elements * size_of(type)))
        << "gemm operand " << index << " has " << call.bytes(index) << " bytes, not " << elements << " x " << name_of(type);
    return call.operands[index].data();
  };
  product.a = expect(0, shape.batch * shape.m * shape.k, shape.in);
  product.b = expect(1, shape.batch * shape.k * shape.n, shape.in);
  product.c = expect(2, shape.batch * shape.m * shape.n, shape.out);
  return product;
}

/// Checked addresses of an attention op's operands.
class Operands {
 public:
  Operands(const KernelCall& call, const Heads& heads) : call_(call), heads_(heads) {}
  void* qkv(std::size_t index, DType type) const { return get(index, heads_.qkv_elements(), type); }
  void* context(std::size_t index, DType type) const { return get(index, heads_.context_elements(), type); }
  void* scores(std::size_t index, DType type) const { return get(index, heads_.score_elements(), type); }
  void* lse(std::size_t index) const { return get(index, heads_.lse_elements(), DType::fp32); }

 private:
  void* get(std::size_t index, std::int64_t elements, DType type) const {
    CHECK(call_.bytes(index) == static_cast<std::uint64_t>(elements * size_of(type)))
        << name_of(call_.shape.kind) << " operand " << index << " has " << call_.bytes(index) << " bytes, not " << elements
        << " x " << name_of(type);
    return call_.operands[index].data();
  }
  const KernelCall& call_;
  const Heads& heads_;
};

// The six products. `scale` is 1/sqrt(d).
constexpr HeadProduct kScores{true, false, true, 1, false};           // Q K^T
constexpr HeadProduct kContext{false, false, false, 1, false};        // P V
constexpr HeadProduct kProbabilityGradient{true, false, true, 1, false};  // dctx V^T
constexpr HeadProduct kValueGradient{false, true, false, 1, true};    // P^T dctx
constexpr HeadProduct kQueryGradient{false, false, false, 1, false};  // dS K
constexpr HeadProduct kKeyGradient{false, true, false, 1, true};      // dS^T Q

HeadProduct scaled(HeadProduct what, float alpha) {
  what.alpha = alpha;
  return what;
}

std::uint64_t aligned(std::int64_t bytes) { return static_cast<std::uint64_t>(round_up(bytes, kAlignment)); }

}  // namespace

std::vector<GemmCall> products_of(const KernelCall& call) {
  if (call.shape.kind == OpKind::gemm) return {plain_product(call)};
  const Heads heads(call.shape);
  const Operands operands(call, heads);
  const DType in = call.shape.dtype, out = call.shape.out_dtype;
  const float scale = call.scalar(0);
  using P = HeadPlaces;
  std::vector<GemmCall> calls;
  switch (call.shape.kind) {
    case OpKind::attention_scores:
      call.expect_operands(2);
      add_products(calls, heads, scaled(kScores, scale), {in, out}, {operands.qkv(0, in), &P::q}, {operands.qkv(0, in), &P::k},
                   {operands.scores(1, out), &P::scores});
      break;
    case OpKind::attention_context:
      call.expect_operands(3);
      add_products(calls, heads, kContext, {in, out}, {operands.scores(0, in), &P::scores}, {operands.qkv(1, in), &P::v},
                   {operands.context(2, out), &P::context});
      break;
    case OpKind::attention_context_backward_p:
      call.expect_operands(3);
      add_products(calls, heads, kProbabilityGradient, {in, out}, {operands.context(0, in), &P::context},
                   {operands.qkv(1, in), &P::v}, {operands.scores(2, out), &P::scores});
      break;
    case OpKind::attention_context_backward_v:
      call.expect_operands(3);
      add_products(calls, heads, kValueGradient, {in, out}, {operands.scores(0, in), &P::scores},
                   {operands.context(1, in), &P::context}, {operands.qkv(2, out), &P::v});
      break;
    case OpKind::attention_scores_backward_q:
      call.expect_operands(3);
      add_products(calls, heads, scaled(kQueryGradient, scale), {in, out}, {operands.scores(0, in), &P::scores},
                   {operands.qkv(1, in), &P::k}, {operands.qkv(2, out), &P::q});
      break;
    case OpKind::attention_scores_backward_k:
      call.expect_operands(3);
      add_products(calls, heads, scaled(kKeyGradient, scale), {in, out}, {operands.scores(0, in), &P::scores},
                   {operands.qkv(1, in), &P::q}, {operands.qkv(2, out), &P::k});
      break;
    default: CHECK(false) << name_of(call.shape.kind) << " is not a matrix product";
  }
  return calls;
}

std::uint64_t flash_workspace(const OpShape& shape) {
  const Heads heads(shape);
  const std::uint64_t wide = aligned(heads.score_elements() * size_of(DType::fp32));
  const std::uint64_t narrow = aligned(heads.score_elements() * size_of(shape.dtype));
  return shape.kind == OpKind::flash_attention ? wide + narrow : 2 * (wide + narrow);
}

UnfusedAttention unfused(const KernelCall& call) {
  const OpShape& shape = call.shape;
  const Heads heads(shape);
  const Operands operands(call, heads);
  const DType type = shape.dtype, wide = DType::fp32;
  const bool forward = shape.kind == OpKind::flash_attention;
  CHECK(forward || shape.kind == OpKind::flash_attention_backward) << name_of(shape.kind) << " is not attention in one op";
  CHECK(shape.out_dtype == type) << "attention from " << name_of(type) << " to " << name_of(shape.out_dtype);
  call.expect_operands(forward ? 4 : 6);
  CHECK(call.workspace.size() >= flash_workspace(shape)) << "attention needs " << flash_workspace(shape) << " bytes of workspace";
  std::byte* free = call.workspace.data();
  const auto take = [&](DType of) {
    std::byte* const taken = free;
    free += aligned(heads.score_elements() * size_of(of));
    return taken;
  };

  const std::size_t samples = forward ? 1 : 4;
  UnfusedAttention out;
  out.softmax = {.s = heads.s,
                 .b = heads.b,
                 .a = heads.a,
                 .first_head = call.dim(5),
                 .in = wide,
                 .out = type,
                 .scale = call.scalar(0),
                 .causal = shape.causal,
                 .dropout = call.scalar(1),
                 .samples = call.operand<const std::int32_t>(samples, heads.b + 2),
                 .layer = call.layer};
  std::byte* const scores = take(wide);
  out.scores = scores;
  out.dropped = take(type);
  using P = HeadPlaces;
  const void* const qkv = operands.qkv(forward ? 0 : 2, type);
  add_products(out.before, heads, kScores, {type, wide}, {qkv, &P::q}, {qkv, &P::k}, {scores, &P::scores});
  if (forward) {
    out.lse = static_cast<float*>(operands.lse(3));
    add_products(out.after, heads, kContext, {type, type}, {out.dropped, &P::scores}, {qkv, &P::v},
                 {operands.context(2, type), &P::context});
    return out;
  }
  const void* const dcontext = operands.context(0, type);
  void* const dqkv = operands.qkv(5, type);
  operands.context(1, type);  // the forward result: the row sums here come from P and dP
  std::byte* const dprobabilities = take(wide);
  out.dprobabilities = dprobabilities;
  out.dscores = take(type);
  out.lse = static_cast<float*>(operands.lse(3));
  add_products(out.before, heads, kProbabilityGradient, {type, wide}, {dcontext, &P::context}, {qkv, &P::v},
               {dprobabilities, &P::scores});
  add_products(out.after, heads, kValueGradient, {type, type}, {out.dropped, &P::scores}, {dcontext, &P::context}, {dqkv, &P::v});
  add_products(out.after, heads, scaled(kQueryGradient, out.softmax.scale), {type, type}, {out.dscores, &P::scores}, {qkv, &P::k},
               {dqkv, &P::q});
  add_products(out.after, heads, scaled(kKeyGradient, out.softmax.scale), {type, type}, {out.dscores, &P::scores}, {qkv, &P::q},
               {dqkv, &P::k});
  return out;
}

}  // namespace benchsuite::cuda
