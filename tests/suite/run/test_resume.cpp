// Suites, and runs that are stopped, killed and taken up again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "suite/report/result_json.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Suites : public testing::Test {
 protected:
  void SetUp() override { make_root(folder_.file("root")); }
  std::string file(const std::string& name) const { return folder_.file(name); }

  void add_case(const std::string& id, const std::vector<std::string>& tags, bool good, int variants = 2) {
    Json json = tiny_case(id);
    json["tags"] = tags;
    for (int v = 2; v < variants; ++v) {
      json["variants"].push_back({{"id", "b" + std::to_string(v)}, {"set", {{"layout.global_batch", 4 * v}}}});
    }
    write_text(file("root/cases/" + id + ".json"), json.dump());
    write_text(file("root/expected/" + id + ".json"),
               expected_for(id, {gate("step", "none.iteration_s", good ? 0 : 1e9, nullptr),
                                 gate("ratio_of_two", "full.iteration_s", 0, nullptr)}).dump());
  }
  void add_suite(const std::string& id, const std::string& rest) {
    write_text(file("root/cases/suites/" + id + ".json"),
               R"({"schema_version": 1, "id": ")" + id + R"(", "title": "t", )" + rest + "}");
  }
  Launch launch(const std::vector<std::string>& arguments) const {
    Launch result;
    result.arguments = arguments;
    result.folder = folder_.path();
    result.environment = {"BENCHSUITE_ROOT=" + file("root")};
    return result;
  }
  Finished call(const std::vector<std::string>& arguments) const { return run_program(launch(arguments)); }
  Json result(const std::string& out) const { return Json::parse(read_text(file(out + "/result.json"))); }
  std::vector<std::string> statuses(const std::string& out) const {
    std::vector<std::string> list;
    const Json run = result(out);
    for (const Json& entry : run["cases"]) list.push_back(entry["id"].get<std::string>() + " " + entry["status"].get<std::string>());
    return list;
  }

  TemporaryFolder folder_;
};

using Words = std::vector<std::string>;

TEST_F(Suites, SelectByTagGlobAndExclude) {
  add_case("a_one", {"fast"}, true);
  add_case("a_two", {"slow"}, true);
  add_case("b_one", {"fast"}, true);
  add_case("c_one", {"other"}, true);
  add_suite("mixed", R"("select": [{"tag": "fast"}, {"case": "a_*"}], "exclude": ["b_*"])");
  ASSERT_EQ(call({"run", "--suite", "mixed", "--out", "r"}).exit_code, 0);
  EXPECT_EQ(statuses("r"), (Words{"a_one PASS", "a_two PASS"}));
  ASSERT_EQ(call({"run", "--suite", file("root/cases/suites/mixed.json"), "--exclude", "a_two", "--out", "r2"}).exit_code, 0);
  EXPECT_EQ(statuses("r2"), Words{"a_one PASS"});
  EXPECT_THAT(call({"list", "--suites"}).out, HasSubstr("mixed  t  [a_one, a_two]"));
  EXPECT_EQ(call({"validate"}).exit_code, 0);
}

TEST_F(Suites, MistakesAreToldNotSkipped) {
  add_case("a_one", {"nightly"}, true);
  add_suite("typo", R"("select": [{"tag": "nightli"}])");
  const Finished typo = call({"run", "--suite", "typo"});
  EXPECT_EQ(typo.exit_code, 2);
  EXPECT_THAT(typo.err, HasSubstr("no case has this tag; did you mean \"nightly\"?"));
  EXPECT_EQ(call({"validate"}).exit_code, 2);
  add_suite("odd", R"("select": [{"tag": "a", "case": "b"}], "maxfail": -1, "colour": 1)");
  const Finished odd = call({"run", "--suite", "odd"});
  EXPECT_THAT(odd.err, testing::AllOf(HasSubstr("either a tag or a case"), HasSubstr("maxfail"), HasSubstr("colour")));
  EXPECT_THAT(call({"run", "--suite", "nightlu"}).err, HasSubstr("unknown suite"));
  add_suite("none", R"("select": [{"tag": "nightly"}], "exclude": ["*"])");
  EXPECT_EQ(call({"run", "--suite", "none"}).exit_code, 4) << "an empty suite is not a pass";
}

TEST_F(Suites, StopAfterSoManyFailures) {
  add_case("a", {"s"}, false);
  add_case("b", {"s"}, true);
  add_case("c", {"s"}, false);
  add_case("d", {"s"}, true);
  add_suite("two", R"("select": [{"tag": "s"}], "maxfail": 2)");
  EXPECT_EQ(call({"run", "--suite", "two", "--out", "r"}).exit_code, 1);
  EXPECT_EQ(statuses("r"), (Words{"a FAIL", "b PASS", "c FAIL", "d SKIP"}));
  EXPECT_EQ(call({"run", "--tag", "s", "--fail-fast", "--out", "r2"}).exit_code, 1);
  EXPECT_EQ(statuses("r2"), (Words{"a FAIL", "b SKIP", "c SKIP", "d SKIP"}));
  EXPECT_EQ(call({"run", "--tag", "s", "--out", "r3"}).exit_code, 1);
  EXPECT_EQ(statuses("r3"), (Words{"a FAIL", "b PASS", "c FAIL", "d PASS"}));
  EXPECT_THAT(call({"run", "--tag", "s", "--out", "r4", "-q"}).out,
              "benchsuite: 4 cases: 2 PASS, 0 WARN, 2 FAIL, 0 SKIP, 0 ERROR  [r4]  exit=1\n");
}

TEST_F(Suites, FailedCasesRunAgain) {
  add_case("a", {"s"}, false);
  add_case("b", {"s"}, true);
  add_case("c", {"s"}, false);
  ASSERT_EQ(call({"run", "--tag", "s", "--set", "layout.global_batch=8", "--out", "r"}).exit_code, 1);
  add_case("c", {"s"}, true);
  ASSERT_EQ(call({"run", "--failed", "r", "--out", "again"}).exit_code, 1);
  EXPECT_EQ(statuses("again"), (Words{"a FAIL", "c PASS"}));
  EXPECT_EQ(result("again")["cases"][0]["variants"][0]["layout"]["global_batch"], 8) << "as it was asked for";
  add_case("a", {"s"}, true);
  ASSERT_EQ(call({"run", "--failed", "again", "--out", "third"}).exit_code, 0);
  EXPECT_EQ(statuses("third"), Words{"a PASS"});
  EXPECT_EQ(call({"run", "--failed", "third"}).exit_code, 4) << "nothing failed: nothing is run, which is not a pass";
  EXPECT_EQ(call({"run", "--failed", "r", "--case", "a"}).exit_code, 2);
  EXPECT_EQ(call({"run", "--failed", "nowhere"}).exit_code, 2);
}

TEST_F(Suites, OnlySomeVariants) {
  add_case("a", {"s"}, true);
  const Finished run = call({"run", "--case", "a", "--variant", "no*", "--out", "r"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json entry = result("r")["cases"][0];
  ASSERT_EQ(entry["variants"].size(), 1u);
  EXPECT_EQ(entry["variants"][0]["id"], "none");
  EXPECT_EQ(entry["checks"][0]["verdict"], "PASS");
  EXPECT_EQ(entry["checks"][1]["verdict"], "NOREF") << "it needs the other variant";
  EXPECT_EQ(entry["status"], "NOREF");
  EXPECT_EQ(entry["reason_code"], "NOT_SELECTED");
  ASSERT_EQ(call({"run", "--case", "a", "--out", "whole"}).exit_code, 0);
  EXPECT_EQ(entry["case_hash"], result("whole")["cases"][0]["case_hash"]) << "the variants are what they were";
  EXPECT_EQ(call({"run", "--case", "a", "--variant", "nope"}).exit_code, 4);
}

TEST_F(Suites, ASetThatSomeVariantsCanNotBear) {
  add_case("a", {"s"}, true, 4);  // "b3" has 12 samples a step, which 8 doesn't divide
  const std::vector<std::string> set = {"--set", "layout.micro_batch=8", "--set", "layout.pp=1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), set.begin(), set.end());
    return call(arguments);
  };
  const Finished all = with({"run", "--case", "a"});
  EXPECT_EQ(all.exit_code, 2);
  EXPECT_THAT(all.err, HasSubstr("--set: variants = none, full, b3: can't be had with it; choose others by --variant GLOB; it suits b2"));
  EXPECT_EQ(with({"run", "--case", "a", "--variant", "b2", "--out", "r"}).exit_code, 0);
  ASSERT_EQ(result("r")["cases"][0]["variants"].size(), 1u);
  EXPECT_EQ(with({"run", "--case", "a", "--variant", "b*"}).exit_code, 2) << "one that was asked for breaks";
}

TEST_F(Suites, VariantsThatASetMakesEqualAreMeasuredOnce) {
  add_case("a", {"s"}, true);
  const Finished run = call({"run", "--case", "a", "--set", R"(layout.recompute={"granularity":"none"})", "--out", "r"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json entry = result("r")["cases"][0];
  ASSERT_EQ(entry["variants"].size(), 1u);
  EXPECT_EQ(entry["variants"][0]["title"], "none; under --set also full");
  EXPECT_THAT(run.out, HasSubstr("note: full is the same as none under this --set: measured once"));
  EXPECT_EQ(entry["waterfall"].size(), 0u);
  EXPECT_EQ(entry["checks"][1]["verdict"], "NOREF") << "its variant is another one now";
}

TEST_F(Suites, ALogGetsAHeartbeat) {
  add_case("a", {"s"}, true);
  const std::vector<std::string> slow = {"run", "--case", "a", "--variant", "none", "--inject", "delay=11"};
  const Finished run = call(slow);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("still running: case 1 of 1, 0 of 1 variants done, 10 s"));
}

TEST_F(Suites, RepeatsReachEveryRendering) {
  add_case("a", {"s"}, true);
  const Finished run =
      call({"run", "--case", "a", "--repeat", "3", "--format", "md,html,junit,csv", "--out", "r"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("none: median of n = 3 steps, spread 0 (equal)"));
  const Json variant = result("r")["cases"][0]["variants"][0];
  EXPECT_EQ(variant["step_samples_s"], Json::array({variant["iteration_s"], variant["iteration_s"], variant["iteration_s"]}));
  EXPECT_EQ(variant["step_statistics"]["n"], 3);
  EXPECT_EQ(variant["step_statistics"]["spread"], 0);
  EXPECT_EQ(variant["step_statistics"]["median_s"], variant["iteration_s"]);
  EXPECT_THAT(read_text(file("r/report.md")), HasSubstr("| 3 | exact |"));
  EXPECT_THAT(read_text(file("r/report.html")), HasSubstr("median of 3"));
  EXPECT_THAT(read_text(file("r/junit.xml")), HasSubstr(", n = 3, spread 0"));
  EXPECT_THAT(read_text(file("r/report.csv")), testing::AllOf(HasSubstr("step_samples,3,1"), HasSubstr("step.2,")));
  EXPECT_THAT(run.out + run.err, HasSubstr("--repeat 3")) << "the reproduce line";
  EXPECT_EQ(call({"run", "--case", "a", "--repeat", "0"}).exit_code, 2);
}

TEST_F(Suites, PredictedAgainstMeasuredIsDecided) {
  add_case("a", {"s"}, true);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "sim"}).exit_code, 0);
  ASSERT_EQ(call({"run", "--case", "a", "--device", "cpu", "--repeat", "2", "--out", "cpu"}).exit_code, 0);
  EXPECT_EQ(result("cpu")["cases"][0]["variants"][0]["step_statistics"]["n"], 16);
  const Finished compared = call({"compare", "sim", "cpu"});
  EXPECT_EQ(compared.out.find("UNDECIDED"), std::string::npos) << compared.out;
  EXPECT_THAT(compared.out, HasSubstr("WORSE: iteration_s")) << "ideal hardware is faster than this one";
  const Finished ratio = call({"compare", "cpu", "--from", "full", "--to", "none"});
  EXPECT_THAT(ratio.out, HasSubstr("16 pairs")) << ratio.out;
}

TEST_F(Suites, HistoryIsKeptUnlessItCanNot) {
  add_case("a", {"s"}, true);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r1"}).exit_code, 0);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r2", "--no-history"}).exit_code, 0);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r3", "--inject", "drop-recomputed-collectives"}).exit_code, 0);
  EXPECT_EQ(Json::parse(call({"history", "list", "--json"}).out).size(), 1u) << "neither without history nor broken on purpose";
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r4"}).exit_code, 0);
  const Json trend = Json::parse(call({"history", "trend", "a", "--variant", "none", "--json"}).out);
  EXPECT_EQ(trend[0]["series"][0]["points"].size(), 2u);
  EXPECT_EQ(trend[0]["series"][0]["points"][0]["value"], result("r1")["cases"][0]["variants"][0]["iteration_s"]);
  add_case("a", {"s"}, true, 3);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r5"}).exit_code, 0);
  EXPECT_EQ(Json::parse(call({"history", "trend", "a", "--variant", "none", "--json"}).out)[0]["series"].size(), 2u);
  EXPECT_THAT(call({"history", "trend", "a"}).out, testing::AllOf(HasSubstr("│ new series at"), HasSubstr("not enough samples")));
  const std::string csv = call({"history", "export", "--format", "csv"}).out;
  EXPECT_THAT(csv, testing::StartsWith("run_id,started,"));
  EXPECT_EQ(call({"history", "show", "nothing"}).exit_code, 4);
  EXPECT_EQ(call({"history", "trend", "b"}).exit_code, 4);
  EXPECT_THAT(call({"history", "trend", "a", "--metric", "mfuu"}).err, HasSubstr("did you mean \"mfu\"?"));
  EXPECT_EQ(call({"history", "prune", "--keep", "1"}).exit_code, 0);
  EXPECT_EQ(Json::parse(call({"history", "list", "--json"}).out).size(), 1u);

  write_text(file("broken.sqlite"), "not a database, and long enough to look at: " + std::string(200, '.'));
  const Finished warned = call({"run", "--case", "a", "--out", "r6", "--history", "broken.sqlite"});
  EXPECT_EQ(warned.exit_code, 0) << "the run is what it is";
  EXPECT_THAT(warned.err, testing::AllOf(HasSubstr("warning"), HasSubstr("this run is not in the history")));
}

/// Without what may differ between two runs of the same thing.
Json essence(Json run) {
  for (const std::string_view key : volatile_keys()) run.erase(std::string(key));
  run.erase("argv");
  for (Json& entry : run["cases"]) entry.erase("elapsed_s");
  return run;
}

/// Starts the program and kills it with SIGKILL after `delay`. Returns whether it was still running.
bool kill_after(const Launch& launch, std::chrono::microseconds delay) {
  const pid_t child = ::fork();
  CHECK(child >= 0) << "fork";
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    if (nowhere < 0 || ::dup2(nowhere, STDOUT_FILENO) < 0 || ::dup2(nowhere, STDERR_FILENO) < 0) ::_exit(126);
    if (::chdir(launch.folder.c_str()) != 0) ::_exit(126);
    for (const std::string& entry : launch.environment) {
      const std::size_t equals = entry.find('=');
      ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
    }
    std::vector<std::string> words = {BENCHSUITE_BINARY};
    words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  std::this_thread::sleep_for(delay);
  int status = 0;
  const bool running = ::waitpid(child, &status, WNOHANG) == 0;
  if (running) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  return running;
}

TEST_F(Suites, KilledAnywhereAndResumedEndsTheSame) {
  add_case("a", {"s"}, true, 4);
  add_case("b", {"s"}, false, 4);
  add_case("c", {"s"}, true, 4);
  const Words base = {"run", "--tag", "s", "--maxfail", "3", "--inject", "delay=0.02"};
  const auto begin = std::chrono::steady_clock::now();
  Words whole = base;
  whole.insert(whole.end(), {"--out", "whole"});
  ASSERT_EQ(call(whole).exit_code, 1);
  const auto length = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  const Json wanted = essence(result("whole"));

  std::mt19937 random(20261129);
  std::size_t kills = 0, resumed_with_parts = 0;
  for (int round = 0; round < 6; ++round) {
    const std::string out = "r" + std::to_string(round);
    for (int attempt = 0; attempt < 12 && !fs::exists(file(out + "/result.json")); ++attempt) {
      Words arguments = base;
      arguments.insert(arguments.end(), {"--out", out});
      if (fs::exists(file(out))) {
        arguments = {"run", "--resume", out};
        if (fs::exists(file(out + "/variants")) || fs::exists(file(out + "/cases"))) ++resumed_with_parts;
      }
      std::uniform_int_distribution<std::int64_t> moment(0, length.count());
      if (kill_after(launch(arguments), std::chrono::microseconds(moment(random)))) ++kills;
    }
    if (!fs::exists(file(out))) continue;  // killed before it began each time: there is no run to resume
    const Finished last = call({"run", "--resume", out});
    EXPECT_EQ(last.exit_code, 1) << last.err;
    EXPECT_EQ(essence(result(out)), wanted) << out;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(file(out))) {
      EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr("/variants/"))) << "what is complete needs no parts";
    }
    std::istringstream events(read_text(file(out + "/events.jsonl")));
    std::size_t whole_lines = 0;
    for (std::string line; std::getline(events, line);) whole_lines += Json::parse(line, nullptr, false).is_discarded() ? 0u : 1u;
    EXPECT_GT(whole_lines, 2u);
  }
  EXPECT_GT(kills, 3u) << "the test killed something";
  EXPECT_GT(resumed_with_parts, 0u) << "something was kept over a kill";
}

TEST_F(Suites, WhatWasMeasuredIsNotMeasuredAgain) {
  add_case("a", {"s"}, true, 6);
  Launch slow = launch({"run", "--case", "a", "--out", "r", "--inject", "delay=0.05"});
  slow.signal = SIGINT;
  slow.signal_when = file("r/variants/a/none.json");
  const Finished stopped = run_program(slow);
  ASSERT_EQ(stopped.exit_code, 130) << stopped.err;
  EXPECT_EQ(statuses("r"), Words{"a ABORTED"}) << "partial results are there";
  const std::string part = read_text(file("r/variants/a/none.json"));
  ASSERT_NE(part, "");
  EXPECT_EQ(call({"report", "r/variants/a/none.json"}).exit_code, 0) << "a part is a result of its own";
  // A result that only the part has: it shows whether the part is used.
  Json marked = Json::parse(part);
  marked["cases"][0]["variants"][0]["ops"] = 424242;
  write_text(file("r/variants/a/none.json"), marked.dump());
  const Finished resumed = call({"run", "--resume", "r"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(result("r")["cases"][0]["variants"][0]["ops"], 424242);
  EXPECT_EQ(result("r")["cases"][0]["variants"].size(), 6u);
  const std::string complete = read_text(file("r/result.json"));
  const Finished again = call({"run", "--resume", "r"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("nothing to resume"));
  EXPECT_EQ(read_text(file("r/result.json")), complete) << "a completed result is never touched";
}

TEST_F(Suites, OnlyTheSameRunIsResumed) {
  add_case("a", {"s"}, true);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r"}).exit_code, 0);
  fs::remove(file("r/result.json"));
  EXPECT_EQ(call({"run", "--resume", "r", "--case", "a"}).exit_code, 2);
  EXPECT_EQ(call({"run", "--resume", "r", "--out", "s"}).exit_code, 2);
  EXPECT_EQ(call({"run", "--resume", "nowhere"}).exit_code, 2);
  Json request = Json::parse(read_text(file("r/request.json")));
  request["engine_commit"] = "another";
  const std::string good = read_text(file("r/request.json"));
  write_text(file("r/request.json"), request.dump());
  EXPECT_THAT(call({"run", "--resume", "r"}).err, HasSubstr("begun by engine another"));
  write_text(file("r/request.json"), good);
  EXPECT_EQ(call({"run", "--resume", "r"}).exit_code, 0);
  fs::remove(file("r/result.json"));
  add_case("a", {"s"}, true, 3);
  EXPECT_THAT(call({"run", "--resume", "r"}).err, HasSubstr("the cases have changed"));
}

TEST_F(Suites, CompareFromTheCommandLine) {
  add_case("a", {"s"}, true);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r1"}).exit_code, 0);
  ASSERT_EQ(call({"run", "--case", "a", "--out", "r2"}).exit_code, 0);
  ASSERT_EQ(call({"run", "--case", "a", "--set", "layout.global_batch=8", "--out", "other"}).exit_code, 0);
  const Finished same = call({"compare", "r1", "r2"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_THAT(same.out, testing::AllOf(HasSubstr("benchsuite compare: SAME"), HasSubstr("n = 1, exact")));
  EXPECT_EQ(call({"compare", "r1", "other"}).exit_code, 2) << "two different cases";
  EXPECT_EQ(call({"compare", "r1", "other", "--force"}).exit_code, 1) << "twice the samples take longer";
  EXPECT_EQ(call({"compare", "r1", "--from", "full", "--to", "none"}).exit_code, 0);
  const Finished worse = call({"compare", "r1", "--from", "none", "--to", "full", "--json", "-", "--out", "c"});
  EXPECT_EQ(worse.exit_code, 1);
  EXPECT_EQ(Json::parse(worse.out)["exit_code"], 1);
  EXPECT_EQ(Json::parse(worse.out)["variants"][0]["step_ratio"]["pairs"], 1);
  for (const char* name : {"c/compare.html", "c/compare.md", "c/compare.json"}) EXPECT_TRUE(fs::exists(file(name))) << name;
  ASSERT_EQ(call({"run", "--case", "a", "--device", "cpu", "--out", "measured"}).exit_code, 0);
  const Finished predicted = call({"compare", "r1", "measured"});
  EXPECT_LE(predicted.exit_code, 1) << predicted.out;
  EXPECT_THAT(predicted.out, HasSubstr("predicted against measured"));
  const Finished hardware = call({"compare", "--case", "a", "--hardware", "dgx-a100-80g", "dgx-h100", "--variant", "none"});
  EXPECT_LE(hardware.exit_code, 1) << hardware.err << hardware.out;
  EXPECT_THAT(hardware.out, HasSubstr("two hardware profiles"));
  for (const Words& mistake : {Words{"compare"}, {"compare", "r1"}, {"compare", "r1", "r2", "--hardware", "ideal", "dgx-h100"},
                               {"compare", "r1", "--from", "none"}, {"compare", "r1", "nowhere"},
                               {"compare", "r1", "--from", "none", "--to", "ful"}}) {
    EXPECT_EQ(call(mistake).exit_code, 2) << testing::PrintToString(mistake);
  }
  Json doctored = result("r1");
  doctored["cases"][0]["checks"][0]["value"] = -1;
  write_text(file("doctored.json"), doctored.dump());
  EXPECT_EQ(call({"compare", "doctored.json", "r2"}).exit_code, 2);
  EXPECT_EQ(call({"validate", "doctored.json"}).exit_code, 2) << "a check that passed outside its bounds";
}

}  // namespace
}  // namespace benchsuite
