#include <fmt/format.h>

#include <algorithm>

#include "tests/suite/report/fixture.h"

namespace benchsuite {

VariantResult wide_variant(int stages, int micro_batches) {
  VariantResult v;
  v.id = fmt::format("wide_{}_{}", stages, micro_batches);
  v.stages.resize(static_cast<std::size_t>(stages));
  const Picoseconds forward = 3'001'003'007, backward = 6'002'005'011;
  for (int r = 0; r < stages; ++r) {
    StageResult& stage = v.stages[static_cast<std::size_t>(r)];
    stage.stage = r;
    Picoseconds now = r * forward;
    const auto pass = [&](bool back, int i) {
      const auto span = [&](Category category, Picoseconds length) {
        stage.gantt.push_back({category, i, 0, now, now + length});
        now += length;
      };
      if (back) span(Category::recompute, backward / 3);
      span(back ? Category::backward : Category::forward, back ? backward / 2 : forward * 5 / 6);
      span(Category::tensor, back ? backward - backward / 3 - backward / 2 : forward - forward * 5 / 6);
    };
    const int ahead = std::min(stages - r, micro_batches);
    for (int i = 0; i < ahead; ++i) pass(false, i);
    now = (stages + (stages - r)) * (forward + backward);  // the first gradient comes back
    for (int i = 0; i < micro_batches; ++i) {
      pass(true, i);
      if (i + ahead < micro_batches) pass(false, i + ahead);
    }
    v.step = std::max(v.step, now + 1'000'000);
  }
  v.iteration_s = static_cast<double>(v.step) * kSecondsPerPicosecond;
  return v;
}

}  // namespace benchsuite
