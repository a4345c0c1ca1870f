#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "engine/core/json_reader.h"

namespace benchsuite {
namespace {

using ::testing::HasSubstr;

std::string config_message(const std::string& text) {
  try {
    parse_json(text, "case.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    EXPECT_EQ(error.violations().size(), 1u);
    EXPECT_EQ(error.violations().front().file, "case.json");
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(ParseJson, AllowsComments) {
  const Json json = parse_json("// a note\n{\"tp\": 4 /* ranks */}", "case.json");
  EXPECT_EQ(json.at("tp"), 4);
}

TEST(ParseJson, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json("{\"b\": 1, \"a\": 2}", "case.json").dump(), "{\"b\":1,\"a\":2}");
}

TEST(ParseJson, AKeyGivenTwiceIsRefused) {
  EXPECT_THAT(config_message("{\"layout\": {\"tp\": 1, \"pp\": 2, \"tp\": 2}}"), HasSubstr("layout.tp: is given twice"));
  EXPECT_THAT(config_message("{\"a\": [{\"b\": 1}, {\"b\": 2}], \"a\": 3}"), HasSubstr("a: is given twice"));
  EXPECT_NO_THROW(parse_json("{\"a\": [{\"b\": 1}, {\"b\": 2}], \"b\": {\"a\": 1}}", "case.json"));
}

TEST(ParseJson, MalformedNamesLineAndColumn) {
  // The colon's place is taken by the number's first digit: line 3, column 9.
  EXPECT_THAT(config_message("{\n  \"tp\": 4,\n  \"pp\"  4\n}\n"), HasSubstr("malformed JSON at line 3, column 9:"));
  EXPECT_THAT(config_message("{\"tp\": 4,, \"pp\": 2}"), HasSubstr("line 1, column 10:"));
  EXPECT_THAT(config_message("@"), HasSubstr("line 1, column 1:"));
  EXPECT_THAT(config_message("[1,\n2,\n\n   ?]"), HasSubstr("line 4, column 4:"));
}

TEST(ParseJson, MalformedAtTheEndOfTheText) {
  EXPECT_THAT(config_message("{\n  \"tp\": 4"), HasSubstr("line 2, column 10:"));
  EXPECT_THAT(config_message(""), HasSubstr("line 1, column 1:"));
}

TEST(ParseJson, AMissingFileIsAnIoErrorThatNamesIt) {
  try {
    parse_json_file("no/such/case.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::io);
    EXPECT_THAT(error.what(), HasSubstr("no/such/case.json"));
  }
}

TEST(ParseJson, AFileIsReadAndNamed) {
  const std::string path = ::testing::TempDir() + "benchsuite_json_reader.json";
  std::ofstream(path) << "{\"tp\": 4}";
  EXPECT_EQ(parse_json_file(path).at("tp"), 4);
  std::ofstream(path) << "{\"tp\" 4}";
  try {
    parse_json_file(path);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path + ": malformed JSON at line 1, column 7"));
  }
  std::remove(path.c_str());
}

TEST(DidYouMean, ClosestWithinReach) {
  const std::vector<std::string> known = {"micro_batch", "global_batch", "tp", "sequence_parallel"};
  EXPECT_EQ(did_you_mean("mico_batch", known), "micro_batch");
  EXPECT_EQ(did_you_mean("sequence_paralel", known), "sequence_parallel");
  EXPECT_EQ(did_you_mean("tpp", known), "tp");
  EXPECT_EQ(did_you_mean("completely_other", known), "");
}

struct Read {
  std::vector<Violation> problems;

  std::string only() const {
    EXPECT_EQ(problems.size(), 1u);
    return problems.empty() ? "" : to_string(problems.front());
  }
};

TEST(ObjectReader, ReadsEveryType) {
  Read read;
  const Json json = parse_json(R"({"b": true, "i": 3, "l": 9000000000, "d": 0.5, "s": "x", "w": ["a", "b"]})", "c");
  ObjectReader reader(json, "c.json", "layout", read.problems);
  bool b = false;
  int i = 0;
  std::int64_t l = 0;
  double d = 0;
  std::string s;
  std::vector<std::string> w;
  reader.required("b", b);
  reader.required("i", i);
  reader.required("l", l);
  reader.required("d", d);
  reader.required("s", s);
  reader.required("w", w);
  reader.finish();
  EXPECT_TRUE(read.problems.empty());
  EXPECT_TRUE(b);
  EXPECT_EQ(i, 3);
  EXPECT_EQ(l, 9'000'000'000);
  EXPECT_EQ(d, 0.5);
  EXPECT_EQ(s, "x");
  EXPECT_EQ(w, (std::vector<std::string>{"a", "b"}));
}

TEST(ObjectReader, WrongTypesAreNamedWithTheirValue) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"k": 1})", "c.json: layout.k = 1: must be true or false; write true or false"},
      {R"({"k": "4"})", "c.json: layout.k = \"4\": must be true or false; write true or false"}};
  for (const auto& [text, message] : cases) {
    Read read;
    const Json json = parse_json(text, "c");
    ObjectReader reader(json, "c.json", "layout", read.problems);
    bool out = false;
    reader.required("k", out);
    EXPECT_EQ(read.only(), message);
  }
  for (const char* text : {R"({"k": 1.5})", R"({"k": "4"})", R"({"k": 18446744073709551615})", R"({"k": null})"}) {
    Read read;
    const Json json = parse_json(text, "c");
    ObjectReader reader(json, "c.json", "layout", read.problems);
    std::int64_t out = 7;
    reader.required("k", out);
    EXPECT_THAT(read.only(), HasSubstr("must be a whole number")) << text;
    EXPECT_EQ(out, 7) << "a refused value must not be stored";
  }
  {
    Read read;
    const Json json = parse_json(R"({"k": 4294967296})", "c");
    ObjectReader reader(json, "c.json", "", read.problems);
    int out = 0;
    reader.required("k", out);
    EXPECT_EQ(read.only(),
              "c.json: k = 4294967296: must be a whole number below 2^31; write a whole number below 2^31");
  }
  {
    Read read;
    const Json json = parse_json(R"({"d": "x", "s": 1, "w": [1], "v": "a"})", "c");
    ObjectReader reader(json, "c.json", "", read.problems);
    double d = 0;
    std::string s;
    std::vector<std::string> w, v;
    reader.required("d", d);
    reader.required("s", s);
    reader.required("w", w);
    reader.required("v", v);
    ASSERT_EQ(read.problems.size(), 4u);
    EXPECT_EQ(read.problems[0].problem, "must be a number");
    EXPECT_EQ(read.problems[1].problem, "must be a string");
    EXPECT_EQ(read.problems[2].problem, "must be a list of strings");
    EXPECT_EQ(read.problems[3].problem, "must be a list of strings");
  }
}

TEST(ObjectReader, MissingAndOptional) {
  Read read;
  const Json json = Json::object();
  ObjectReader reader(json, "c.json", "layout", read.problems);
  std::int64_t out = 5;
  reader.optional("vpp", out);
  EXPECT_TRUE(read.problems.empty());
  EXPECT_EQ(out, 5);
  reader.required("tp", out);
  EXPECT_EQ(read.only(), "c.json: layout.tp: missing; add \"tp\"");
}

TEST(ObjectReader, UnknownKeysAreRefusedWithAGuess) {
  Read read;
  const Json json = parse_json(R"({"tp": 2, "micro_bach": 3, "zzzzzzzz": 1})", "c");
  ObjectReader reader(json, "c.json", "layout", read.problems);
  std::int64_t out = 0;
  reader.required("tp", out);
  reader.optional("micro_batch", out);
  reader.finish();
  ASSERT_EQ(read.problems.size(), 2u);
  EXPECT_EQ(to_string(read.problems[0]), "c.json: layout.micro_bach = 3: unknown key; did you mean \"micro_batch\"?");
  EXPECT_EQ(to_string(read.problems[1]), "c.json: layout.zzzzzzzz = 1: unknown key; known keys: tp micro_batch");
}

TEST(ObjectReader, ChoicesListTheirWords) {
  for (const auto& [text, message] :
       {std::pair{R"({"k": "flsh"})", "not a known choice; did you mean \"flash\"? (flash, unfused)"},
        std::pair{R"({"k": "completely"})", "not a known choice; choose one of: flash, unfused"},
        std::pair{R"({"k": 3})", "not a known choice; choose one of: flash, unfused"}}) {
    Read read;
    const Json json = parse_json(text, "c");
    ObjectReader reader(json, "c.json", "", read.problems);
    int out = 0;
    reader.choice("k", out, {{"flash", 1}, {"unfused", 2}});
    EXPECT_THAT(read.only(), HasSubstr(message));
    EXPECT_EQ(out, 0);
  }
  Read read;
  const Json json = parse_json(R"({"k": "unfused"})", "c");
  ObjectReader reader(json, "c.json", "", read.problems);
  int out = 0;
  reader.choice("k", out, {{"flash", 1}, {"unfused", 2}});
  EXPECT_EQ(out, 2);
  reader.choice("absent", out, {{"flash", 1}}, true);
  EXPECT_EQ(read.only(), "c.json: absent: missing; add \"absent\"");
}

TEST(ObjectReader, SomethingElseThanAnObject) {
  Read read;
  const Json json = parse_json("[1]", "c");
  ObjectReader reader(json, "c.json", "layout", read.problems);
  EXPECT_FALSE(reader.has("tp"));
  std::int64_t out = 0;
  reader.required("tp", out);
  reader.finish();
  EXPECT_EQ(read.only(), "c.json: layout = [1]: an object is needed here; write {\"key\": value, ...}");
}

TEST(ObjectReader, OwnProblemsShowTheValue) {
  Read read;
  const Json json = parse_json(R"({"tp": 3})", "c");
  ObjectReader reader(json, "c.json", "layout", read.problems);
  reader.problem("tp", "odd", "even it");
  EXPECT_EQ(read.only(), "c.json: layout.tp = 3: odd; even it");
}

}  // namespace
}  // namespace benchsuite
