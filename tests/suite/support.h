// Helpers of the suite's tests: a temporary folder, a small data root, and running a program.
#pragma once

#include <string>
#include <vector>

#include "engine/core/json_reader.h"
#include "suite/results/run.h"

namespace benchsuite {

/// Removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_text(const std::string& path, const std::string& text);
std::string read_text(const std::string& path);

/// A data root with the project's models, stacks and hardware profiles and no case.
void make_root(const std::string& path);

/// A case of a tiny GPT on two stages: variants "none" and "full".
Json tiny_case(const std::string& id);

/// One gate over the tiny case: metric within [low, high]; null leaves a side open.
Json gate(const std::string& id, const std::string& metric, const Json& low, const Json& high);
Json expected_for(const std::string& case_id, const std::vector<Json>& expectations);

/// A variant result with the given iteration time.
VariantResult variant_result(const std::string& id, double iteration_s);

struct Finished {
  int exit_code = -1;  ///< 128 + signal when a signal ended it
  std::string out, err;
};

struct Launch {
  std::vector<std::string> arguments;
  std::string folder;                    ///< working folder
  std::vector<std::string> environment;  ///< NAME=VALUE, added
  std::string input;                     ///< file for standard input; empty: the caller's
  int signal = 0;                        ///< sent ...
  std::string signal_when;               ///< ... once this file exists and holds a line
  std::int64_t file_size_limit = -1;     ///< bytes, as on a full disk
};

/// Runs the benchsuite program and waits for it.
Finished run_program(const Launch& launch);

}  // namespace benchsuite
