// What is recorded of the environment, and what never is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "suite/environment/environment.h"
#include "suite/environment/redaction.h"
#include "tests/suite/support.h"

namespace benchsuite {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

TEST(Redaction, NamesOfSecrets) {
  for (const char* name : {"TOKEN", "HF_TOKEN", "api_key", "apiKey", "APIKEYS_KEY", "--password", "db-pass", "AWS_SECRET_ACCESS_KEY",
                           "authToken", "AUTHORIZATION", "MY_COOKIES", "SessionId", "X_CREDENTIALS", "bearer"}) {
    EXPECT_TRUE(names_a_secret(name)) << name;
  }
  for (const char* name : {"OMP_NUM_THREADS", "--case", "KEYBOARD", "MONKEY", "PASSES", "NCCL_IB_HCA", "AUTHOR", ""}) {
    EXPECT_FALSE(names_a_secret(name)) << name;
  }
  EXPECT_TRUE(names_a_secret("tokens_per_s")) << "on the safe side: a plural may be a secret too";
}

TEST(Redaction, CommandLines) {
  const auto clean = redact_arguments({"run", "--set", "stack.api_key=XSECRETX", "--token", "XSECRETX", "--case", "a",
                                       "--password=XSECRETX", "https://me:XSECRETX@host/path", "Authorization: Bearer XSECRETX",
                                       "{\"token\": \"XSECRETX\"}", "--env", "HF_TOKEN=XSECRETX", "layout.tp=8"});
  for (const std::string& word : clean) EXPECT_THAT(word, Not(HasSubstr("XSECRETX")));
  EXPECT_EQ(clean[0], "run");
  EXPECT_EQ(clean[2], "stack.api_key=[redacted]");
  EXPECT_EQ(clean[4], "[redacted]");
  EXPECT_EQ(clean[6], "a");
  EXPECT_THAT(clean[8], HasSubstr("@host/path"));
  EXPECT_EQ(clean.back(), "layout.tp=8");
}

TEST(Redaction, ValuesAreOneShortLine) {
  EXPECT_EQ(tame("a\nb\tc\x1b[31m"), "a b c [31m");
  EXPECT_LE(tame(std::string(10000, 'x')).size(), 260u);
  const std::string cut = tame(std::string(255, 'x') + "ééé");
  EXPECT_EQ(cut, std::string(255, 'x') + "…") << "not inside a letter";
}

TEST(Environment, ExactNamesOnly) {
  const char* const variables[] = {"OMP_NUM_THREADS=4",   "NCCL_ALGO=Ring",          "NCCL_MY_OWN=XSECRETX", "NCCL_AUTH_TOKEN=XSECRETX",
                                   "OMP_NUM_THREADSX=XSECRETX", "CUDA_SECRET=XSECRETX", "HOME=XSECRETX",        "UCX_TLS=a\nXMULTIX=1",
                                   "SLURM_JOB_NODELIST=node[01-02]", "broken",          nullptr};
  const Json environment = capture_environment(variables);
  EXPECT_EQ(environment["variable.OMP_NUM_THREADS"], "4");
  EXPECT_EQ(environment["variable.NCCL_ALGO"], "Ring");
  EXPECT_EQ(environment["variable.NCCL_MY_OWN"], "set") << "that it is there, not what it says";
  EXPECT_EQ(environment["variable.UCX_TLS"], "a XMULTIX=1") << "one line";
  EXPECT_FALSE(environment.contains("variable.NCCL_AUTH_TOKEN"));
  EXPECT_FALSE(environment.contains("variable.HOME"));
  EXPECT_THAT(environment.dump(), Not(HasSubstr("XSECRETX")));
  EXPECT_TRUE(environment.contains("host.kernel"));
  EXPECT_TRUE(environment.contains("build.commit"));
  for (const std::string_view name : allowed_variables()) EXPECT_FALSE(names_a_secret(name)) << name;
}

TEST(Environment, FingerprintsAreOfWhatChangesPerformance) {
  const Json here = {{"host.name", "a"}, {"host.cpu", "x"}, {"gpu.0.name", "H100"}, {"variable.NCCL_ALGO", "Ring"}, {"variable.SLURM_JOB_ID", "1"}};
  Json twin = here;
  twin["host.name"] = "b";
  twin["variable.SLURM_JOB_ID"] = "2";
  EXPECT_EQ(system_fingerprint(here, "cuda"), system_fingerprint(twin, "cuda")) << "two nodes of one fleet";
  for (const char* name : {"host.cpu", "gpu.0.name", "variable.NCCL_ALGO"}) {
    Json other = here;
    other[name] = "other";
    EXPECT_NE(system_fingerprint(here, "cuda"), system_fingerprint(other, "cuda")) << name;
    EXPECT_EQ(system_fingerprint(here, "sim"), system_fingerprint(other, "sim")) << "a simulated step depends on no machine";
  }
  EXPECT_NE(system_fingerprint(here, "cuda"), system_fingerprint(here, "cpu"));
}

TEST(Environment, DifferencesNameBothSides) {
  EXPECT_TRUE(environment_difference({{"a", "1"}}, {{"a", "1"}}).empty());
  EXPECT_EQ(environment_difference({{"a", "1"}, {"b", 2}}, {{"a", "3"}, {"c", "x"}}),
            (std::vector<std::string>{"a: 1 -> 3", "b: 2 -> absent", "c: absent -> x"}));
}

/// Everything a run leaves behind, planted secrets everywhere a person could put them.
TEST(Environment, NoArtefactHoldsASecret) {
  const TemporaryFolder folder;
  make_root(folder.file("root"));
  write_text(folder.file("root/cases/tiny.json"), tiny_case("tiny").dump());
  write_text(folder.file("root/expected/tiny.json"), expected_for("tiny", {gate("step", "none.iteration_s", 0, nullptr)}).dump());
  Launch launch;
  launch.folder = folder.path();
  launch.environment = {"BENCHSUITE_ROOT=" + folder.file("root"),
                        "HF_TOKEN=PLANTED1", "NCCL_PRIVATE=PLANTED2", "AWS_SECRET_ACCESS_KEY=PLANTED3", "UCX_TLS=rc\nAUTH=PLANTED4",
                        "OMP_NUM_THREADS=https://me:PLANTED5@host", "SSH_KEY=-----BEGIN\nPLANTED6", "CUDA_SESSION=PLANTED7"};
  launch.arguments = {"run", "--case", "tiny", "--out", "r", "--exclude", "token=PLANTED8", "--exclude",
                      "https://me:PLANTED9@host", "--trace", "--json", "copy.json", "--progress", "plain"};
  const Finished run = run_program(launch);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  launch.arguments = {"env"};
  const Finished env = run_program(launch);
  launch.arguments = {"compare", "r", "r", "--out", "c", "--json", "c.json"};
  ASSERT_EQ(run_program(launch).exit_code, 0);
  EXPECT_THAT(run.out + run.err + env.out + env.err, Not(HasSubstr("PLANTED")));
  std::size_t files = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file() || entry.path().string().find("/root/") != std::string::npos) continue;
    ++files;
    EXPECT_THAT(read_text(entry.path().string()), Not(HasSubstr("PLANTED"))) << entry.path();
  }
  EXPECT_GT(files, 12u) << "the search found the files";
  EXPECT_THAT(read_text(folder.file("r/env.json")), HasSubstr("\"variable.NCCL_PRIVATE\": \"set\""));
  EXPECT_EQ(Json::parse(read_text(folder.file("r/result.json")))["environment"], Json::parse(read_text(folder.file("r/env.json"))));
  launch.arguments = {"env", "--diff", "r"};
  EXPECT_EQ(run_program(launch).exit_code, 0);
  launch.environment.back() = "OMP_NUM_THREADS=3";
  EXPECT_EQ(run_program(launch).exit_code, 1);
  EXPECT_THAT(run_program(launch).out, HasSubstr("variable.OMP_NUM_THREADS: "));
}

}  // namespace
}  // namespace benchsuite
