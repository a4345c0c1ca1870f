#include "tests/engine/train/config_fixture.h"

#include <gtest/gtest.h>

namespace benchsuite {

TrainConfig good() {
  TrainConfig config;
  config.model.layers = 40;
  config.model.hidden = 5120;
  config.model.ffn_hidden = 20480;
  config.model.heads = config.model.kv_heads = 40;
  config.model.seq = 2048;
  config.model.vocab = 51200;
  config.layout.tp = 4;
  config.layout.pp = 4;
  config.layout.dp = 1;
  config.layout.micro_batch = 4;
  config.layout.global_batch = 32;
  return config;
}

std::vector<std::string> lines(Change change) {
  TrainConfig config = good();
  change(config);
  std::vector<std::string> texts;
  for (const Violation& violation : validate(config, "c.json", Wanted::times)) texts.push_back(to_string(violation));
  return texts;
}

std::vector<std::string> keys(Change change) {
  TrainConfig config = good();
  change(config);
  std::vector<std::string> found;
  for (const Violation& violation : validate(config, "c.json", Wanted::times)) {
    EXPECT_EQ(violation.file, "c.json");
    EXPECT_FALSE(violation.value.empty()) << violation.key;
    EXPECT_FALSE(violation.problem.empty()) << violation.key;
    EXPECT_FALSE(violation.remedy.empty()) << violation.key;
    found.push_back(violation.key);
  }
  return found;
}

}  // namespace benchsuite
