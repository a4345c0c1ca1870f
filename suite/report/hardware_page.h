// Curves of a hardware profile and how they stand against measured rows: one HTML page with inline SVG, and the same as
// JSON for scripts/plot_hardware.py.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/json_reader.h"

namespace benchsuite {

struct PlotCurve {
  std::string name;
  bool dots = false;  ///< measurements: points, no line
  std::vector<std::pair<double, double>> points;
};

/// One picture. x is drawn to base 2 (sizes) or 10; y linearly from 0, or logarithmically.
struct PlotChart {
  std::string title, note, x_title, y_title;
  bool x_bytes = false;  ///< x ticks as KiB, MiB, ...
  bool log_y = false;
  std::vector<PlotCurve> curves;
};

/// Predicted against measured time of one family of rows.
struct RowErrors {
  std::string family, source, rate;  ///< rate: which of the model's rates predicts ("burst", "sustained", ...)
  std::size_t rows = 0;
  double median = 0, p90 = 0;  ///< of |predicted / measured - 1|
  double bias = 0;             ///< median of predicted / measured
};

struct HardwarePage {
  std::string name, title, gpu;
  std::vector<PlotChart> charts;
  std::vector<RowErrors> errors;
  std::vector<std::string> left_out;  ///< why rows were not compared
};

std::string hardware_html(const HardwarePage& page);
Json hardware_page_json(const HardwarePage& page);

}  // namespace benchsuite
