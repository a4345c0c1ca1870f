// Pipeline schedules as pure functions (megatron-core schedules.py semantics; Narayanan et al. 2021, section 2.2).
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/error.h"
#include "engine/parallel/layout.h"

namespace benchsuite {

struct Step {
  enum class Kind : std::uint8_t { forward, backward } kind{};
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;

  friend bool operator==(const Step&, const Step&) = default;
};

/// p, v, m, g as in letters.h. For gpipe and one_f_one_b v must be 1 and g is ignored.
struct ScheduleShape {
  ScheduleKind kind = ScheduleKind::one_f_one_b;
  std::int64_t pipeline = 1;       // p
  std::int64_t chunks = 1;         // v
  std::int64_t micro_batches = 1;  // m
  std::int64_t group = 1;          // g, interleaved only
};

/// The shape of a layout's schedule.
ScheduleShape schedule_shape(const Layout& layout);

/// Every rule the shape breaks, in words with remedy; empty when it can run. Keys are layout keys.
std::vector<Violation> schedule_violations(const ScheduleShape& shape);

/// The forwards and backwards of pipeline rank `rank`, in order. Throws on a shape that breaks a rule.
std::vector<Step> schedule(const ScheduleShape& shape, std::int64_t rank);

/// Forward passes of rank `rank` before its first backward (warm-up, not counting the first steady forward).
std::int64_t warmup_forwards(const ScheduleShape& shape, std::int64_t rank);

/// Largest number of chunk-forwards of rank `rank` whose backward is still to come.
std::int64_t peak_in_flight(const ScheduleShape& shape, std::int64_t rank);

/// Bubble over the ideal time m (F + B): (p - 1) / (v m). Zero communication, equal stages.
double bubble_over_ideal(const ScheduleShape& shape);

/// Bubble over the whole step: (p - 1) / (v m + p - 1).
double bubble_over_step(const ScheduleShape& shape);

}  // namespace benchsuite
