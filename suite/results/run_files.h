// The folder of a run: events as they happen, results at the end, nothing that looks complete and is not.
//
//   request.json         what was asked for; there from the first moment, so that the run can be taken up again
//   env.json             what it runs on
//   events.jsonl         one line per event, appended and flushed as the run goes
//   resolved_case.json   what was run, everything spelled out
//   variants/CASE/VARIANT.json, cases/CASE.json   results the moment they are there (suite/run/parts.h)
//   result.json          the Run; last of the files, so its presence means the run ended
//   report.md, report.html
//
// Every file but events.jsonl is written beside its place and renamed into it.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/json_reader.h"
#include "suite/results/shared_text.h"

namespace benchsuite {

/// Paths and what to write there.
using Files = std::vector<std::pair<std::string, SharedText>>;

/// Writes files by way of temporary ones in the same folders. All are on disk before the first takes its name, and they
/// take their names in order; on failure the temporary files are removed and Error (io) thrown with the path and the
/// system's reason. Several at once wait for the disk about as long as one. `setting` is what names the place, for messages.
void write_files(const Files& files, std::string_view setting = "--out");
inline void write_file(const std::string& path, const SharedText& text, std::string_view setting = "--out") {
  write_files({{path, text}}, setting);
}
inline void write_file(const std::string& path, std::string text, std::string_view setting = "--out") {
  write_file(path, SharedText(std::move(text)), setting);
}

/// Points `link` at `target` (a name in the same folder), replacing a former link in one step. Throws Error (io).
void point_link(const std::string& link, const std::string& target);

/// Appends lines to a file (after a line that a killed process left unfinished, on a new one), each written whole and flushed before `append` returns.
class EventLog {
 public:
  EventLog() = default;
  /// `setting` is what names the path, for messages.
  explicit EventLog(const std::string& path, std::string_view setting = "--out");
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;
  EventLog(EventLog&& other) noexcept;
  EventLog& operator=(EventLog&& other) noexcept;

  /// Throws Error (io).
  void append(const Json& event);

 private:
  std::string path_, setting_;
  int descriptor_ = -1;
};

class ResultsFolder {
 public:
  /// Makes the folder of a run with `first` (names in it, in order) in it; a folder that is there already has the last of
  /// them only with all of them, so that a process killed right then leaves nothing or a run that can be resumed. With `requested` empty it is results/RUN_ID below the
  /// working folder, and results/latest points at it. A folder that already holds a result is refused (config):
  /// completed results are never changed. A folder that can't be made or written is a config error too.
  ResultsFolder(const std::string& requested, const std::string& run_id, const Files& first = {});

  /// Opens the folder of a run that was stopped.
  static ResultsFolder open(const std::string& path);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  EventLog& events() { return events_; }

 private:
  ResultsFolder() = default;
  std::string path_;
  EventLog events_;
};

/// "20261129T150102Z" and "2026-11-29T15:01:02Z".
std::string compact_utc(std::int64_t unix_seconds);
std::string iso_utc(std::int64_t unix_seconds);

/// Compact time of the start and four random hexadecimal digits.
std::string make_run_id(std::int64_t unix_seconds);

}  // namespace benchsuite
