// Checkpoints on disk: whole or not there, whatever happens during a save, and never trusted without proof.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "engine/core/error.h"
#include "engine/train/checkpoint.h"
#include "tests/engine/train/training_plan.h"

namespace benchsuite {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSmall = 500;  // bytes of a rank's part, where the number of bytes does not matter

/// Bytes that only rank `rank` has after step `step`.
std::vector<std::byte> content(std::int64_t step, int rank, std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t word = static_cast<std::uint64_t>(step * 1000003 + rank);
  for (std::byte& byte : bytes) {
    word = word * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(word >> 56);
  }
  return bytes;
}

void save(const std::string& dir, std::int64_t step, std::int64_t keep, std::size_t size = 60'000) {
  CheckpointSave leader(dir, step);
  CheckpointManifest manifest{step, {{"seed", 7}}, {}, {}};
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<std::byte> bytes = content(step, rank, size);
    const std::span<const std::byte> part = bytes;
    manifest.files.push_back(write_checkpoint_part(checkpoint_part(dir, step, rank), {&part, 1}));
    manifest.plans.push_back(42);
  }
  leader.commit(manifest, keep);
}

/// Loads the newest checkpoint and proves every byte; returns its step, or -1 when there is none.
std::int64_t prove_latest(const std::string& dir, std::size_t size = 60'000) {
  const std::string folder = latest_checkpoint(dir);
  if (folder.empty()) return -1;
  const CheckpointManifest manifest = read_manifest(folder);
  EXPECT_EQ(manifest.files.size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::byte> bytes(size);
    const std::span<std::byte> part = bytes;
    read_checkpoint_part(folder, manifest.files[static_cast<std::size_t>(rank)], {&part, 1});
    EXPECT_EQ(bytes, content(manifest.step, rank, size)) << "rank " << rank << " of " << folder;
  }
  return manifest.step;
}

/// Everything below a folder, by path.
std::map<std::string, std::string> snapshot(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().string()] = text.str();
  }
  return files;
}

TEST(Checkpoint, KeepsTheNewestAndFindsThem) {
  const TestFolder folder;
  EXPECT_EQ(prove_latest(folder.path()), -1);
  for (std::int64_t step = 1; step <= 4; ++step) save(folder.path(), step, 2);
  EXPECT_EQ(prove_latest(folder.path()), 4);
  EXPECT_EQ(prove_latest(folder / "step_0000000003"), 3) << "a checkpoint itself can be named";
  EXPECT_FALSE(fs::exists(folder / "step_0000000002"));
  fs::remove(folder / "latest");
  EXPECT_EQ(prove_latest(folder.path()), 4) << "whole ones are found without it";
}

TEST(Checkpoint, KilledAtAnyPointOfASaveThePreviousOneIsWhole) {
  const TestFolder folder;
  std::mt19937 random(20261129);
  // Each kill comes after none, one or two saves and a while within the next ones, however slow the disk is.
  const auto start = std::chrono::steady_clock::now();
  save(folder.path(), 1, 1);
  const auto one_save = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - start);
  const auto longest = static_cast<unsigned>(std::min<std::int64_t>(2 * one_save.count() + 1000, 500'000));
  std::int64_t known = 1;
  for (int round = 0; round < 30; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        remove_leftovers(folder.path());
        for (std::int64_t step = known + 1;; ++step) {
          save(folder.path(), step, 1);
          if (::write(pipe[1], &step, sizeof step) != sizeof step) ::_exit(1);
        }
      } catch (...) {
        ::_exit(1);
      }
    }
    ::close(pipe[1]);
    std::int64_t told = known;
    for (int saves = round % 3; saves > 0; --saves) {
      ASSERT_EQ(::read(pipe[0], &told, sizeof told), static_cast<ssize_t>(sizeof told)) << "a save failed";
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: a save failed";
    for (std::int64_t step = 0; ::read(pipe[0], &step, sizeof step) == sizeof step;) told = step;
    ::close(pipe[0]);
    const std::int64_t found = prove_latest(folder.path());
    EXPECT_GE(found, told) << "a checkpoint that was complete is gone";
    EXPECT_LE(found, told + 1);
    known = found;
  }
  EXPECT_GT(known, 30) << "ten rounds of one save and ten of two";
}

/// Saves step 2 in a child that is killed when it enters or leaves its system call `stop` (from 0): whether it came that far. Nothing
/// when this system does not let a process be traced.
std::optional<bool> save_killed_at(const std::string& dir, int stop) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) ::_exit(77);
    ::raise(SIGSTOP);
    try {
      save(dir, 2, 1, kSmall);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return std::nullopt;
  for (int stops = 0;; ++stops) {
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status)) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the save failed by itself: status " << status;
      return false;
    }
    if (stops < stop) continue;
    ::kill(child, SIGKILL);
    while (::waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    }
    return true;
  }
}

// Before and after every system call there is: between them nothing of a process reaches the disk.
TEST(Checkpoint, KilledAtEverySystemCallOfASaveOneIsWhole) {
  const TestFolder before;
  save(before.path(), 1, 1, kSmall);
  std::map<std::int64_t, int> found;
  std::set<std::set<std::string>> seen;  // what lay in the folder after a kill
  for (int stop = 0;; ++stop) {
    const TestFolder folder;
    fs::copy(before.path(), folder.path(), fs::copy_options::recursive);
    const std::optional<bool> killed = save_killed_at(folder.path(), stop);
    if (!killed) GTEST_SKIP() << "processes can't be traced here";
    const std::int64_t step = prove_latest(folder.path(), kSmall);
    if (!*killed) {
      EXPECT_EQ(step, 2);
      break;
    }
    ++found[step];
    std::set<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
      left.insert(fs::relative(entry.path(), folder.path()).string());
    }
    if (!seen.insert(left).second) continue;
    // The next run clears away what is left and saves the same step.
    remove_leftovers(folder.path());
    save(folder.path(), 2, 1, kSmall);
    ASSERT_EQ(prove_latest(folder.path(), kSmall), 2) << "after a kill at stop " << stop;
    for (const auto& entry : fs::directory_iterator(folder.path())) {
      EXPECT_NE(entry.path().extension(), ".tmp") << entry.path() << " after a kill at stop " << stop;
    }
  }
  EXPECT_EQ(found.size(), 2u) << "the old or the new one, and never none";
  EXPECT_GT(found[1], 20) << "two files, a manifest and a folder take more calls than that";
  EXPECT_GT(found[2], 4) << "the old one is removed after the new one is named";
}

TEST(Checkpoint, DamageIsNamedAndNothingIsTouched) {
  const TestFolder folder;
  save(folder.path(), 5, 2);
  const std::string step = folder / "step_0000000005";
  struct Damage {
    std::string file, word;
    std::function<void(const std::string&)> wreck;
  };
  const auto flip = [](std::streamoff at) {
    return [at](const std::string& path) {
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.seekg(at);
      const int byte = file.get();
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 1));
    };
  };
  const auto cut = [](const std::string& path) { fs::resize_file(path, fs::file_size(path) - 1); };
  const std::vector<Damage> damages = {
      {step + "/rank_0001.bin", "is corrupt: checksum", flip(12'345)},
      {step + "/rank_0000.bin", "is truncated: 59999 bytes instead of 60000", cut},
      {step + "/rank_0000.bin", "is missing", [](const std::string& path) { fs::remove(path); }},
      {step + "/manifest.json", "is corrupt", flip(60)},
      {step + "/manifest.json", "is corrupt", [](const std::string& path) { fs::resize_file(path, 100); }},
      {step + "/manifest.json", "is missing", [](const std::string& path) { fs::remove(path); }},
      {folder / "latest", "is corrupt: it names", flip(6)},
  };
  const std::map<std::string, std::string> sound = snapshot(folder.path());
  for (const Damage& damage : damages) {
    damage.wreck(damage.file);
    const auto before = snapshot(folder.path());
    try {
      prove_latest(folder.path());
      ADD_FAILURE() << damage.file << " " << damage.word << ": not noticed";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::io);
      EXPECT_NE(std::string(error.what()).find(damage.file + ": " + damage.word), std::string::npos) << error.what();
    }
    EXPECT_EQ(snapshot(folder.path()), before);
    for (const auto& [path, text] : sound) std::ofstream(path, std::ios::binary) << text;
  }
  EXPECT_EQ(prove_latest(folder.path()), 5);
}

TEST(Checkpoint, AFullDiskLeavesTheOldOneAndNoRubbish) {
  const TestFolder folder;
  save(folder.path(), 1, 1);
  const auto before = snapshot(folder.path());
  const pid_t child = ::fork();
  if (child == 0) {  // the limit stands for the full disk: it would stay with this process
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{30'000, 30'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save(folder.path(), 2, 1);
    } catch (const Error& error) {
      const std::string what = error.what();
      const bool told = error.kind() == Error::Kind::io && what.find("rank_0000.bin") != std::string::npos &&
                        what.find("earlier checkpoints are untouched") != std::string::npos;
      ::_exit(told ? 0 : 2);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "1: no error, 2: another error; status " << status;
  EXPECT_EQ(snapshot(folder.path()), before);
  EXPECT_FALSE(fs::exists(folder / "step_0000000002.tmp"));
}

TEST(Checkpoint, OneRunAtATimeUsesAFolder) {
  const TestFolder folder;
  {
    const CheckpointLock lock(folder / "checkpoints");
    EXPECT_THROW(CheckpointLock(folder / "checkpoints"), Error);
  }
  EXPECT_NO_THROW(CheckpointLock(folder / "checkpoints"));
}

}  // namespace
}  // namespace benchsuite
