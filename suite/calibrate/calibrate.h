// Fits the collective model to measured tables and judges a cluster against its hardware profile.
//
// Fit: t = a + size f / busbw + c sqrt(size) with f the busbw factor, least squares of log(model / measured), a, c >=
// 0.
//
// Judgement. Measured is the better of out of place and in place; expected is what device/sim's cost model predicts for
// the same collective, size, ranks and nodes. A cluster is unhealthy when one of these holds:
//   wrong-results  the program counted wrong elements
//   cliff          busbw falls below half of what a smaller message reached, and stays there to the end (needs no
//   profile) plateau        of the largest sizes (the largest and those down to a quarter of it) the best is below 0.7
//   of the busbw
//                  expected there, or 0.5 where the profile itself is still on the ramp (below 0.8 of its plateau). The
//                  profiles' own error between nodes is 25 % (p90); half the bandwidth, the mildest fault with a name
//                  (PCIe ACS, half the NICs), must not pass.
//   latency-floor  the median time up to 16 KiB is more than 8 times the expected one. Healthy ones differ by up to 4
//                  (EFA's first generation against InfiniBand), single-process launches of old libraries by up to 6.
// How far below, and in units of which link, names the plateau's signature (plateau_signature).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/core/json_reader.h"
#include "engine/device/sim/hardware.h"
#include "suite/calibrate/nccl_tests.h"

namespace benchsuite {

struct CollectiveModelFit {
  double a_s = 0, busbw = 0, c_s = 0;  ///< s, bytes/s, s per sqrt(byte)
  std::size_t rows = 0;
  double median_error = 0, p90_error = 0;  ///< of |model / measured - 1|

  double seconds(double bytes, double factor) const;
};

/// Nothing when the rows can't tell the three terms apart: fewer than 5 sizes, or less than a factor of 64 between
/// them.
std::optional<CollectiveModelFit> fit_collective(const std::vector<CollectiveRow>& rows, double factor);

/// One reading of a table: which collective it is and where its ranks sit.
struct Reading {
  std::string op;
  int ranks = 0, nodes = 1;
};

/// Seconds that `hardware` predicts; nothing for a collective it has no measurements of. Ranks fill nodes in order, as
/// many on each. Throws Error (config) when they don't fit the profile.
std::optional<double> expected_seconds(const HardwareProfile& hardware, const Reading& reading, std::int64_t size);

struct Finding {
  std::string
      code;  ///< wrong-results, cliff, no-rdma, few-nics, half-bandwidth, no-nvlink, low-asymptote, latency-floor
  std::string text;  ///< one sentence with size, measured, expected, and what usually causes it
};

struct Judgement {
  Reading reading;
  bool judged = false;  ///< compared with a profile (findings that need none may be there all the same)
  std::vector<Finding> findings;
  std::vector<std::string> notes;  ///< odd, but no verdict
  std::optional<double> plateau;   ///< measured over expected busbw, best of the largest sizes
  std::optional<double> latency;   ///< measured over expected time up to 16 KiB
  double plateau_busbw = 0;        ///< bytes/s, there
  std::vector<double> expected;    ///< seconds by row; empty when not judged

  bool healthy() const { return findings.empty(); }
};

/// `hardware` may be null: then only what needs no profile is found.
Judgement judge_collective(const CollectiveTable& table, const Reading& reading, const HardwareProfile* hardware);

/// What options and the profile add to what the table knows.
struct ReadingOptions {
  std::string op;            ///< --op, or empty
  int ranks = 0, nodes = 0;  ///< --ranks, --nodes; 0: not given
};

/// The readings the data leave open, most likely first. Throws Error (config), asking for --ranks or --nodes, when the
/// ranks can't be known. Ambiguous ranks are settled by whole nodes of the profile where exactly one count fits.
std::vector<Reading> readings_of(const CollectiveTable& table, const ReadingOptions& options,
                                 const HardwareProfile* hardware);

/// Judges the most likely reading. Where it is unhealthy but another reading is healthy, the data can't tell: throws
/// Error (config) that asks for the option that would.
Judgement judge_table(const CollectiveTable& table, const ReadingOptions& options, const HardwareProfile* hardware);

}  // namespace benchsuite
