// train, as a person meets it: real processes, real signals, a full disk, ranks as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <utility>

#include "tests/suite/support.h"

namespace benchsuite {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Two tensor ranks and two stages, six steps, a checkpoint after each.
Json small_config() {
  return Json::parse(R"({
    "schema_version": 1, "model": "gpt-tiny", "stack": "plain",
    "layout": {"tp": 2, "pp": 2, "dp": 1, "micro_batch": 2, "global_batch": 8, "sequence_parallel": true,
               "precision": "fp32", "attention": "flash"},
    "data": {"path": "text"},
    "optimizer": {"lr": 1e-3, "min_lr": 1e-4, "warmup": 2, "decay_steps": 6},
    "steps": 6, "checkpoint": {"every": 1, "keep": 2, "dir": "saved"}, "log": "log.jsonl"})");
}

class Train : public testing::Test {
 protected:
  void SetUp() override {
    make_root(file("root"));
    std::string text;
    for (int i = 0; i < 4000; ++i) text += static_cast<char>('a' + i * i % 23);
    write_text(file("text"), text);
  }
  std::string file(const std::string& name) const { return folder_.file(name); }
  Launch launch(const std::vector<std::string>& arguments) const {
    Launch result;
    result.arguments = {"train", "--config", "c.json"};
    result.arguments.insert(result.arguments.end(), arguments.begin(), arguments.end());
    result.folder = folder_.path();
    result.environment = {"BENCHSUITE_ROOT=" + file("root")};
    return result;
  }
  Finished train(const Json& config, const std::vector<std::string>& arguments = {}) const {
    write_text(file("c.json"), config.dump());
    return run_program(launch(arguments));
  }
  /// (step, loss, gradient norm) of every step event; of a step that was trained again, the last.
  std::map<int, std::pair<double, double>> curve(const std::string& log = "log.jsonl") const {
    std::map<int, std::pair<double, double>> steps;
    std::istringstream lines(read_text(file(log)));
    for (std::string line; std::getline(lines, line);) {
      const Json event = Json::parse(line);
      if (event["event"] == "step") steps[event["step"]] = {event["loss"], event["gradient_norm"]};
    }
    return steps;
  }
  /// Exit code and both outputs of a shell script in the working folder.
  Finished shell(const std::string& script) const {
    write_text(file("script.sh"), script);
    const std::string command = "cd '" + folder_.path() + "' && BENCHSUITE_ROOT='" + file("root") + "' BENCHSUITE_BINARY='" +
                                BENCHSUITE_BINARY + "' bash script.sh >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(file("out")), read_text(file("err"))};
  }
  /// kEndless with a checkpoint every `every` steps, then `script`, which passes on the job's exit status.
  Finished endless(int every, const std::string& script) const;
  /// From what `endless` did to the job to its end.
  double seconds_to_end() const {
    return (std::stod(read_text(file("ended"))) - std::stod(read_text(file("began")))) * 1e-9;
  }
  static bool has_mpi() { return std::system("command -v mpirun >/dev/null 2>&1") == 0; }
  static std::string mpirun(const std::string& arguments) {
    return std::string("'") + BENCHSUITE_SOURCE_DIR + "/scripts/mpirun' " + arguments;
  }

  TemporaryFolder folder_;
};

TEST_F(Train, TellsEveryMistakeAtOnce) {
  Json config = small_config();
  config["stepps"] = 3;
  config["model"] = "gpt-tinny";
  config["data"]["split"] = {0.9, 0.1};
  config["optimizer"]["betas"] = {0.9, 1.5};
  config["checkpoint"]["keep"] = 0;
  const Finished run = train(config);
  EXPECT_EQ(run.exit_code, 2);
  for (const char* word : {"stepps = 3: unknown key; did you mean \"steps\"?", "did you mean \"gpt-tiny\"?", "data.split",
                           "optimizer.betas", "checkpoint.keep"}) {
    EXPECT_THAT(run.err, HasSubstr(word));
  }
  config = small_config();
  config["layout"]["tp"] = 3;
  config["optimizer"]["lrr"] = 1;
  config["data"]["path"] = "no-such.txt";
  const Finished other = train(config);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.err, HasSubstr("c.json: model.heads = 4: is not a multiple of layout.tp = 3")) << "what parts demand of each other, beside a wrong key elsewhere";
  EXPECT_THAT(other.err, HasSubstr("c.json: optimizer.lrr = 1: unknown key"));
}

TEST_F(Train, NamesTheFileAndTheKeyOfEveryPath) {
  Launch call = launch({});
  call.arguments = {"train", "--config", "no-such.json"};
  const Finished missing = run_program(call);
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("--config = no-such.json: there is no such file"));

  Json config = small_config();
  config["data"]["path"] = "no-such.txt";
  const Finished unread = train(config);
  EXPECT_EQ(unread.exit_code, 2);
  EXPECT_THAT(unread.err, testing::ContainsRegex("c.json: data.path = .*no-such.txt: the text can't be read; check the path"));
  write_text(file("short.txt"), "too short");
  config["data"]["path"] = "short.txt";
  EXPECT_THAT(train(config).err, testing::ContainsRegex("c.json: data.path = [0-9]+ bytes in use: too short"));

  config = small_config();
  config["log"] = "/proc/no/log.jsonl";
  const Finished unwritten = train(config);
  EXPECT_EQ(unwritten.exit_code, 3);
  EXPECT_THAT(unwritten.err, testing::ContainsRegex("/proc/no/log.jsonl: can't be written: .*choose another \"log\" in c.json"));
  config = small_config();
  config["checkpoint"]["dir"] = "/proc/no/saved";
  const Finished unmade = train(config);
  EXPECT_EQ(unmade.exit_code, 3);
  EXPECT_THAT(unmade.err, testing::ContainsRegex("/proc/no/saved: the folder can't be made: .*set checkpoint.dir to another"));
}

TEST_F(Train, ValidateJudgesAConfigurationLikeTraining) {
  const auto validate = [&](const Json& config) {
    write_text(file("c.json"), config.dump());
    Launch call = launch({});
    call.arguments = {"validate", "c.json"};
    return run_program(call);
  };
  const Finished good = validate(small_config());
  EXPECT_EQ(good.exit_code, 0) << good.out;
  EXPECT_THAT(good.out, HasSubstr("ok    c.json (training configuration)"));
  Json config = small_config();
  config["optimizer"]["betas"] = {0.9, 1.5};
  config["layout"]["tp"] = 3;
  const Finished bad = validate(config);
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.out, HasSubstr("optimizer.betas"));
  EXPECT_THAT(bad.out, HasSubstr("layout.tp"));
}

TEST_F(Train, WithoutGpusOneLineSaysWhatIsMissing) {
  Json config = small_config();
  config["layout"]["dp"] = 64, config["layout"]["global_batch"] = 128;  // more ranks than any machine has GPUs
  const Finished run = train(config, {"--device", "cuda"});
  EXPECT_EQ(run.exit_code, 5) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, testing::MatchesRegex("benchsuite: device cuda: [^\n]+\n"));
  EXPECT_EQ(train(small_config(), {"--device", "sim"}).exit_code, 2);
}

TEST_F(Train, InterruptedAndResumedEqualsStraight) {
  ASSERT_EQ(train(small_config()).exit_code, 0);
  const auto straight = curve();
  ASSERT_EQ(straight.size(), 6u);
  fs::remove_all(file("saved"));
  fs::remove(file("log.jsonl"));

  Launch interrupted = launch({});
  interrupted.signal = SIGINT;
  interrupted.signal_when = file("log.jsonl");
  const Finished first = run_program(interrupted);
  ASSERT_EQ(first.exit_code, 130) << first.err << first.out;
  EXPECT_THAT(first.out, HasSubstr("--resume"));
  EXPECT_TRUE(fs::exists(file("saved/latest")));
  EXPECT_LT(curve().size(), 6u);
  EXPECT_EQ(train(small_config()).exit_code, 2) << "without --resume the checkpoints must not be trained over";
  const Finished second = train(small_config(), {"--resume"});
  ASSERT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(curve(), straight);
}

TEST_F(Train, KilledAtAnyTimeItGoesOnFromTheLastCheckpoint) {
  ASSERT_EQ(train(small_config()).exit_code, 0);
  const auto straight = curve();
  fs::remove_all(file("saved"));
  fs::remove(file("log.jsonl"));
  // Kills after 20, 60, 100 ... ms: before, between and during saves.
  const Finished killed = shell(R"(
resume=
for wait in 0.02 0.06 0.10 0.14 0.18 0.22 0.26 0.30 0.34; do
  "$BENCHSUITE_BINARY" train --config c.json $resume & job=$!
  sleep $wait; kill -9 $job 2>/dev/null; wait $job 2>/dev/null
  status=$?
  [ $status = 137 ] || [ $status = 0 ] || { echo "status $status" >&2; exit 1; }
  ls saved/step_??????????/manifest.json >/dev/null 2>&1 && resume=--resume  # whole; perhaps `latest` does not name it yet
done
exec "$BENCHSUITE_BINARY" train --config c.json $resume)");
  ASSERT_EQ(killed.exit_code, 0) << killed.err;
  EXPECT_EQ(curve(), straight);
}

TEST_F(Train, AFullDiskEndsTheRunAndKeepsTheOldCheckpoint) {
  Json config = small_config();
  config["steps"] = 2;
  ASSERT_EQ(train(config).exit_code, 0);
  config["steps"] = 4;
  config["checkpoint"]["every"] = 1;
  write_text(file("c.json"), config.dump());
  Launch full = launch({"--resume"});
  full.file_size_limit = 100'000;  // a rank's file has 800 kB
  const Finished run = run_program(full);
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.err, testing::ContainsRegex("rank [0-3], saving after step 3: .*: the checkpoint can't be written"));
  EXPECT_THAT(run.err, HasSubstr("earlier checkpoints are untouched"));
  EXPECT_EQ(read_text(file("saved/latest")), "step_0000000002\n");
  EXPECT_EQ(train(config, {"--resume"}).exit_code, 0);
}

TEST_F(Train, ADamagedCheckpointIsNamed) {
  Json config = small_config();
  config["steps"] = 1;
  ASSERT_EQ(train(config).exit_code, 0);
  fs::resize_file(file("saved/step_0000000001/rank_0002.bin"), 1000);
  config["steps"] = 2;
  const Finished run = train(config, {"--resume"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("rank 2, resuming: saved/step_0000000001/rank_0002.bin: is truncated"));
  EXPECT_FALSE(fs::exists(file("saved/step_0000000002")));
}

TEST_F(Train, ProcessesTrainLikeThreadsBitForBit) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  Json config = small_config();
  // Messages between stages; then sums of four numbers, where the order of the additions shows.
  for (const auto& [tp, pp] : {std::pair{2, 2}, std::pair{4, 1}}) {
    config["layout"]["tp"] = tp;
    config["layout"]["pp"] = pp;
    ASSERT_EQ(train(config).exit_code, 0);
    const auto threads = curve();
    // It holds the checksums of every parameter and moment: a loss rounds away what differs in a last place.
    const std::string manifest = file("saved/step_0000000006/manifest.json"), state = read_text(manifest);
    fs::remove_all(file("saved"));
    fs::remove(file("log.jsonl"));
    const Finished run = shell(mpirun("-n 4 train --config c.json"));
    ASSERT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(read_text(manifest), state) << "tp " << tp << ", pp " << pp;
    EXPECT_EQ(curve(), threads) << "tp " << tp << ", pp " << pp;
    EXPECT_THAT(run.out, HasSubstr("4 ranks as processes"));
    EXPECT_EQ(shell(mpirun("-n 3 train --config c.json --resume")).exit_code, 2) << "three processes for four ranks";
    fs::remove_all(file("saved"));
    fs::remove(file("log.jsonl"));
  }
}

/// A shell script: four processes that train for ever, each with its id in pid.RANK, up to the moment when step 3 is logged.
constexpr const char* kEndless = R"(set -m
printf '#!/bin/sh\necho $$ >pid.$OMPI_COMM_WORLD_RANK\nexec %s "$@"\n' "$BENCHSUITE_BINARY" >rank.sh
chmod +x rank.sh; export BENCHSUITE_BINARY=$PWD/rank.sh
"$MPIRUN" -n 4 train --config c.json & job=$!
for i in $(seq 600); do grep -q '"step":3,' log.jsonl 2>/dev/null && break; sleep 0.1; done
ticks() { awk '{print $14 + $15}' /proc/$(cat pid.$1)/stat; }
date +%s%N >began
)";

constexpr const char* kUntilItEnds = "\nwait $job; status=$?; date +%s%N >ended; exit $status\n";

Finished Train::endless(int every, const std::string& script) const {
  Json config = small_config();
  config["steps"] = 100'000;
  config["checkpoint"]["every"] = every;
  write_text(file("c.json"), config.dump());
  return shell("MPIRUN='" + std::string(BENCHSUITE_SOURCE_DIR) + "/scripts/mpirun'\n" + kEndless + script);
}

TEST_F(Train, AKilledRankStopsTheOthersWhoNameIt) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  const Finished run = endless(0, std::string("kill -9 $(cat pid.2)") + kUntilItEnds);
  EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
  EXPECT_THAT(run.err, HasSubstr("because rank 2 is gone"));
  EXPECT_THAT(run.err, testing::ContainsRegex("is gone \\(process .* ended\\), at (stream|waiting)"));
  EXPECT_LT(seconds_to_end(), 10) << "the survivors hung";
}

TEST_F(Train, AProcessThatCannotWriteStopsTheOthersWhoNameItAndThePhase) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  if (std::system("command -v prlimit >/dev/null 2>&1") != 0) GTEST_SKIP() << "no prlimit on this machine";
  const Finished run = endless(1, std::string("prlimit --fsize=100000 --pid $(cat pid.2)") + kUntilItEnds);
  EXPECT_EQ(run.exit_code, 3) << run.err << run.out;
  EXPECT_THAT(run.err, testing::ContainsRegex("rank 2, saving after step [0-9]+: .*rank_0002.bin: the checkpoint can't be written"));
  EXPECT_THAT(run.err, testing::ContainsRegex("rank [013] stops because rank 2 failed"));
  EXPECT_LT(seconds_to_end(), 10) << "the others hung";
  const std::string latest = read_text(file("saved/latest"));
  EXPECT_TRUE(fs::exists(file("saved/" + latest.substr(0, latest.find('\n')) + "/manifest.json"))) << latest;
}

TEST_F(Train, InterruptedProcessesSaveAndGoOnLikeThreads) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  const Finished first = endless(0, std::string("kill -INT $job") + kUntilItEnds);
  ASSERT_EQ(first.exit_code, 130) << first.err << first.out;
  EXPECT_THAT(first.out, HasSubstr("go on with: benchsuite train --config c.json --resume"));
  EXPECT_LT(seconds_to_end(), 10);
  const auto cut = curve();
  const int done = static_cast<int>(cut.size());
  Json config = small_config();
  config["steps"] = done + 2;
  config["checkpoint"]["every"] = 0;
  write_text(file("c.json"), config.dump());
  const Finished second = shell(mpirun("-n 4 train --config c.json --resume"));
  ASSERT_EQ(second.exit_code, 0) << second.err;
  const auto resumed = curve();
  fs::remove_all(file("saved"));
  fs::remove(file("log.jsonl"));
  ASSERT_EQ(train(config).exit_code, 0);
  EXPECT_EQ(resumed.size(), static_cast<std::size_t>(done + 2));
  EXPECT_EQ(resumed, curve());
}

TEST_F(Train, AProcessThatWaitsSleeps) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  // Rank 2 stands still for a second: that is no failure, and the others take next to none of the 100 ticks of a processor.
  const Finished run = endless(0, std::string(R"sh(kill -STOP $(cat pid.2); sleep 0.2
for r in 0 1 3; do ticks $r >before.$r; done; sleep 1
for r in 0 1 3; do echo $(($(ticks $r) - $(cat before.$r))) >ticks.$r; done
step=$(tail -n 1 log.jsonl); kill -CONT $(cat pid.2)
for i in $(seq 100); do [ "$(tail -n 1 log.jsonl)" != "$step" ] && touch goes_on && break; sleep 0.1; done
kill -INT $job)sh") + kUntilItEnds);
  EXPECT_EQ(run.exit_code, 130) << run.err << run.out;
  EXPECT_TRUE(fs::exists(file("goes_on"))) << "training did not go on";
  for (const char* rank : {"0", "1", "3"}) {
    EXPECT_LT(std::stoi(read_text(file(std::string("ticks.") + rank))), 20) << "rank " << rank << " is awake while it waits";
  }
}

TEST_F(Train, ProcessesWithDifferentConfigurationsDoNotStart) {
  if (!has_mpi()) GTEST_SKIP() << "no mpirun on this machine";
  Json config = small_config();
  config["layout"]["pp"] = 1;
  write_text(file("c0.json"), config.dump());
  const auto run_with = [&] {
    write_text(file("c1.json"), config.dump());
    return shell("real=$BENCHSUITE_BINARY\n"
                 "printf '#!/bin/sh\\nexec %s train --config c$OMPI_COMM_WORLD_RANK.json\\n' \"$real\" >rank.sh\n"
                 "chmod +x rank.sh; export BENCHSUITE_BINARY=$PWD/rank.sh\n" + mpirun("-n 2"));
  };
  config["layout"]["recompute"] = "full";  // more collectives
  Finished run = run_with();
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("disagree on the collectives of tensor group {0, 1}"));
  config["layout"].erase("recompute");
  config["optimizer"]["lr"] = 2e-3;  // the same collectives
  run = run_with();
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("started with different configurations"));
  EXPECT_FALSE(fs::exists(file("saved/latest")));
}

}  // namespace
}  // namespace benchsuite
