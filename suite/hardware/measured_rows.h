// Measured operator rows, read from the tables that --rows names, and what the model says about each.
//
// The kind of a JSON row is told by its keys: m, n, k: a matrix product; head_dim, seqlen: attention; op with us and
// rows: a memory-bound op. Other files are nccl-tests output or CSV summaries of collectives. Formats: hardware plot
// --help.
#pragma once

#include <string>
#include <vector>

#include "engine/device/sim/hardware.h"
#include "suite/report/hardware_page.h"

namespace benchsuite {

/// One measurement of an operator that the model can price.
struct MeasuredRow {
  std::string family;  ///< "gemm bf16", "attention fwd", "layernorm", "all_reduce", ...
  std::string source;
  double work = 0;  ///< FLOP, or bytes
  double seconds = 0;
  double predicted = 0, predicted_sustained = 0;  ///< sustained: products only, 0 for the rest
};

struct MeasuredRows {
  std::vector<MeasuredRow> rows;
  std::vector<std::string> left_out;  ///< "1292 rows of other GPUs", ...
};

/// Rows of the profile's GPU in `files`. Throws Error (config) for files that can't be read.
MeasuredRows read_measured_rows(const std::vector<std::string>& files, const HardwareProfile& hardware);

/// Median and p90 error by family and source, and by family over all sources where there are several.
std::vector<RowErrors> errors_of(const MeasuredRows& rows);

/// Predicted over measured by work, at most a few hundred dots a family, evenly taken.
std::vector<PlotChart> ratio_charts(const MeasuredRows& rows);

/// Curves of the model alone.
std::vector<PlotChart> model_charts(const HardwareProfile& hardware);

/// The op name of memory-bound rows; false when the model has none of that name.
bool memory_op(const std::string& name, OpKind& kind);

/// Shape of a memory-bound op over rows x cols elements.
OpShape memory_shape(OpKind kind, DType type, std::int64_t rows, std::int64_t cols);

}  // namespace benchsuite
