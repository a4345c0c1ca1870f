// Every op in bf16 against itself in fp32 on the same bf16 values: results must be the fp32 results rounded once, bit for bit.
// That is the strictest form of a relative bound of 2^-8 (half a unit of eight significant bits), and it holds because bf16 is
// storage here and never arithmetic.
#include "tests/engine/device/cpu/tiny_program.h"

namespace benchsuite::testing_cpu {
namespace {

/// One operand: fp32 values for the fp32 run; `narrow` ones are bf16 in the other.
struct Item {
  Access access;
  Value value;
  bool narrow = true;
};

Item given(std::int64_t n, std::uint32_t salt) { return {Access::read, random_value(n, salt)}; }
Item updated(std::int64_t n, std::uint32_t salt) { return {Access::read_write, random_value(n, salt)}; }
Item made(std::int64_t n) { return {Access::write, output(n)}; }
Item wide(Item item) {
  item.narrow = false;
  return item;
}
Item integers(std::vector<std::int32_t> values) { return {Access::read, ints(std::move(values)), false}; }
Item mask(std::int64_t n) { return {Access::write, bytes_of_mask(static_cast<std::size_t>(n)), false}; }

struct Case {
  std::string name;
  OpShape shape;  ///< dtypes are those of the bf16 run
  std::vector<Item> items;
};

OpShape bf16(OpShape shape, DType in = DType::bf16, DType out = DType::bf16) {
  shape.dtype = in;
  shape.out_dtype = out;
  return shape;
}

std::vector<Case> cases() {
  using K = OpKind;
  std::vector<Case> all;
  const auto add = [&](std::string name, const OpShape& shape, std::vector<Item> items) {
    all.push_back({std::move(name), shape, std::move(items)});
  };
  OpShape accumulating = bf16(shape_of(K::gemm, {3, 4, 5, 1}), DType::bf16, DType::fp32);
  accumulating.accumulate = accumulating.transpose_a = true;
  add("gemm", bf16(shape_of(K::gemm, {3, 4, 5, 2})), {given(30, 1), given(40, 2), made(24)});
  add("gemm_fp32_gradient", accumulating, {given(15, 1), given(20, 2), wide(updated(12, 3))});
  accumulating.out_dtype = DType::bf16;
  add("gemm_bf16_gradient", accumulating, {given(15, 1), given(20, 2), updated(12, 3)});

  // s 3, b 2, a 2, d 5: qkv 180, scores 36, context 60
  const auto attention = [](K kind) { return bf16(shape_of(kind, {3, 2, 2, 5}, 0.4f)); };
  add("scores", attention(K::attention_scores), {given(180, 1), made(36)});
  add("context", attention(K::attention_context), {given(36, 1), given(180, 2), made(60)});
  add("context_p", attention(K::attention_context_backward_p), {given(60, 1), given(180, 2), made(36)});
  add("context_v", attention(K::attention_context_backward_v), {given(36, 1), given(60, 2), updated(180, 3)});
  add("scores_q", attention(K::attention_scores_backward_q), {given(36, 1), given(180, 2), updated(180, 3)});
  add("scores_k", attention(K::attention_scores_backward_k), {given(36, 1), given(180, 2), updated(180, 3)});
  const std::vector<std::int32_t> samples{7, 9, 3, 11};
  OpShape flash = bf16(shape_of(K::flash_attention, {3, 2, 2, 5, 2, 0}, 0.4f, 0.2f));
  flash.causal = true;
  add("flash", flash, {given(180, 1), integers(samples), made(60), wide(made(12))});
  flash.kind = K::flash_attention_backward;
  add("flash_backward", flash,
      {given(60, 1), given(60, 2), given(180, 3), wide(given(12, 4)), integers(samples), made(180)});

  const std::vector<std::int32_t> ids{4, 0, 3, 4, 1};
  add("embedding", bf16(shape_of(K::embedding, {5, 3, 4, 1})), {integers(ids), given(12, 1), made(15)});
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    const auto accumulator = [&](std::int64_t n, std::uint32_t salt) {
      return gradient == DType::bf16 ? updated(n, salt) : wide(updated(n, salt));
    };
    const std::string kind = gradient == DType::bf16 ? "_bf16_gradient" : "_fp32_gradient";
    add("embedding" + kind, bf16(shape_of(K::embedding_backward, {5, 3, 4, 1}), DType::bf16, gradient),
        {integers(ids), given(15, 1), accumulator(12, 2)});
    add("position" + kind, bf16(shape_of(K::position_backward, {2, 2, 3, 1}), DType::bf16, gradient),
        {given(12, 1), accumulator(9, 2)});
    add("bias" + kind, bf16(shape_of(K::bias_gradient, {4, 3}), DType::bf16, gradient),
        {given(12, 1), accumulator(3, 2)});
    add("layernorm" + kind, bf16(shape_of(K::layernorm_backward, {4, 3})),
        {given(12, 1), given(12, 2), given(3, 3), wide(given(8, 4)), made(12), accumulator(3, 5), accumulator(3, 6)});
    add("rmsnorm" + kind, bf16(shape_of(K::rmsnorm_backward, {4, 3})),
        {given(12, 1), given(12, 2), given(3, 3), wide(given(4, 4)), made(12), accumulator(3, 5)});
  }
  add("position", bf16(shape_of(K::position, {2, 2, 3, 1})), {given(12, 1), given(9, 2), made(12)});
  add("layernorm", bf16(shape_of(K::layernorm, {4, 3}, 1e-5f)),
      {given(12, 1), given(3, 2), given(3, 3), made(12), wide(made(8))});
  add("rmsnorm", bf16(shape_of(K::rmsnorm, {4, 3}, 1e-5f)), {given(12, 1), given(3, 2), made(12), wide(made(4))});
  add("swiglu", bf16(shape_of(K::swiglu, {4, 3})), {given(24, 1), made(12)});
  add("swiglu_backward", bf16(shape_of(K::swiglu_backward, {4, 3})), {given(12, 1), given(24, 2), made(24)});
  // s 3, b 2, a 4, d 6, g 2: 3 x 2 x 2 x 4 x 6
  add("rope", bf16(shape_of(K::rope, {3, 2, 4, 6, 2, 1}, 100.0f)), {updated(288, 1)});
  add("rope_backward", bf16(shape_of(K::rope_backward, {3, 2, 4, 6, 2, 1}, 100.0f)), {updated(288, 1)});
  OpShape softmax = bf16(shape_of(K::softmax, {6, 3}));
  softmax.causal = true;
  add("softmax", softmax, {given(18, 1), made(18)});
  softmax.kind = K::softmax_backward;
  add("softmax_backward", softmax, {given(18, 1), given(18, 2), made(18)});
  add("bias_add", bf16(shape_of(K::bias_add, {4, 3})), {given(12, 1), given(3, 2), made(12)});
  add("gelu", bf16(shape_of(K::gelu, {4, 3})), {given(12, 1), made(12)});
  add("gelu_backward", bf16(shape_of(K::gelu_backward, {4, 3})), {given(12, 1), given(12, 2), made(12)});
  add("bias_gelu", bf16(shape_of(K::bias_gelu, {4, 3})), {given(12, 1), given(3, 2), made(12)});
  add("bias_gelu_backward", bf16(shape_of(K::bias_gelu_backward, {4, 3})),
      {given(12, 1), given(12, 2), given(3, 3), made(12)});

  OpShape dropout = bf16(shape_of(K::dropout, {3, 2, 4, 0, 0, kMlpOutputDropout}, 0.4f));
  add("dropout", dropout, {given(24, 1), integers(samples), made(24)});
  OpShape stored = dropout;
  stored.stores_mask = true;
  add("dropout_mask", stored, {given(24, 1), integers(samples), made(24), mask(24)});
  dropout.kind = stored.kind = K::dropout_backward;
  add("dropout_backward", dropout, {given(24, 1), integers(samples), made(24)});
  add("dropout_backward_mask", stored,
      {given(24, 1), {Access::read, bytes_of_mask(24), false}, made(24)});
  dropout.kind = stored.kind = K::bias_dropout_add;
  add("bias_dropout_add", dropout, {given(24, 1), given(4, 2), given(24, 3), integers(samples), made(24)});
  add("bias_dropout_add_mask", stored,
      {given(24, 1), given(4, 2), given(24, 3), integers(samples), made(24), mask(24)});

  add("add", bf16(shape_of(K::add, {7})), {given(7, 1), given(7, 2), made(7)});
  add("accumulate", bf16(shape_of(K::accumulate, {7})), {given(7, 1), updated(7, 2)});
  add("accumulate_up", bf16(shape_of(K::accumulate, {7}), DType::bf16, DType::fp32), {given(7, 1), wide(updated(7, 2))});
  add("sum_pieces", bf16(shape_of(K::sum_pieces, {7, 3})), {given(21, 1), made(7)});
  add("cast_down", bf16(shape_of(K::cast, {7}), DType::fp32, DType::bf16), {wide(given(7, 1)), made(7)});
  add("cast_up", bf16(shape_of(K::cast, {7}), DType::bf16, DType::fp32), {given(7, 1), wide(made(7))});
  add("fill", bf16(shape_of(K::fill, {7}, 0.3f)), {made(7)});
  add("pack", bf16(shape_of(K::pack, {7})), {given(3, 1), given(4, 2), made(7)});
  add("unpack", bf16(shape_of(K::unpack, {7})), {given(7, 1), made(3), made(4)});
  add("sum_squares", bf16(shape_of(K::sum_squares, {7}, 1.0f), DType::bf16, DType::fp32),
      {given(7, 1), wide({Access::read_write, floats(std::vector<float>(12, 0))})});
  for (const DType gradient : {DType::fp32, DType::bf16}) {
    Item scalars{Access::read, floats({0.01f, 0.9f, 0.95f, 1e-8f, 2}), false};
    Item clip{Access::read, floats({9, 0.5f}), false};
    Item second = wide(updated(7, 4));
    for (float& value : second.value.f) value = std::abs(value);
    add(gradient == DType::bf16 ? "adamw_bf16_gradient" : "adamw", bf16(shape_of(K::adamw, {7}, 0.1f), gradient),
        {gradient == DType::bf16 ? given(7, 1) : wide(given(7, 1)), scalars, clip, wide(updated(7, 2)),
         wide(updated(7, 3)), second, made(7)});
  }
  return all;
}

TEST(Bf16Ops, AreTheFp32OpsRounded) {
  for (Case& test : cases()) {
    std::vector<Value> narrow_values;
    for (Item& item : test.items) {
      if (item.narrow) {
        for (float& value : item.value.f) value = widen(round_to_bf16(value));
        narrow_values.push_back(halves(item.value.f));
      } else {
        narrow_values.push_back(item.value);
      }
    }
    std::vector<Argument> fp32_run, bf16_run;
    for (std::size_t i = 0; i < test.items.size(); ++i) {
      fp32_run.push_back({test.items[i].access, &test.items[i].value});
      bf16_run.push_back({test.items[i].access, &narrow_values[i]});
    }
    OpShape fp32 = test.shape;
    fp32.dtype = fp32.out_dtype = DType::fp32;
    run_op(fp32, fp32_run, 5);
    run_op(test.shape, bf16_run, 5);
    for (std::size_t i = 0; i < test.items.size(); ++i) {
      const Item& item = test.items[i];
      if (item.access == Access::read) continue;
      const Value expected = item.narrow ? halves(item.value.f) : item.value;
      EXPECT_EQ(narrow_values[i].h, expected.h) << test.name << " operand " << i;
      EXPECT_EQ(narrow_values[i].f, expected.f) << test.name << " operand " << i;
      EXPECT_EQ(narrow_values[i].u, expected.u) << test.name << " operand " << i;
    }
  }
}

TEST(Bf16Ops, EveryOpThatMayHoldBf16IsTested) {
  std::vector<bool> seen(kOpKinds);
  for (const Case& test : cases()) seen[static_cast<std::size_t>(test.shape.kind)] = true;
  for (const OpKind fp32_only : {OpKind::ce_max, OpKind::ce_sum, OpKind::ce_loss, OpKind::ce_backward,
                                 OpKind::clip_coefficient}) {
    EXPECT_FALSE(seen[static_cast<std::size_t>(fp32_only)]);
    seen[static_cast<std::size_t>(fp32_only)] = true;
  }
  for (int kind = 0; kind < static_cast<int>(OpKind::all_gather); ++kind) {
    EXPECT_TRUE(seen[static_cast<std::size_t>(kind)]) << name_of(static_cast<OpKind>(kind));
  }
}

TEST(Bf16Ops, CrossEntropyTakesFp32LogitsOnly) {
  Value logits = halves({1, 2, 3, 4}), row_max = output(2);
  EXPECT_THROW(run_op(bf16(shape_of(OpKind::ce_max, {2, 2}), DType::bf16, DType::fp32), {in(logits), out(row_max)}),
               Error);
}

TEST(Bf16Ops, AMasterKeepsWhatItsParameterCannotHold) {
  // An update of 2^-10 of the weight is lost in bf16 (eight bits) and must add up in the master: after eight it shows.
  Value master = floats({1.0f}), m = floats({0.0f}), v = floats({0.0f}), parameter = halves({1.0f});
  Value gradient = floats({-1.0f}), clip = floats({1, 1});
  std::vector<float> seen;
  for (int step = 1; step <= 8; ++step) {
    Value scalars = floats({0x1p-10f, 0.0f, 0.0f, 0.0f, static_cast<float>(step)});  // no averages: lr sign(g) a step
    run_op(bf16(shape_of(OpKind::adamw, {1}), DType::fp32),
           {in(gradient), in(scalars), in(clip), inout(master), inout(m), inout(v), out(parameter)});
    EXPECT_EQ(master.f[0], 1.0f + static_cast<float>(step) * 0x1p-10f);
    seen.push_back(widen(parameter.h[0]));
  }
  // bf16 steps by 2^-7 from 1: 4/1024 is the tie and goes to 1, which is even.
  const float next = 1.0f + 0x1p-7f;
  EXPECT_EQ(seen, (std::vector<float>{1, 1, 1, 1, next, next, next, next}));
}

}  // namespace
}  // namespace benchsuite::testing_cpu
