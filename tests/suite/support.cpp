#include "tests/suite/support.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace benchsuite {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (fs::temp_directory_path() / "benchsuite-test-XXXXXX").string();
  CHECK(::mkdtemp(pattern.data()) != nullptr) << pattern;
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void write_text(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  CHECK(file.good()) << path;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void make_root(const std::string& path) {
  fs::create_directories(path + "/cases");
  fs::create_directories(path + "/expected");
  for (const char* kind : {"models", "stacks", "hardware", "corpus"}) {
    fs::create_directory_symlink(std::string(BENCHSUITE_SOURCE_DIR) + "/cases/" + kind, path + "/cases/" + kind);
  }
}

Json tiny_case(const std::string& id) {
  return Json::parse(R"({"schema_version": 1, "id": ")" + id + R"(", "title": "A tiny pipeline", "tags": ["tiny"],
    "model": "gpt-tiny", "stack": "plain", "hardware": "ideal",
    "layout": {"tp": 1, "pp": 2, "dp": 1, "micro_batch": 1, "global_batch": 4, "recompute": {"granularity": "none"}},
    "variants": [{"id": "none"},
                 {"id": "full", "set": {"layout.recompute": {"granularity": "full", "method": "uniform", "num_layers": 1}}}],
    "comparisons": [{"id": "full_to_none", "from": "full", "to": "none"}]})");
}

Json gate(const std::string& id, const std::string& metric, const Json& low, const Json& high) {
  return {{"id", id},        {"metric", {{"value", metric}}},    {"unit", "1"},
          {"kind", "bound"}, {"pass", Json::array({low, high})}, {"provenance", {{"source", "arithmetic"}}}};
}

Json expected_for(const std::string& case_id, const std::vector<Json>& expectations) {
  return {{"schema_version", 1}, {"case", case_id}, {"expectations", expectations}};
}

VariantResult variant_result(const std::string& id, double iteration_s) {
  VariantResult result;
  result.id = id;
  result.iteration_s = iteration_s;
  return result;
}

namespace {

bool has_line(const std::string& path) { return read_text(path).find('\n') != std::string::npos; }

[[noreturn]] void become(const Launch& launch, const std::string& out, const std::string& err) {
  const auto redirect = [](const std::string& path, int descriptor) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
  };
  redirect(out, STDOUT_FILENO);
  redirect(err, STDERR_FILENO);
  if (!launch.input.empty()) {
    const int file = ::open(launch.input.c_str(), O_RDONLY);
    if (file < 0 || ::dup2(file, STDIN_FILENO) < 0) ::_exit(126);
  }
  if (!launch.folder.empty() && ::chdir(launch.folder.c_str()) != 0) ::_exit(126);
  ::unsetenv("BENCHSUITE_ROOT");
  for (const std::string& entry : launch.environment) {
    const std::size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  if (launch.file_size_limit >= 0) {
    const auto limit = static_cast<rlim_t>(launch.file_size_limit);
    const struct rlimit size { limit, limit };
    ::setrlimit(RLIMIT_FSIZE, &size);
  }
  std::vector<std::string> words = {BENCHSUITE_BINARY};
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

Finished run_program(const Launch& launch) {
  const TemporaryFolder output;
  const pid_t child = ::fork();
  CHECK(child >= 0) << "fork";
  if (child == 0) become(launch, output.file("out"), output.file("err"));
  if (launch.signal != 0) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!has_line(launch.signal_when) && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ::kill(child, launch.signal);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child) << "waitpid";
  Finished finished;
  finished.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  finished.out = read_text(output.file("out"));
  finished.err = read_text(output.file("err"));
  return finished;
}

}  // namespace benchsuite
