// The program itself: every verb, every exit code, what a stopped or broken run leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "tests/suite/support.h"

namespace benchsuite {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A working folder with a data root of its own.
class Binary : public testing::Test {
 protected:
  void SetUp() override {
    make_root(root());
    add_case("tiny", {gate("step", "none.iteration_s", 0, nullptr)});
  }
  std::string root() const { return folder_.file("root"); }
  std::string file(const std::string& name) const { return folder_.file(name); }
  void add_case(const std::string& id, const std::vector<Json>& expectations) {
    write_text(root() + "/cases/" + id + ".json", tiny_case(id).dump());
    if (!expectations.empty()) write_text(root() + "/expected/" + id + ".json", expected_for(id, expectations).dump());
  }
  Launch launch(const std::vector<std::string>& arguments) const {
    Launch result;
    result.arguments = arguments;
    result.folder = folder_.path();
    result.environment = {"BENCHSUITE_ROOT=" + root(), "CUDA_VISIBLE_DEVICES="};  // no GPU, wherever the test runs
    return result;
  }
  Finished call(const std::vector<std::string>& arguments) const { return run_program(launch(arguments)); }
  Json result(const std::string& out) const { return Json::parse(read_text(file(out + "/result.json"))); }

  TemporaryFolder folder_;
};

std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST_F(Binary, ExitZeroWhenEverythingPasses) {
  const Finished run = call({"run", "--case", "tiny", "--out", "r"});
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  EXPECT_THAT(run.out, HasSubstr("1 PASS, 0 WARN, 0 FAIL, 0 SKIP, 0 ERROR  [r]  exit=0\n"));
  for (const char* name : {"events.jsonl", "resolved_case.json", "result.json", "report.md", "report.html"}) {
    EXPECT_TRUE(fs::is_regular_file(file(std::string("r/") + name))) << name;
  }
  EXPECT_EQ(result("r")["cases"][0]["status"], "PASS");
  EXPECT_EQ(result("r")["cases"][0]["waterfall"].size(), 1u);
}

TEST_F(Binary, ExitOneWhenAnExpectationFails) {
  add_case("bad", {gate("impossible", "none.iteration_s", nullptr, 0)});
  const Finished run = call({"run", "--case", "bad", "--out", "r"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(result("r")["cases"][0]["status"], "FAIL");
  EXPECT_EQ(result("r")["cases"][0]["reason_code"], "BOUND_BROKEN");
  EXPECT_EQ(result("r")["exit_code"], 1);
  EXPECT_EQ(call({"run", "--case", "bad", "--out", "r2", "--fail-on", "never"}).exit_code, 0);
}

TEST_F(Binary, ExitTwoForBadUsage) {
  struct Mistake {
    std::vector<std::string> arguments;
    std::string message;
  };
  write_text(file("broken.json"), "{\"id\": \"x\",\n \"title\" 3}");
  write_text(file("file"), "");
  for (const Mistake& mistake : {
           Mistake{{"run", "--cas", "tiny"}, "unknown flag \"--cas\"; did you mean \"--case\"?"},
           {{"rum"}, "unknown verb \"rum\"; did you mean \"run\"?"},
           {{}, "a verb is needed"},
           {{"run"}, "nothing is selected"},
           {{"show"}, "nothing is selected"},
           {{"run", "--case", "tiny", "--set", "layout.tp"}, "not of the form KEY=VALUE"},
           {{"run", "--case", "tiny", "--set", "layout.tpp=2"}, "unknown key; did you mean"},
           {{"run", "--case", "tiny", "--set", "hardware=dgx-h10"}, "did you mean \"dgx-h100\"? known: "},
           {{"run", "--case", "tiny", "--set", "layout.pp=3"}, "layout.pp"},
           {{"run", "--case", "tiny", "--device", "gpu"}, "choose from sim, cpu, cuda"},
           {{"run", "--case", "tiny", "--progress", "plane"}, "did you mean \"plain\"?"},
           {{"run", "--case", "tiny", "--fail-on", "warm"}, "did you mean \"warn\"?"},
           {{"run", "--case", "tiny", "--inject", "chaos"}, "not a known fault"},
           {{"run", "--case", "tiny", "--timeout", "0"}, "must be more than 0"},
           {{"run", "--case", "tiny", "--out", "/proc/benchsuite"}, "the folder can't be made"},
           {{"run", "--case", "tiny", "--out", "file"}, "--out = file"},
           {{"run", "--case-file", "nowhere.json"}, "nowhere.json: there is no such file"},
           {{"run", "--case-file", "broken.json"}, "broken.json: malformed JSON at line 2, column 10"},
           {{"report", "nowhere"}, "there is no result.json"},
           {{"report", "nowhere", "--format", "pdf"}, "choose from console, md, html, json"},
           {{"validate", "broken.json"}, ""},
       }) {
    const Finished run = call(mistake.arguments);
    EXPECT_EQ(run.exit_code, 2) << mistake.message << run.out << run.err;
    EXPECT_THAT(run.err, HasSubstr(mistake.message));
    if (!mistake.message.empty()) {
      EXPECT_THAT(run.err, testing::StartsWith("benchsuite: "));
    }
  }
  EXPECT_FALSE(fs::exists(file("results"))) << "nothing was run, so nothing is left behind";
}

TEST_F(Binary, OneMistakeIsOneLine) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"run", "--case", "tiny", "--set", "hardware=dgx-h10"},
                                             {"run", "--case-file", "nowhere.json"},
                                             {"run", "--case", "tiny", "--out", "/proc/benchsuite"},
                                             {"run", "--case", "tiny", "--set", "layout.tpp=2"}}) {
    const Finished run = call(arguments);
    EXPECT_EQ(lines(run.err), 1u) << run.err;
  }
}

TEST_F(Binary, ExitThreeWhenAMetricIsMissing) {
  add_case("lossless", {gate("loss", "none.loss", 0, 100)});
  const Finished run = call({"run", "--case", "lossless", "--out", "r"});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_EQ(result("r")["cases"][0]["status"], "ERROR");
  EXPECT_EQ(result("r")["cases"][0]["reason_code"], "MISSING_METRIC");
}

TEST_F(Binary, ExitThreeOnAFullDisk) {
  Launch full = launch({"run", "--case", "tiny", "--out", "r"});
  full.file_size_limit = 2000;  // enough for events, too little for results
  const Finished run = run_program(full);
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_EQ(lines(run.err), 1u) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("can't be written"), HasSubstr("choose another --out")));
  EXPECT_FALSE(fs::exists(file("r/result.json"))) << "nothing looks complete";
  for (const fs::directory_entry& entry : fs::directory_iterator(file("r"))) {
    EXPECT_THAT(entry.path().string(), Not(testing::EndsWith(".tmp")));
  }
}

TEST_F(Binary, ExitFourWhenThereIsNothingToJudge) {
  const Finished none = call({"run", "--case", "tinny"});
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_THAT(none.err, HasSubstr("no case matches \"tinny\" (did you mean \"tiny\"?)"));
  EXPECT_THAT(none.out, HasSubstr("exit=4"));
  EXPECT_FALSE(fs::exists(file("results")));

  add_case("bare", {});
  const Finished bare = call({"run", "--case", "bare", "--out", "r"});
  EXPECT_EQ(bare.exit_code, 0);
  EXPECT_THAT(bare.out, HasSubstr("NOTHING WAS JUDGED"));
  EXPECT_EQ(call({"run", "--case", "bare", "--out", "r2", "--require-reference"}).exit_code, 4);
  EXPECT_EQ(call({"run", "--case", "bare", "--out", "r3", "--strict"}).exit_code, 1);
}

TEST_F(Binary, ExitFiveWhenEverythingIsSkipped) {
  const Finished run = call({"run", "--case", "tiny", "--device", "cuda", "--out", "cuda"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(result("cuda")["cases"][0]["status"], "SKIP");
  EXPECT_NE(result("cuda")["cases"][0]["reason"], "");
  EXPECT_EQ(result("cuda")["cases"][0]["reason_code"], "NO_GPU");
}

TEST_F(Binary, WithoutAGpuOneLineSaysWhatIsMissing) {
  const Finished run = call({"conform", "--device", "cuda"});
  EXPECT_EQ(run.exit_code, 5);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(lines(run.err), 1u) << run.err;
  EXPECT_THAT(run.err, HasSubstr("benchsuite: device cuda: "));
  EXPECT_EQ(call({"conform", "--device", "sim"}).exit_code, 2);
}

TEST_F(Binary, Exit124AtTheTimeLimit) {
  const Finished run = call({"run", "--case", "tiny", "--out", "r", "--inject", "delay=60", "--timeout", "0.2"});
  EXPECT_EQ(run.exit_code, 124) << run.err;
  EXPECT_EQ(result("r")["cases"][0]["status"], "TIMEOUT");
}

TEST_F(Binary, SignalsLeavePartialResults) {
  struct End {
    int signal;
    int code;
    const char* reason;
  };
  add_case("second", {gate("step", "none.iteration_s", 0, nullptr)});
  for (const End& end : {End{SIGINT, 130, "INTERRUPTED"}, {SIGTERM, 143, "TERMINATED"}}) {
    const std::string out = std::to_string(end.signal);
    Launch stopped = launch({"run", "--case", "*", "--out", out, "--inject", "delay=60"});
    stopped.signal = end.signal;
    stopped.signal_when = file(out + "/events.jsonl");
    const Finished run = run_program(stopped);
    EXPECT_EQ(run.exit_code, end.code) << run.err;
    EXPECT_THAT(run.out, HasSubstr(std::string("exit=").append(std::to_string(end.code))));
    const Json json = result(out);
    EXPECT_EQ(json["exit_code"], end.code);
    ASSERT_EQ(json["cases"].size(), 2u) << "cases that never ran are listed too";
    EXPECT_EQ(json["cases"][0]["status"], "ABORTED");
    EXPECT_EQ(json["cases"][0]["reason_code"], end.reason);
    EXPECT_EQ(json["cases"][1]["status"], "SKIP");
    EXPECT_EQ(json["cases"][1]["reason_code"], "INCOMPLETE");
    EXPECT_TRUE(fs::exists(file(out + "/report.html")));
  }
}

TEST_F(Binary, EventsTellTheRun) {
  ASSERT_EQ(call({"run", "--case", "tiny", "--out", "r"}).exit_code, 0);
  std::vector<std::string> events;
  std::istringstream text(read_text(file("r/events.jsonl")));
  for (std::string line; std::getline(text, line);) events.push_back(Json::parse(line)["event"]);
  EXPECT_EQ(events, (std::vector<std::string>{"run_started", "case_started", "variant_finished", "variant_finished",
                                              "case_finished", "run_finished"}));
}

TEST_F(Binary, DefaultFolderAndLatest) {
  ASSERT_EQ(call({"run", "--case", "tiny", "-q"}).exit_code, 0);
  ASSERT_TRUE(fs::is_symlink(file("results/latest")));
  const std::string id = Json::parse(read_text(file("results/latest/result.json")))["run_id"];
  EXPECT_EQ(fs::read_symlink(file("results/latest")), id);
}

TEST_F(Binary, ARunIsNeverOverwritten) {
  ASSERT_EQ(call({"run", "--case", "tiny", "--out", "r"}).exit_code, 0);
  const std::string before = read_text(file("r/result.json"));
  const Finished again = call({"run", "--case", "tiny", "--out", "r"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.err, HasSubstr("never overwritten"));
  EXPECT_EQ(read_text(file("r/result.json")), before);
}

TEST_F(Binary, JsonOnStandardOutput) {
  const Finished run = call({"run", "--case", "tiny", "--out", "r", "--json", "-"});
  EXPECT_EQ(run.out, read_text(file("r/result.json")));
  EXPECT_THAT(run.err, HasSubstr("exit=0"));
}

TEST_F(Binary, CaseFilesAndSets) {
  Json own = tiny_case("own");
  own["model"] = {{"family", "gpt"}, {"layers", 2}, {"hidden", 32}, {"heads", 2}, {"seq", 16}, {"vocab", 256}};
  write_text(file("own.json"), own.dump());
  const Finished run =
      call({"run", "--case-file", "own.json", "--set", "layout.tp=2", "--set", "hardware=dgx-h100", "--out", "r"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Json variant = result("r")["cases"][0]["variants"][0];
  EXPECT_EQ(variant["layout"]["tp"], 2);
  EXPECT_EQ(variant["model"]["hidden"], 32);
  EXPECT_EQ(variant["hardware"], "dgx-h100");
}

TEST_F(Binary, FailFastAndKeepGoing) {
  add_case("a_bad", {gate("impossible", "none.iteration_s", nullptr, 0)});
  EXPECT_EQ(call({"run", "--case", "*", "--out", "r1", "--fail-fast"}).exit_code, 1);
  EXPECT_EQ(result("r1")["cases"][1]["reason_code"], "INCOMPLETE");
  EXPECT_EQ(call({"run", "--case", "*", "--out", "r2", "--keep-going"}).exit_code, 1);
  EXPECT_EQ(result("r2")["cases"][1]["status"], "PASS");
}

TEST_F(Binary, TracesAndProofs) {
  const Finished run = call({"run", "--case", "tiny", "--out", "r", "--trace", "--verify"});
  EXPECT_EQ(run.exit_code, 0) << run.err << run.out;
  for (const char* variant : {"none", "full"}) {
    const Json trace =
        Json::parse(read_text(file(std::string("r/tiny.").append(variant).append(".trace.json"))), nullptr, false);
    EXPECT_FALSE(trace.is_discarded());
  }
}

TEST_F(Binary, ListShowReportValidate) {
  EXPECT_THAT(call({"list"}).out, HasSubstr("tiny  A tiny pipeline"));
  EXPECT_EQ(Json::parse(call({"list", "--json"}).out)[0]["id"], "tiny");
  EXPECT_EQ(call({"list", "--tag", "none"}).exit_code, 4);
  EXPECT_THAT(call({"list", "--long"}).out, HasSubstr("on ideal"));
  const Finished show = call({"show", "tiny", "--set", "layout.global_batch=8"});
  EXPECT_EQ(show.exit_code, 0) << show.err;
  EXPECT_THAT(show.out,
              AllOf(HasSubstr("layout.global_batch = 8"), HasSubstr("layout.recompute.granularity = \"full\""),
                    HasSubstr("bound step: pass [0, open]")));
  EXPECT_EQ(Json::parse(call({"show", "tiny", "--json"}).out)["variants"].size(), 2u);
  EXPECT_EQ(call({"show", "tinny"}).exit_code, 4);

  ASSERT_EQ(call({"run", "--case", "tiny", "--out", "r"}).exit_code, 0);
  EXPECT_THAT(call({"report", "r"}).out, HasSubstr("exit=0"));
  EXPECT_EQ(call({"report", "r", "--format", "md"}).out, read_text(file("r/report.md")));
  EXPECT_EQ(call({"report", "r/result.json", "--format", "html"}).out, read_text(file("r/report.html")));
  EXPECT_EQ(call({"report", "r", "--format", "md,json", "--out", "again"}).exit_code, 0);
  EXPECT_EQ(read_text(file("again/report.json")), read_text(file("r/result.json")));

  EXPECT_EQ(call({"validate"}).exit_code, 0);
  EXPECT_EQ(call({"validate", "r/result.json"}).exit_code, 0);
  write_text(file("root/cases/tiny.json"), R"({"variants": [], "layout": {}, "colour": 1})");
  const Finished bad = call({"validate"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.out, AllOf(HasSubstr("BAD   cases/tiny.json (case)"), HasSubstr("colour = 1: unknown key")));
  EXPECT_EQ(call({"list"}).exit_code, 2) << "a bad case is told, not hidden";
}

TEST_F(Binary, HelpHasAnExamplePerVerb) {
  EXPECT_THAT(call({"--help"}).out, HasSubstr("Example"));
  for (const char* verb : {"list", "show", "run", "report", "validate", "compare", "history", "env"}) {
    const Finished help = call({verb, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, AllOf(HasSubstr("Example"), HasSubstr(std::string("benchsuite ") + verb)));
    EXPECT_EQ(call({"help", verb}).out, help.out);
  }
  EXPECT_EQ(call({"help"}).out, call({"--help"}).out);
  const Finished mistyped = call({"help", "lits"});
  EXPECT_EQ(mistyped.exit_code, 2);
  EXPECT_THAT(mistyped.err, HasSubstr("help = lits: not a verb; did you mean \"list\"?"));
  EXPECT_THAT(call({"--version"}).out,
              AllOf(HasSubstr("benchsuite 0."), HasSubstr("schemas: case 1, expected 1, result 1")));
}

TEST_F(Binary, WithoutARootItSaysSo) {
  Launch lost = launch({"list"});
  lost.environment = {"BENCHSUITE_ROOT=" + file("nowhere")};
  const Finished run = run_program(lost);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("there is no cases/ folder"));
}

}  // namespace
}  // namespace benchsuite
