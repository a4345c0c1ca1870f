// history: what earlier runs measured, as rows, series and trends.
#pragma once

#include <cstdint>
#include <string>

namespace benchsuite {

enum class HistoryAction : std::uint8_t { list, show, trend, export_rows, prune };
enum class ExportFormat : std::uint8_t { json, csv };

struct HistoryRequest {
  HistoryAction action = HistoryAction::list;
  std::string file;
  std::string run_id, case_id, variant, metric, device;
  std::int64_t last = 0;  ///< runs, or points of each series; 0: all
  std::int64_t keep = -1;
  ExportFormat format = ExportFormat::json;
  bool json = false;
  std::string html;  ///< trend: also write the page here
};
int verb_history(const HistoryRequest& request);

}  // namespace benchsuite
