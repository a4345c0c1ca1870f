#include "suite/accuracy/flop_convention.h"

#include <array>

#include "engine/core/error.h"
#include "engine/model/flops.h"

namespace benchsuite {

namespace {

constexpr std::array<std::string_view, kFlopConventions> kIds = {
    "narayanan-2021", "korthikanti-2022", "megatron-causal", "palm-2022", "llm-foundry", "six-n", "bloom-early"};

/// What sources write, most telling first.
struct Words {
  std::string_view text;
  FlopConvention convention;
};
constexpr Words kWords[] = {
    {"8*N_layers", FlopConvention::bloom_early},
    {"3*(2N", FlopConvention::llm_foundry},
    {"6N+12L", FlopConvention::palm_2022},
    {"Megatron-Bridge model TFLOP/s", FlopConvention::megatron_causal},
    {"causal half", FlopConvention::megatron_causal},
    {"eq.(3) of arXiv:2104.04473", FlopConvention::narayanan_2021},
    {"eq.(3) F=96", FlopConvention::narayanan_2021},
    {"Narayanan eq.3", FlopConvention::narayanan_2021},
    {"Korthikanti", FlopConvention::korthikanti_2022},
    {"num_floating_point_operations", FlopConvention::korthikanti_2022},
    {"72*B*L*s*h^2", FlopConvention::korthikanti_2022},
    {"non-causal full attention", FlopConvention::korthikanti_2022},
    {"FULL (non-causal) attention", FlopConvention::korthikanti_2022},
    {"6N per token", FlopConvention::six_n},
    {"6*s*N + 12*L*h*s^2", FlopConvention::palm_2022},
    {"nanoGPT/PaLM", FlopConvention::palm_2022},
};

}  // namespace

std::string_view id_of(FlopConvention convention) { return kIds[static_cast<std::size_t>(convention)]; }

std::optional<FlopConvention> flop_convention_of(std::string_view text) {
  for (int i = 0; i < kFlopConventions; ++i) {
    if (text == kIds[static_cast<std::size_t>(i)]) return static_cast<FlopConvention>(i);
  }
  // A sentence that says what it is *not* ("FULL ...; Megatron-Bridge counts causal half") is told by its beginning.
  if (text.starts_with("FULL (non-causal)")) return FlopConvention::korthikanti_2022;
  for (const Words& words : kWords) {
    if (text.find(words.text) != std::string_view::npos) return words.convention;
  }
  return std::nullopt;
}

double step_flops(FlopConvention convention, const ModelConfig& model, std::int64_t global_batch) {
  const auto s = static_cast<double>(model.seq), h = static_cast<double>(model.hidden);
  const auto L = static_cast<double>(model.layers), V = static_cast<double>(model.vocab);
  const auto f = static_cast<double>(model.ffn_hidden);
  const double tokens = s * static_cast<double>(global_batch);
  const ParameterCount count = parameter_count(model, model.vocab);
  const auto N = static_cast<double>(count.total());
  const double kv_share = static_cast<double>(model.kv_heads) / static_cast<double>(model.heads);
  const double mlp = model.gated_mlp() ? 3 * h * f : 2 * h * f;
  const double linear = 6 * (2 * h * h * (1 + kv_share) + mlp);  // of one layer and token, forward and backward
  const double attention = 12 * h * s;
  switch (convention) {
    case FlopConvention::narayanan_2021: return 96 * tokens * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));
    case FlopConvention::korthikanti_2022: return tokens * (L * (linear + attention) + 6 * V * h);
    case FlopConvention::megatron_causal: return tokens * (L * (linear + attention / 2) + 6 * V * h);
    case FlopConvention::palm_2022:
    case FlopConvention::llm_foundry: return tokens * (6 * N + L * attention);
    case FlopConvention::six_n: return tokens * 6 * N;
    case FlopConvention::bloom_early: return tokens * 8 * static_cast<double>(count.layers);
  }
  CHECK(false) << "an unknown convention";
  return 0;
}

}  // namespace benchsuite
