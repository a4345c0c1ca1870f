// Case files, --set and resolving.
#include "suite/cases/case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "suite/cases/resolve.h"
#include "suite/cases/stable_hash.h"
#include "suite/run/selection.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string text_of(const std::vector<Violation>& problems) {
  std::string text;
  for (const Violation& problem : problems) text += to_string(problem) + "\n";
  return text;
}

std::string problems_of(const Json& json) {
  std::vector<Violation> problems;
  read_case(json, "c.json", problems);
  return text_of(problems);
}

const DataRoot& root() {
  static const DataRoot project(BENCHSUITE_SOURCE_DIR);
  return project;
}

ResolvedCase resolve(const Json& json, const std::vector<std::string>& sets, std::string* wrong = nullptr) {
  std::vector<Violation> problems;
  std::vector<Override> overrides;
  for (const std::string& set : sets) overrides.push_back(parse_set(set));
  ResolvedCase resolved = resolve_case(read_case(json, "c.json", problems), overrides, root(), problems);
  if (wrong)
    *wrong = text_of(problems);
  else
    EXPECT_EQ(text_of(problems), "");
  return resolved;
}

std::string wrong_with(const Json& json, const std::vector<std::string>& sets) {
  std::string wrong;
  resolve(json, sets, &wrong);
  return wrong;
}

TEST(Case, ReadsEverything) {
  std::vector<Violation> problems;
  const CaseFile read = read_case(tiny_case("tiny"), "c.json", problems);
  EXPECT_EQ(text_of(problems), "");
  EXPECT_EQ(read.id, "tiny");
  ASSERT_EQ(read.variants.size(), 2u);
  EXPECT_EQ(read.variants[1].set[0].key, "layout.recompute");
  EXPECT_EQ(read.comparisons[0].from, "full");
}

TEST(Case, ListsAllViolationsAtOnce) {
  const std::string text =
      problems_of(Json::parse(R"({"schema_version": 2, "id": "Bad Id", "titel": "x", "tags": "a", "model": 3,
    "layout": "x", "stack": "plain", "hardware": "ideal", "variants": [{"id": "a"}, {"id": "a", "sett": {}}, {"id": "b", "set": 4}],
    "comparisons": [{"id": "c", "from": "a", "to": "bb"}, {"id": "c", "from": "b", "to": "b"}]})"));
  for (const char* part :
       {"schema_version = 2: this build reads version 1", "id = \"Bad Id\": not an identifier", "title: missing",
        "titel = \"x\": unknown key; did you mean \"title\"?", "tags = \"a\": must be a list of strings",
        "model = 3: must be a name or an object", "layout = \"x\": must be an object",
        "variants[1].id = \"a\": two variants", "variants[1].sett = {}: unknown key; did you mean \"set\"?",
        "variants[2].set = 4: must be an object",
        "comparisons[0].to = \"bb\": no variant has this id; did you mean \"b\"?",
        "comparisons[1].id = \"c\": two comparisons",
        "comparisons[1].to = \"b\": a comparison needs two different variants"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Case, NeedsVariants) {
  Json json = tiny_case("tiny");
  json["variants"] = Json::array();
  EXPECT_THAT(problems_of(json), HasSubstr("variants = []: must be a list with at least one object"));
}

TEST(Set, TakesJsonOrText) {
  EXPECT_EQ(parse_set("layout.tp=8").value, Json(8));
  EXPECT_EQ(parse_set("layout.sequence_parallel=true").value, Json(true));
  EXPECT_EQ(parse_set("hardware=dgx-h100").value, Json("dgx-h100"));
  EXPECT_EQ(parse_set("layout.recompute={\"granularity\": \"none\"}").value["granularity"], "none");
  EXPECT_EQ(parse_set("hardware=").value, Json(""));
  EXPECT_THROW(parse_set("layout.tp"), Error);
  EXPECT_THROW(parse_set("=8"), Error);
}

TEST(Set, PutsBelowObjects) {
  Json json = {{"a", 1}};
  EXPECT_EQ(put(json, "b.c", 2), "");
  EXPECT_EQ(json["b"]["c"], 2);
  EXPECT_THAT(put(json, "a.x", 2), HasSubstr("\"a\" holds 1, which has no keys"));
  EXPECT_THAT(put(json, "b..x", 2), HasSubstr("empty part"));
}

TEST(Resolve, VariantsAndSetsInOrder) {
  const ResolvedCase resolved = resolve(tiny_case("tiny"), {"layout.global_batch=8", "model.seq=64", "model.seq=16"});
  ASSERT_EQ(resolved.variants.size(), 2u);
  EXPECT_EQ(resolved.variants[0].config.layout.micro_batches(), 8);
  EXPECT_EQ(resolved.variants[0].config.model.seq, 16) << "the last --set wins";
  EXPECT_EQ(resolved.variants[0].config.layout.recompute.granularity, RecomputeGranularity::none);
  EXPECT_EQ(resolved.variants[1].config.layout.recompute.granularity, RecomputeGranularity::full);
  EXPECT_EQ(resolved.variants[0].hardware_name, "ideal");
  EXPECT_EQ(resolved.resolved["variants"][1]["layout"]["recompute"]["num_layers"], 1);
}

TEST(Resolve, SetOverridesTheVariant) {
  Json json = tiny_case("tiny");
  json["variants"][1]["set"] = {{"layout.global_batch", 8}};
  const ResolvedCase resolved = resolve(json, {"layout.micro_batch=2"});
  EXPECT_EQ(resolved.variants[1].config.layout.micro_batches(), 4);
  EXPECT_EQ(resolve(json, {"layout.global_batch=16"}).variants.size(), 1u) << "now the same: measured once";
}

TEST(Resolve, UnknownKeysGetSuggestions) {
  EXPECT_THAT(wrong_with(tiny_case("t"), {"layot.tp=8"}),
              AllOf(HasSubstr("--set: layot.tp = 8: unknown key"), HasSubstr("did you mean \"layout.tp\"?")));
  EXPECT_THAT(wrong_with(tiny_case("t"), {"layout.ttp=8"}),
              AllOf(HasSubstr("--set: layout.ttp = 8: unknown key"), HasSubstr("did you mean \"tp\"?")));
  EXPECT_THAT(wrong_with(tiny_case("t"), {"recompute.granularity=none"}),
              HasSubstr("did you mean \"layout.recompute.granularity\"?"));
  EXPECT_THAT(wrong_with(tiny_case("t"), {"zzzzzzzz=1"}),
              HasSubstr("keys start with model., layout., stack. or hardware."));
}

TEST(Resolve, UnknownNamesListTheKnownOnes) {
  EXPECT_THAT(wrong_with(tiny_case("t"), {"hardware=dgx-h10"}),
              AllOf(HasSubstr("--set: hardware = dgx-h10: unknown hardware profile"),
                    HasSubstr("did you mean \"dgx-h100\"?"), HasSubstr("dgx-a100-80g, ")));
  EXPECT_THAT(wrong_with(tiny_case("t"), {"model=gpt-99b-nothing-like-it"}),
              AllOf(HasSubstr("unknown model"), HasSubstr("known: gpt-"), HasSubstr(", gpt-13b, ")));
  EXPECT_THAT(wrong_with(tiny_case("t"), {"hardware=./no/such.json"}), HasSubstr("there is no such file"));
}

TEST(Resolve, ImpossibleLayoutsAreNamedOnce) {
  const std::string wrong = wrong_with(tiny_case("t"), {"layout.tp=3"});
  EXPECT_THAT(wrong, HasSubstr("model.heads = 4: is not a multiple of layout.tp = 3"));
  EXPECT_EQ(wrong.find("model.heads = 4"), wrong.rfind("model.heads = 4")) << "shared by both variants, told once:\n"
                                                                           << wrong;
}

TEST(Resolve, EqualVariantsAreRefusedButMergedUnderSet) {
  Json json = tiny_case("t");
  json["variants"].push_back({{"id", "again"}, {"title", "another name for the same"}});
  EXPECT_THAT(wrong_with(json, {}), AllOf(HasSubstr("again"), HasSubstr("same configuration as \"none\"")));
  const ResolvedCase merged = resolve(tiny_case("t"), {"layout.recompute={\"granularity\": \"none\"}"});
  ASSERT_EQ(merged.variants.size(), 1u);
  EXPECT_EQ(merged.variants[0].id, "none");
  EXPECT_THAT(merged.variants[0].title, HasSubstr("under --set also full"));
  EXPECT_EQ(merged.resolved["variants"].size(), 1u);
}

TEST(Hash, CoversPerformanceOnly) {
  const std::string hash = resolve(tiny_case("t"), {}).hash;
  Json renamed = tiny_case("other");
  renamed["title"] = "another title";
  renamed["tags"] = Json::array({"x"});
  EXPECT_EQ(resolve(renamed, {}).hash, hash);
  EXPECT_EQ(resolve(tiny_case("t"), {"model.name=\"x\"", "stack.title=\"x\""}).hash, hash);
  EXPECT_NE(resolve(tiny_case("t"), {"model.dropout=0"}).hash, hash);
  EXPECT_NE(resolve(tiny_case("t"), {"layout.global_batch=8"}).hash, hash);
  EXPECT_NE(resolve(tiny_case("t"), {"stack.fused_bias_gelu=true"}).hash, hash);
  EXPECT_NE(resolve(tiny_case("t"), {"hardware=dgx-h100"}).hash, hash);
}

TEST(Hash, TheOrderOfKeysDoesNotMatter) {
  EXPECT_EQ(stable_hash(Json::parse(R"({"a": 1, "b": 2})")), stable_hash(Json::parse(R"({"b": 2, "a": 1})")));
}

TEST(Select, MalformedFilesSayWhere) {
  const TemporaryFolder folder;
  write_text(folder.file("c.json"), "{\n  \"id\": ,\n}");
  std::vector<Violation> problems;
  Selection selection;
  selection.files = {folder.file("c.json"), folder.file("none.json")};
  EXPECT_TRUE(select_cases(selection, root(), problems).empty());
  EXPECT_THAT(text_of(problems), AllOf(HasSubstr("c.json: malformed JSON at line 2, column 9"),
                                       HasSubstr("none.json: there is no such file")));
}

TEST(Select, CommentsAreAllowed) {
  const TemporaryFolder folder;
  write_text(folder.file("c.json"), "// why\n" + tiny_case("mine").dump());
  std::vector<Violation> problems;
  Selection selection;
  selection.files = {folder.file("c.json")};
  const auto selected = select_cases(selection, root(), problems);
  EXPECT_EQ(text_of(problems), "");
  ASSERT_EQ(selected.size(), 1u);
  EXPECT_FALSE(selected[0].expected.has_value());
}

TEST(Select, GlobsTagsAndReferences) {
  const TemporaryFolder folder;
  make_root(folder.path());
  for (const char* id : {"tiny_a", "tiny_b", "other"})
    write_text(folder.file("cases/" + std::string(id) + ".json"), tiny_case(id).dump());
  write_text(folder.file("expected/tiny_a.json"),
             expected_for("tiny_a", {gate("g", "none.iteration_s", 0, nullptr)}).dump());
  const DataRoot own(folder.path());
  std::vector<Violation> problems;
  Selection selection;
  selection.names = {"tiny_*"};
  const auto selected = select_cases(selection, own, problems);
  ASSERT_EQ(selected.size(), 2u);
  EXPECT_TRUE(selected[0].expected.has_value());
  EXPECT_TRUE(selected[0].as_written);
  selection.sets = {"model.dropout=0.2"};
  EXPECT_FALSE(select_cases(selection, own, problems)[0].as_written);
  selection.sets = {"model.dropout=0.1"};  // what it is anyway
  EXPECT_TRUE(select_cases(selection, own, problems)[0].as_written);
  Selection tagged;
  tagged.tags = {"tiny"};
  EXPECT_EQ(select_cases(tagged, own, problems).size(), 3u);
  tagged.tags = {"large"};
  EXPECT_TRUE(select_cases(tagged, own, problems).empty());
  EXPECT_EQ(text_of(problems), "");
}

TEST(Select, ExpectationsMustFitTheCase) {
  const TemporaryFolder folder;
  make_root(folder.path());
  write_text(folder.file("cases/tiny.json"), tiny_case("tiny").dump());
  write_text(folder.file("expected/tiny.json"),
             expected_for("tiny", {gate("g", "nonee.iteration_s", 0, nullptr)}).dump());
  std::vector<Violation> problems;
  Selection selection;
  selection.names = {"tiny"};
  select_cases(selection, DataRoot(folder.path()), problems);
  EXPECT_THAT(text_of(problems), HasSubstr("no variant \"nonee\"; did you mean \"none\"?"));
}

}  // namespace
}  // namespace benchsuite
