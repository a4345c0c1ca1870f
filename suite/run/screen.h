// What a person sees while a run goes: a line that moves on a terminal, a heartbeat in a log.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "suite/run/verb_run.h"

namespace benchsuite {

/// Human text leaves standard output free when result.json goes there.
class Screen {
 public:
  Screen(const RunRequest& request, std::size_t cases);

  void start(const CaseResult& result, std::size_t variants, std::string_view device);
  /// A variant that an earlier process measured counts, but is not told.
  void variant(const VariantResult& result, bool told = true);
  void waiting(std::size_t finished);
  void finish(const CaseResult& result, const std::string& reproduce);
  /// A case that an earlier process completed.
  void kept(const CaseResult& result);
  /// About the case that started.
  void note(const std::string& text);
  void line(const std::string& text) { write(text + "\n"); }

 private:
  void show_progress(std::size_t finished);
  void write(const std::string& text);

  std::FILE* out_;
  bool quiet_;
  Progress progress_;
  bool colour_;
  bool live_;  ///< on a terminal: one line, rewritten
  std::size_t cases_, case_ = 0;
  std::size_t total_ = 0, counted_ = 0;
  std::chrono::steady_clock::time_point begin_, last_sign_;
};

}  // namespace benchsuite
