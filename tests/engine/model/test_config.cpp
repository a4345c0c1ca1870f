#include "engine/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace benchsuite {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelConfig read_text(const std::string& text, std::vector<std::string>& lines) {
  std::vector<Violation> problems;
  const ModelConfig model = read_model(parse_json(text, "m.json"), "m.json", "model", problems);
  for (const Violation& problem : problems) lines.push_back(to_string(problem));
  return model;
}

ModelConfig read_file(const std::string& name) {
  const std::string path = std::string(BENCHSUITE_SOURCE_DIR) + "/cases/models/" + name + ".json";
  std::vector<Violation> problems;
  const ModelConfig model = read_model(parse_json_file(path), path, "", problems);
  for (const Violation& problem : problems) ADD_FAILURE() << to_string(problem);
  return model;
}

TEST(Model, DefaultsFollowFromHiddenAndHeads) {
  std::vector<std::string> problems;
  const ModelConfig model =
      read_text(R"({"family": "gpt", "layers": 2, "hidden": 64, "heads": 4, "seq": 32, "vocab": 100})", problems);
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(model.ffn_hidden, 256);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_EQ(model.dropout, 0.1);
  EXPECT_EQ(model.head_dim(), 16);
  EXPECT_EQ(model.family, ModelFamily::gpt);
}

TEST(Model, EveryKeyIsReadAndRoundTrips) {
  std::vector<std::string> problems;
  const ModelConfig model = read_text(
      R"({"name": "x", "source": "somewhere", "family": "gpt", "layers": 2, "hidden": 64, "ffn_hidden": 100, "heads": 4,
          "kv_heads": 2, "seq": 32, "vocab": 101, "dropout": 0.25})",
      problems);
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(model.name, "x");
  EXPECT_EQ(model.source, "somewhere");
  EXPECT_EQ(model.layers, 2);
  EXPECT_EQ(model.hidden, 64);
  EXPECT_EQ(model.ffn_hidden, 100);
  EXPECT_EQ(model.heads, 4);
  EXPECT_EQ(model.kv_heads, 2);
  EXPECT_EQ(model.seq, 32);
  EXPECT_EQ(model.vocab, 101);
  EXPECT_EQ(model.dropout, 0.25);
  EXPECT_EQ(read_text(to_json(model).dump(), problems), model);
  EXPECT_THAT(problems, ElementsAre());
}

TEST(Model, LlamaHasNoDropoutAndStatesItsWidth) {
  std::vector<std::string> problems;
  const ModelConfig model = read_text(
      R"({"family": "llama", "layers": 2, "hidden": 64, "ffn_hidden": 176, "heads": 4, "kv_heads": 2, "seq": 32,
          "vocab": 100, "rope_theta": 500000})",
      problems);
  EXPECT_THAT(problems, ElementsAre());
  EXPECT_EQ(model.family, ModelFamily::llama);
  EXPECT_EQ(model.dropout, 0);
  EXPECT_EQ(model.rope_theta, 500000);
  EXPECT_EQ(read_text(to_json(model).dump(), problems), model);
  read_text(R"({"family": "llama", "layers": 2, "hidden": 64, "heads": 4, "seq": 32, "vocab": 100})", problems);
  read_text(R"({"family": "gpt", "layers": 2, "hidden": 64, "heads": 4, "seq": 32, "vocab": 100, "rope_theta": 1})",
            problems);
  EXPECT_THAT(problems, ElementsAre(HasSubstr("model.ffn_hidden: missing"), HasSubstr("model.rope_theta = 1: unknown key")));
}

TEST(Model, AllProblemsAtOnce) {
  std::vector<std::string> problems;
  read_text(R"({"family": "gptt", "layers": "many", "hiden": 64, "heads": 4, "seq": 32.5})", problems);
  EXPECT_THAT(
      problems,
      ElementsAre(HasSubstr("model.family = \"gptt\": not a known choice; did you mean \"gpt\"?"),
                  HasSubstr("model.layers = \"many\": must be a whole number"), HasSubstr("model.hidden: missing"),
                  HasSubstr("model.seq = 32.5: must be a whole number"), HasSubstr("model.vocab: missing"),
                  HasSubstr("model.hiden = 64: unknown key; did you mean \"hidden\"?")));
}

TEST(Model, AnAbsurdWidthDoesNotOverflow) {
  std::vector<std::string> problems;
  const ModelConfig model =
      read_text(R"({"family": "gpt", "layers": 2, "hidden": 9000000000000000000, "heads": 4, "seq": 32, "vocab": 100})",
                problems);
  EXPECT_EQ(model.ffn_hidden, 0);
}

TEST(Model, PaddedVocabulary) {
  // GPT-2's 50257 tokens at t = 1, 2, 4, 8 (Megatron, make_vocab_size_divisible_by 128).
  EXPECT_EQ(padded_vocab(50257, 1), 50304);
  EXPECT_EQ(padded_vocab(50257, 2), 50432);
  EXPECT_EQ(padded_vocab(50257, 4), 50688);
  EXPECT_EQ(padded_vocab(50257, 8), 51200);
  EXPECT_EQ(padded_vocab(51200, 8), 51200);
}

struct Published {
  const char* name;
  std::int64_t layers, hidden, heads;
};

TEST(Model, CommittedModelsHaveThePublishedDimensions) {
  // Korthikanti et al. 2022, Table 3; GPT-13B by Brown et al. 2020, Table 2.1, with 40 heads of 128.
  for (const auto& [name, layers, hidden, heads] :
       {Published{"gpt-13b", 40, 5120, 40}, Published{"gpt-22b", 48, 6144, 64}, Published{"gpt-175b", 96, 12288, 96},
        Published{"gpt-530b", 105, 20480, 128}, Published{"gpt-1t", 128, 25600, 160}}) {
    const ModelConfig model = read_file(name);
    EXPECT_EQ(model.layers, layers) << name;
    EXPECT_EQ(model.hidden, hidden) << name;
    EXPECT_EQ(model.heads, heads) << name;
    EXPECT_EQ(model.kv_heads, heads) << name;
    EXPECT_EQ(model.ffn_hidden, 4 * hidden) << name;
    EXPECT_EQ(model.seq, 2048) << name;
    EXPECT_EQ(model.vocab, 51200) << name;
    EXPECT_EQ(model.dropout, 0.1) << name;
  }
}

TEST(Model, CommittedLlamasHaveThePublishedDimensions) {
  struct Llama {
    const char* name;
    std::int64_t layers, hidden, ffn, heads, kv_heads, seq, vocab;
    double theta;
  };
  // Touvron et al. 2023, Table 1; Grattafiori et al. 2024, Table 3; vocabularies as released.
  for (const auto& [name, layers, hidden, ffn, heads, kv_heads, seq, vocab, theta] :
       {Llama{"llama2-7b", 32, 4096, 11008, 32, 32, 4096, 32000, 1e4},
        Llama{"llama3-8b", 32, 4096, 14336, 32, 8, 8192, 128256, 5e5},
        Llama{"llama3-70b", 80, 8192, 28672, 64, 8, 8192, 128256, 5e5}}) {
    const ModelConfig model = read_file(name);
    EXPECT_EQ(model.family, ModelFamily::llama);
    EXPECT_EQ(std::tuple(model.layers, model.hidden, model.ffn_hidden, model.heads, model.kv_heads, model.seq, model.vocab,
                         model.rope_theta, model.dropout),
              std::tuple(layers, hidden, ffn, heads, kv_heads, seq, vocab, theta, 0.0))
        << name;
  }
}

TEST(Model, EveryCommittedFileIsReadAndNamedAfterItself) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/models")) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    const ModelConfig model = read_file(entry.path().stem().string());
    EXPECT_EQ(model.name, entry.path().stem().string());
    EXPECT_FALSE(model.source.empty()) << model.name;
  }
  EXPECT_GE(files, 10);
}

}  // namespace
}  // namespace benchsuite
