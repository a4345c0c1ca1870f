// The engine against PyTorch (scripts/make_golden.py): loss and every gradient of a GPT and a Llama in fp32, from the same initial
// values and tokens. The two share nothing but definitions.
#include <filesystem>

#include "engine/core/json_reader.h"
#include "tests/engine/train/parity.h"

namespace benchsuite {
namespace {

struct Golden {
  TrainConfig config;
  std::uint64_t seed = 0;
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;
};

Golden read(const std::string& name) {
  const std::string path = std::string(BENCHSUITE_SOURCE_DIR) + "/tests/golden/" + name + ".json";
  const Json json = parse_json_file(path);
  Golden golden;
  std::vector<Violation> problems;
  golden.config.model = read_model(json.at("model"), path, "model", problems);
  EXPECT_TRUE(problems.empty());
  golden.config.layout.precision = DType::fp32;
  golden.config.layout.global_batch = json.at("samples").get<std::int64_t>();
  golden.seed = json.at("seed").get<std::uint64_t>();
  golden.loss = json.at("loss").get<double>();
  golden.gradients = json.at("gradients").get<std::map<std::string, std::vector<float>>>();
  return golden;
}

class GoldenGradients : public testing::TestWithParam<const char*> {};

TEST_P(GoldenGradients, AreThoseOfPyTorch) {
  Golden golden = read(GetParam());
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash}) {
    golden.config.layout.attention = kernel;
    const CpuTrainingResult result =
        train_on_cpu(golden.config, {.steps = 1, .seed = golden.seed, .poison = true, .collect_gradients = true});
    EXPECT_NEAR(result.loss[0], golden.loss, 2e-6);  // a few roundings of a loss of about 5 on either side
    EXPECT_EQ(result.gradients.size(), golden.gradients.size());
    // fp32 sums of a few hundred terms in another order on both sides: some ten roundings of 6e-8 of the largest value.
    EXPECT_LT(testing_train::largest_difference(result.gradients, golden.gradients), 3e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenGradients, testing::Values("gpt", "llama"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace benchsuite
