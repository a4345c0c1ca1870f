#include "suite/measure/repeats.h"

#include <cmath>

#include "suite/results/statistics.h"

namespace benchsuite {

namespace {

void not_reproducible(VariantResult& result, const char* why) {
  result.status = Status::error;
  result.reason_code = "NOT_REPRODUCIBLE";
  result.reason = why;
}

}  // namespace

void begin_samples(VariantResult& result, Device device) {
  if (device == Device::sim && result.status == Status::pass) result.step_samples_s = {result.iteration_s};
}

void add_round(VariantResult& all, VariantResult&& again, Device device) {
  if (all.status != Status::pass) return;
  if (again.status != Status::pass) {
    all = std::move(again);
    return;
  }
  begin_samples(again, device);
  if (device == Device::sim && again.step != all.step) {
    return not_reproducible(all, "two replays of one step took different times on device sim, which is exact");
  }
  if (again.loss_curve != all.loss_curve) {
    return not_reproducible(all, "two trainings from one seed have different losses; they should agree bit for bit");
  }
  all.step_samples_s.insert(all.step_samples_s.end(), again.step_samples_s.begin(), again.step_samples_s.end());
  if (device == Device::sim) return;
  const double before = all.iteration_s;
  all.iteration_s = median(all.step_samples_s);
  all.step = static_cast<Picoseconds>(std::llround(all.iteration_s / kSecondsPerPicosecond));
  all.tokens_per_s_per_gpu *= before / all.iteration_s;
}

}  // namespace benchsuite
