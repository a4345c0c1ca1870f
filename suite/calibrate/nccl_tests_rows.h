// The pieces of nccl_tests.cpp: one printed line into numbers, and what a table's rows say about its ranks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "suite/calibrate/nccl_tests.h"

namespace benchsuite::nccl_tests {

std::vector<std::string_view> tokens_of(std::string_view line);

/// Without terminal colours, carriage returns and what a launcher put before the line ("[1,0]<stdout>:", "3: ").
std::string cleaned(std::string_view line);

/// Column names of the heading, e.g. {"size", "count", "type", "redop", "time", ...}; "#wrong" and "error" included.
struct Columns {
  bool has_redop = false, has_root = false;
  bool per_iteration = false;  ///< -I: i_min i_max i_p99 i_cv% behind each #wrong
};
/// Nothing when `tokens` are no heading.
std::optional<Columns> read_heading(const std::vector<std::string_view>& tokens);

/// A data row with what classifies it.
struct RawRow {
  CollectiveRow row;
  std::string type, redop;  ///< redop empty when absent, "none" or "-"
  int root = -1;
  double algbw_low = 0, algbw_high = 0;  ///< bytes/s, bounds by the printed digits
  double busbw_low = 0, busbw_high = 0;
  double time_low = 0, time_high = 0;                  ///< s
  std::vector<std::array<double, 6>> in_place_bounds;  ///< the same six of the in-place half, when it has numbers
};

/// Whether the line starts as a data row does: two whole numbers.
bool looks_like_row(const std::vector<std::string_view>& tokens);
/// Nothing when the rest of the line is no nccl-tests row.
std::optional<RawRow> read_row(std::vector<std::string_view> tokens, const std::optional<Columns>& columns);

/// Bytes of an element type as nccl-tests names it; 0 for an unknown one.
int element_size(std::string_view type);

/// Sets op_candidates and bounds of the ranks from the rows; `named` is the collective the header names, or "".
/// `header_ranks` is 0 when the header lists no devices.
void classify(CollectiveTable& table, const std::vector<RawRow>& rows, const std::string& named, int header_ranks);

}  // namespace benchsuite::nccl_tests
