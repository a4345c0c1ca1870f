// hardware and calibrate: profiles shown and drawn, and clusters held against them. Exit codes as in suite/results/outcome.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "suite/calibrate/verb_calibrate.h"

namespace CLI {
class App;
}

namespace benchsuite {

struct HardwareRequest {
  std::string name;
  bool json = false;
  std::string out;                ///< plot: HTML file; empty: NAME.html in the working folder
  std::string data;               ///< plot: also the curves as JSON, for scripts/plot_hardware.py; "-": standard output
  std::vector<std::string> rows;  ///< plot: measured tables
  std::vector<std::string> fragments;  ///< merge: what calibrate wrote
};
int verb_hardware_list(const HardwareRequest& request);
int verb_hardware_show(const HardwareRequest& request);
int verb_hardware_plot(const HardwareRequest& request);
int verb_hardware_merge(const HardwareRequest& request);

struct HardwareRequests {
  HardwareRequest hardware;
  CalibrateRequest calibrate;
};

/// Adds both verbs to the command line; `requests` lives as long as the parser.
void define_hardware(CLI::App& app, HardwareRequests& requests);

/// Runs the verb that was called if it is one of these.
std::optional<int> dispatch_hardware(const CLI::App& app, const HardwareRequests& requests);

}  // namespace benchsuite
