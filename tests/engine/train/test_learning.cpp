// One step of learning, whole: norm, clipping, AdamW and its decay exclusions against the formulas in double precision, applied to
// the gradients that the engine reports. The ops have tests of their own (device/cpu); here it shows that every parameter gets
// the update it should.
#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

using Values = std::map<std::string, std::vector<float>>;

/// Megatron: matrices decay; biases and the weights of norms don't.
bool decays(const std::string& name) {
  return name.ends_with(".weight") || name.ends_with(".words") || name.ends_with(".positions");
}

double norm_of(const Values& gradients) {
  double squares = 0;
  for (const auto& [name, values] : gradients) {
    for (const float value : values) squares += static_cast<double>(value) * value;
  }
  return std::sqrt(squares);
}

struct Setting {
  const char* name;
  ModelFamily family;
  bool spread;  ///< over tp2 sp pp2 dp2 instead of one rank
  float clip;
  bool clips;  ///< whether the norm is above `clip`
};

const Setting kSettings[] = {
    {"gpt", ModelFamily::gpt, false, 100, false},
    {"gpt_clipped", ModelFamily::gpt, false, 0.125f, true},
    {"gpt_spread_clipped", ModelFamily::gpt, true, 0.125f, true},
    {"llama_clipped", ModelFamily::llama, false, 0.125f, true},
    {"llama_spread", ModelFamily::llama, true, 0, false},
};

void PrintTo(const Setting& setting, std::ostream* out) { *out << setting.name; }

class Learning : public testing::TestWithParam<Setting> {};

TEST_P(Learning, ThreeStepsFollowAdamW) {
  const Setting& setting = GetParam();
  TrainConfig config = testing_train::tiny(setting.family, DType::fp32);
  if (setting.spread) {
    config.layout.tp = config.layout.pp = config.layout.dp = 2;
    config.layout.sequence_parallel = true;
  }
  const double rate = 0.01, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, decay = 0.5;
  CpuTrainingOptions options{.learning_rate = 0, .optimizer = {.clip = setting.clip, .weight_decay = 0.5f}};
  options.collect_gradients = true;
  Values before = train_on_cpu(config, options).parameters;  // at a rate of 0 nothing moves, decay included
  options.learning_rate = 0.01f;
  std::map<std::string, std::vector<double>> first, second;
  for (int step = 1; step <= 3; ++step) {
    options.steps = step;
    const CpuTrainingResult run = train_on_cpu(config, options);
    const double norm = norm_of(run.gradients);
    EXPECT_NEAR(run.gradient_norm.back(), norm, 1e-6 * norm);  // rounded to fp32
    EXPECT_EQ(setting.clip > 0 && norm > setting.clip, setting.clips) << "the setting does not test what it says";
    const double coefficient = setting.clips ? setting.clip / (norm + 1e-6) : 1;
    for (const auto& [name, gradient] : run.gradients) {
      std::vector<double>& m = first[name];
      std::vector<double>& v = second[name];
      m.resize(gradient.size()), v.resize(gradient.size());
      const std::vector<float>&w = before.at(name), &got = run.parameters.at(name);
      ASSERT_EQ(got.size(), gradient.size()) << name;
      double worst = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double g = coefficient * gradient[i];
        m[i] = beta1 * m[i] + (1 - beta1) * g;
        v[i] = beta2 * v[i] + (1 - beta2) * g * g;
        const double m_hat = m[i] / (1 - std::pow(beta1, step)), v_hat = v[i] / (1 - std::pow(beta2, step));
        const double wanted = w[i] - rate * (m_hat / (std::sqrt(v_hat) + epsilon) + (decays(name) ? decay * w[i] : 0));
        worst = std::max(worst, std::fabs(got[i] - wanted));
      }
      // An update of 0.01 whose 1 - beta is off by 1e-6 of itself, beside a weight of up to 1 in fp32.
      EXPECT_LT(worst, 2e-7) << name << ", step " << step;
    }
    EXPECT_EQ(run.parameters.size(), run.gradients.size()) << "a parameter is not trained";
    before = run.parameters;
  }
}

INSTANTIATE_TEST_SUITE_P(Settings, Learning, testing::ValuesIn(kSettings),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace benchsuite
