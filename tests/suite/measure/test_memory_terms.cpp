// Formulas of memory against sizes worked out by hand.
#include "suite/measure/memory_terms.h"

#include <gtest/gtest.h>

namespace benchsuite {
namespace {

/// s 32, b 2, h 64, f 256, a 4, V 1024, t 2 with sequence parallelism, d 2, p 2, m 4, 16 bit.
TrainConfig config() {
  TrainConfig c;
  c.model = {.name = "tiny", .layers = 4, .hidden = 64, .ffn_hidden = 256, .heads = 4, .kv_heads = 4, .seq = 32, .vocab = 1000};
  c.layout.tp = c.layout.dp = c.layout.pp = c.layout.micro_batch = 2;
  c.layout.global_batch = 16;
  c.layout.sequence_parallel = true;
  return c;
}

TEST(MemoryLetters, EvaluateSumsOfProducts) {
  const TrainConfig c = config();
  const MemoryLetters letters(c, 0);
  EXPECT_EQ(letters.value("20"), 20);
  EXPECT_EQ(letters.value("e s b h/r"), 2 * 32 * 2 * 64 / 2);
  EXPECT_EQ(letters.value("e a s^2 b/t"), 2 * 4 * 32 * 32 * 2 / 2);
  EXPECT_EQ(letters.value("4 s b V/t"), 4 * 32 * 2 * 1024 / 2);
  EXPECT_EQ(letters.value("w V h/t/d"), 4 * 1024 * 64 / 4);
  EXPECT_EQ(letters.value("w V h/t - w V h/t/d + 4"), 4 * 1024 * 64 / 4 + 4);
  EXPECT_EQ(letters.value("e s b q/t"), 2 * 32 * 2 * 192 / 2);
  EXPECT_THROW(letters.value("z"), Error);
}

TEST(MemoryLetters, WithoutSequenceParallelismNothingIsDivided) {
  TrainConfig c = config();
  c.layout.sequence_parallel = false;
  EXPECT_EQ(MemoryLetters(c, 0).value("e s b h/r"), 2 * 32 * 2 * 64);
}

TEST(MemoryLetters, LayersAreThoseOfTheStage) {
  TrainConfig c = config();
  EXPECT_EQ(MemoryLetters(c, 0).value("L"), 2);
  c.layout.layer_split.first_stage = 1;
  EXPECT_EQ(MemoryLetters(c, 0).value("L"), 1);
  EXPECT_EQ(MemoryLetters(c, 1).value("L"), 3);
}

TEST(MemoryTerms, AFormulaIsNamedOnlyWhereItGivesTheBytes) {
  const TrainConfig c = config();
  const MemoryLetters letters(c, 0);
  EXPECT_EQ(term_formula(letters, Term::fc1_output, 2 * 32 * 2 * 256 / 2), "e s b f/t");
  EXPECT_EQ(term_formula(letters, Term::fc1_output, 2 * 2 * 32 * 2 * 256 / 2), "2 e s b f/t");
  EXPECT_EQ(term_formula(letters, Term::fc1_output, 12345), "");
}

TEST(MemoryTerms, ABucketIsAWholeNumberOfValuesUpToThoseOfTheRank) {
  TrainConfig c = config();
  c.layout.zero_stage = 2;
  const MemoryLetters letters(c, 0);
  EXPECT_EQ(term_formula(letters, Term::gathered_parameters, 2 * 1000), "e n");
  EXPECT_EQ(term_formula(letters, Term::gathered_parameters, 12345), "") << "no whole number of 16-bit values";
  EXPECT_EQ(term_formula(letters, Term::gathered_parameters, 4 * letters.value("e N")), "") << "more than the rank holds";
}

// SmolLM's heads: 15 and 5 of 64; 1 + 2/3 is no binary fraction.
TEST(MemoryTerms, WidthsOfGroupedQueriesAreExact) {
  TrainConfig c = config();
  c.model.hidden = 960, c.model.heads = 15, c.model.kv_heads = 5;
  c.layout.tp = 1;
  EXPECT_EQ(MemoryLetters(c, 0).value("q"), 960 + 2 * 5 * 64);
  EXPECT_EQ(term_formula(MemoryLetters(c, 0), Term::qkv, 2.0 * 32 * 2 * 1600), "e s b q/t");
}

// Of the GPT of config() with t 2 a threshold of 128 keeps norms and biases: per layer 6 x 64, 192/2, 256/2; two of the final norm.
TEST(MemoryTerms, ParametersThatZero3KeepsWhole) {
  TrainConfig c = config();
  c.layout.zero_stage = 3;
  c.stack.sharded_parameters.persistence_threshold = 128;
  EXPECT_EQ(MemoryLetters(c, 0).value("K"), 2 * (6 * 64 + 96 + 128));
  EXPECT_EQ(MemoryLetters(c, 1).value("K"), 2 * (6 * 64 + 96 + 128) + 2 * 64);
  c.layout.zero_stage = 2;
  EXPECT_EQ(MemoryLetters(c, 0).value("K"), 0);
}

TEST(MemoryTerms, ShardedStateMayCarryPadding) {
  TrainConfig c = config();
  c.layout.zero_stage = 1;
  const MemoryLetters letters(c, 0);
  const double whole = letters.value("4 N"), shard = letters.value("4 N/d");
  EXPECT_EQ(term_formula(letters, Term::master_bucket, whole), "4 N");
  EXPECT_EQ(term_formula(letters, Term::master_bucket, shard), "4 N/d");
  EXPECT_EQ(term_formula(letters, Term::master_bucket, shard + 512), "4 N/d + padding");
  EXPECT_EQ(term_formula(letters, Term::master_bucket, shard - 512), "");
  EXPECT_EQ(term_formula(letters, Term::master_bucket, 10 * whole), "") << "more than alignment can add";
}

}  // namespace
}  // namespace benchsuite
