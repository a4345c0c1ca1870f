// A small training plan and a folder of its own, for tests.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "engine/train/train_config.h"

namespace benchsuite {

/// A new folder that goes away with the test.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "benchsuite.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Four layers of width 32 on one rank, six steps of 4 samples of 16 tokens with dropout, warm-up and decay; no checkpoint.
inline TrainingPlan small_plan(const TestFolder& folder) {
  const std::string text = folder / "text";
  if (!std::filesystem::exists(text)) {
    std::ofstream file(text, std::ios::binary);
    for (int i = 0; i < 2000; ++i) file.put(static_cast<char>('a' + i * i % 23));
  }
  TrainingPlan plan;
  plan.file = "plan.json";
  plan.config.model = {.name = "tiny", .layers = 4, .hidden = 32, .ffn_hidden = 128, .heads = 4, .kv_heads = 4, .seq = 16,
                       .vocab = 256, .dropout = 0.1};
  plan.config.layout.precision = DType::fp32;
  plan.config.layout.global_batch = 4;
  plan.data.path = text;
  plan.learning_rate = {.peak = 1e-3, .minimum = 1e-4, .warmup = 2, .decay_steps = 6};
  plan.steps = 6;
  return plan;
}

}  // namespace benchsuite
