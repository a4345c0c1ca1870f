#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>

#include "suite/report/json_text.h"
#include "suite/report/result_json.h"
#include "tests/suite/report/fixture.h"

namespace benchsuite {
namespace {

TEST(ResultJson, RoundTripKeepsEveryField) {
  benchsuite::Run run = synthetic_run();
  run.cases[0].variants[1].loss = 10.25;
  run.cases[0].variants[2].mfu.reset();
  run.cases[0].variants[2].stages[1].gantt[3].start += 1;  // one picosecond
  run.cases[0].variants[3].communication[0].expected_bytes = -1;
  run.cases[0].variants[3].stages[0].memory.saved_formula_bytes = -1;
  const std::string text = result_text(run);
  const benchsuite::Run back = run_from_json(parse_json(text, "result.json"));
  EXPECT_EQ(result_text(back), text);

  // to_json could forget a field both ways; the fields themselves are compared too.
  const VariantResult& a = run.cases[0].variants[2];
  const VariantResult& b = back.cases[0].variants[2];
  EXPECT_EQ(b.step, a.step);
  EXPECT_EQ(b.mean_breakdown.time, a.mean_breakdown.time);
  EXPECT_EQ(b.ranks_in_breakdown, a.ranks_in_breakdown);
  EXPECT_FALSE(b.mfu.has_value());
  EXPECT_EQ(b.hfu, a.hfu);
  EXPECT_EQ(b.layout, a.layout);
  EXPECT_EQ(b.model, a.model);
  EXPECT_EQ(b.ops, a.ops);
  EXPECT_EQ(b.speed_of_light_s, a.speed_of_light_s);
  EXPECT_EQ(b.bubble_over_ideal, a.bubble_over_ideal);
  EXPECT_EQ(b.fits, a.fits);
  ASSERT_EQ(b.bubble_parts.size(), a.bubble_parts.size());
  EXPECT_EQ(b.bubble_parts[1].seconds, a.bubble_parts[1].seconds);
  ASSERT_EQ(b.stages.size(), a.stages.size());
  for (std::size_t s = 0; s < a.stages.size(); ++s) {
    EXPECT_EQ(b.stages[s].breakdown.time, a.stages[s].breakdown.time);
    EXPECT_EQ(b.stages[s].peak_in_flight, a.stages[s].peak_in_flight);
    EXPECT_EQ(b.stages[s].memory.by_purpose, a.stages[s].memory.by_purpose);
    EXPECT_EQ(b.stages[s].memory.saved_terms[0].formula, a.stages[s].memory.saved_terms[0].formula);
    ASSERT_EQ(b.stages[s].memory.terms.size(), a.stages[s].memory.terms.size());
    EXPECT_EQ(b.stages[s].memory.terms[1].purpose, a.stages[s].memory.terms[1].purpose);
    EXPECT_EQ(b.stages[s].memory.terms[1].bytes, a.stages[s].memory.terms[1].bytes);
    ASSERT_EQ(b.stages[s].sent.size(), a.stages[s].sent.size());
    EXPECT_EQ(b.stages[s].sent[0].bytes, a.stages[s].sent[0].bytes);
    EXPECT_EQ(b.stages[s].sent[0].expected_bytes, a.stages[s].sent[0].expected_bytes);
    ASSERT_EQ(b.stages[s].gantt.size(), a.stages[s].gantt.size());
    for (std::size_t i = 0; i < a.stages[s].gantt.size(); ++i) {
      const GanttSpan& x = a.stages[s].gantt[i];
      const GanttSpan& y = b.stages[s].gantt[i];
      ASSERT_TRUE(x.category == y.category && x.micro_batch == y.micro_batch && x.chunk == y.chunk &&
                  x.start == y.start && x.end == y.end)
          << "span " << i;
    }
  }
  EXPECT_EQ(back.cases[0].variants[1].loss, 10.25);
  EXPECT_EQ(back.cases[0].variants[3].communication[0].expected_bytes, -1);
  EXPECT_EQ(back.cases[0].variants[3].stages[0].memory.saved_formula_bytes, -1);
  ASSERT_EQ(back.cases[0].checks.size(), run.cases[0].checks.size());
  EXPECT_NE(back.cases[0].checks[0].title, "") << "the fixture has one";
  for (std::size_t i = 0; i < run.cases[0].checks.size(); ++i) {
    const CheckResult& x = run.cases[0].checks[i];
    const CheckResult& y = back.cases[0].checks[i];
    EXPECT_EQ(y.id, x.id);
    EXPECT_EQ(y.title, x.title);
    EXPECT_EQ(y.verdict, x.verdict);
    EXPECT_EQ(y.value, x.value);
    EXPECT_EQ(y.pass_low, x.pass_low);
    EXPECT_EQ(y.pass_high, x.pass_high);
    EXPECT_EQ(y.warn_low, x.warn_low);
    EXPECT_EQ(y.warn_high, x.warn_high);
    EXPECT_EQ(y.target, x.target);
    EXPECT_EQ(y.gates, x.gates);
    EXPECT_EQ(y.source, x.source);
    EXPECT_EQ(y.explanation, x.explanation);
  }
  EXPECT_EQ(back.cases[0].waterfalls[0].parts[1].seconds, run.cases[0].waterfalls[0].parts[1].seconds);
  EXPECT_EQ(back.cases[0].waterfalls[0].one_line, run.cases[0].waterfalls[0].one_line);
  EXPECT_EQ(back.cases[0].method_note, run.cases[0].method_note);
  EXPECT_EQ(back.argv, run.argv);
}

TEST(ResultJson, HoldsTheDocumentedKeys) {
  const Json json = to_json(synthetic_run());
  EXPECT_EQ(json.at("schema_version"), 1);
  const Json& result = json.at("cases").at(0);
  for (const char* key : {"variants", "waterfall", "checks"}) EXPECT_TRUE(result.at(key).is_array()) << key;
  const Json& variant = result.at("variants").at(0);
  for (const char* key : {"iteration_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu", "gpu_busy",
                          "bubble_share", "peak_memory_gib", "fits", "loss"}) {
    EXPECT_TRUE(variant.contains(key)) << key;
  }
  EXPECT_TRUE(variant.at("loss").is_null());
  std::int64_t sum = 0;
  for (const auto& [name, time] : variant.at("breakdown").at("sum_ps").items()) sum += time.get<std::int64_t>();
  EXPECT_EQ(sum, variant.at("step_ps").get<std::int64_t>() * variant.at("breakdown").at("ranks").get<std::int64_t>());
  EXPECT_EQ(variant.at("stages").at(0).at("gantt").at(0).size(), 5u);
}

TEST(ResultJson, MicrosecondsAreTheShortestDecimalThatIsTheDouble) {
  const auto text = [](Picoseconds time) {
    std::string out;
    write_microseconds(time, out);
    return out;
  };
  EXPECT_EQ(text(0), "0.0");
  EXPECT_EQ(text(12'000'000), "12.0");
  EXPECT_EQ(text(325'087'620'723), "325087.620723");  // some writers say 325087.62072300003, which is the same double
  EXPECT_EQ(text(100), "0.0001");
  EXPECT_EQ(text(1'000'010), "1.00001");
  EXPECT_EQ(text(1), "1e-06");
  EXPECT_EQ(text(-2'500'000), "-2.5");
  std::mt19937_64 random(7);
  for (int i = 0; i < 20'000; ++i) {
    const auto time = static_cast<Picoseconds>(random() >> (i % 60 + 1));
    EXPECT_EQ(std::strtod(text(time).c_str(), nullptr), static_cast<double>(time) / 1e6) << time;
  }
}

TEST(ResultJson, PartsGiveTheTextOfTheDocument) {
  const benchsuite::Run run = synthetic_run();
  const std::string text = result_text(run);
  EXPECT_EQ(Json::parse(text), to_json(run));
  std::vector<SharedText> cases;
  for (const CaseResult& result : run.cases) {
    std::vector<SharedText> variants;
    for (const VariantResult& variant : result.variants) variants.push_back(variant_text(variant));
    cases.push_back(case_text(result, variants));
    EXPECT_GT(cases.back().pieces().size(), variants.size()) << "variants are shared";
    for (const SharedText& variant : variants) EXPECT_EQ(variant.pieces().front().use_count(), 2);
  }
  EXPECT_EQ(result_text(run, cases).joined(), text);
}

TEST(ResultJson, NonFiniteNumbersAreNull) {
  benchsuite::Run run = synthetic_run();
  run.cases[0].variants[0].iteration_s = std::numeric_limits<double>::quiet_NaN();
  run.cases[0].variants[0].mfu = std::numeric_limits<double>::infinity();
  run.cases[0].checks[0].value = -std::numeric_limits<double>::infinity();
  const Json json = to_json(run);
  EXPECT_TRUE(json.at("cases")[0].at("variants")[0].at("iteration_s").is_null());
  EXPECT_TRUE(json.at("cases")[0].at("variants")[0].at("mfu").is_null());
  EXPECT_TRUE(json.at("cases")[0].at("checks")[0].at("value").is_null());
  const std::string text = result_text(run);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(result_text(run_from_json(Json::parse(text))), text);
}

TEST(ResultJson, EqualRunsDifferOnlyUnderTheVolatileKeys) {
  benchsuite::Run other = synthetic_run();
  other.run_id = "20270101T000000Z-0000";
  other.started = "a";
  other.ended = "b";
  other.host = "elsewhere";
  other.cases[0].elapsed_s = 99;
  Json a = to_json(synthetic_run()), b = to_json(other);
  EXPECT_NE(a, b);
  for (Json* json : {&a, &b}) {
    for (std::string_view key : volatile_keys()) {
      json->erase(std::string(key));
      for (Json& result : json->at("cases")) result.erase(std::string(key));
    }
  }
  EXPECT_EQ(a.dump(), b.dump());
}

TEST(ResultJson, ReaderNamesEveryProblem) {
  Json json = to_json(synthetic_run());
  json["cases"][0]["variants"][0]["surprise"] = 1;
  json["cases"][0]["status"] = "GREAT";
  json["cases"][0]["variants"][1]["stages"][0]["gantt"] = Json::array({Json::array({0, 1, 99, 0, 0})});
  json["cases"][0]["checks"][0].erase("gates");
  try {
    run_from_json(json, "old.json");
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Error::Kind::config);
    const std::string what = error.what();
    for (const char* word : {"old.json", "surprise", "GREAT", "gantt", "cases[0].checks[0].gates"}) {
      EXPECT_NE(what.find(word), std::string::npos) << word << " in " << what;
    }
  }
}

TEST(ResultJson, RefusesAnotherSchemaVersion) {
  Json json = to_json(synthetic_run());
  json["schema_version"] = 2;
  json["new_things"] = true;
  try {
    run_from_json(json);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.violations().size(), 1u);
    EXPECT_NE(std::string(error.what()).find("schema_version"), std::string::npos);
  }
}

}  // namespace
}  // namespace benchsuite
