// Every input that fuzzing kept (tests/fuzz), through the readers.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tests/fuzz/readers.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

std::size_t each(const std::string& kind, const std::function<void(const std::string&)>& read) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BENCHSUITE_SOURCE_DIR) + "/tests/fuzz/corpus/" + kind)) {
    SCOPED_TRACE(entry.path().string());
    try {
      read(read_text(entry.path().string()));
    } catch (const fuzz::Wrong& wrong) {
      ADD_FAILURE() << wrong.what;
    }
    ++count;
  }
  return count;
}

TEST(FuzzCorpus, Cases) {
  const DataRoot root(BENCHSUITE_SOURCE_DIR);
  EXPECT_GT(each("case", [&](const std::string& text) { fuzz::read_as_case(text, root); }), 5u);
}
TEST(FuzzCorpus, Expectations) { EXPECT_GT(each("expected", fuzz::read_as_expected), 5u); }
TEST(FuzzCorpus, Results) { EXPECT_GT(each("result", fuzz::read_as_result), 5u); }

TEST(FuzzCorpus, TheCheckNoticesAWrongPass) {
  // An expectation over a constant would hold whatever was measured; the reader has to refuse it.
  std::vector<Violation> problems;
  const Json constant = {{"schema_version", 1},
                         {"case", "x"},
                         {"expectations",
                          {{{"id", "a"}, {"metric", {{"value", 1}}}, {"unit", "1"}, {"kind", "bound"},
                            {"pass", Json::array({0, 2})}, {"provenance", {{"source", "s"}}}}}}};
  read_expected(constant, "f", problems);
  EXPECT_EQ(problems.size(), 1u);
}

TEST(DeepNesting, IsRefusedBeforeTheStackEnds) {
  for (const std::string& open : {std::string("["), std::string("{\"a\":"), std::string("{\"sum\":[1,")}) {
    std::string text;
    for (int i = 0; i < 200000; ++i) text += open;
    EXPECT_THROW(parse_json(text, "deep"), Error);
  }
  EXPECT_NO_THROW(parse_json("[\"[[[[\", \"\\\"[\", [[]] /* [[[ */]// [[[", "brackets in strings and comments"));
}

}  // namespace
}  // namespace benchsuite
