// Loss curves: what was trained for real.
#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

constexpr std::size_t kPoints = 400;  ///< a longer curve is drawn by the lowest and highest loss of each stretch
constexpr int kColours = 9, kWidth = 1000, kHeight = 260;

struct Frame {
  double low = 0, high = 1;
  std::size_t steps = 1;

  double x(std::size_t step) const {
    return steps > 1 ? static_cast<double>(step) * kWidth / static_cast<double>(steps - 1) : kWidth / 2.0;
  }
  double y(double loss) const { return kHeight - (loss - low) * kHeight / (high - low); }
};

std::string path_of(const std::vector<double>& curve, const Frame& frame) {
  std::vector<std::size_t> steps;
  const std::size_t stretch = std::max<std::size_t>(1, (2 * curve.size() + kPoints - 1) / kPoints);
  for (std::size_t from = 0; from < curve.size(); from += stretch) {
    const std::size_t to = std::min(curve.size(), from + stretch);
    std::size_t low = from, high = from;
    for (std::size_t i = from; i < to; ++i) {
      if (!std::isfinite(curve[i])) low = high = i;  // a hole shows as a hole
      if (!std::isfinite(curve[low])) break;
      if (curve[i] < curve[low]) low = i;
      if (curve[i] > curve[high]) high = i;
    }
    steps.push_back(std::min(low, high));
    if (low != high) steps.push_back(std::max(low, high));
  }
  std::string path;
  bool down = false;
  for (const std::size_t step : steps) {
    if (!std::isfinite(curve[step])) {
      down = false;
      continue;
    }
    path += fmt::format("{}{:.1f} {:.1f}", down ? "L" : "M", frame.x(step), frame.y(curve[step]));
    down = true;
  }
  return path;
}

}  // namespace

void loss_chart(Page& page, const CaseResult& result, std::size_t index) {
  Frame frame{.low = INFINITY, .high = -INFINITY};
  for (const VariantResult& v : result.variants) {
    frame.steps = std::max(frame.steps, v.loss_curve.size());
    for (const double loss : v.loss_curve) {
      if (!std::isfinite(loss)) continue;
      frame.low = std::min(frame.low, loss);
      frame.high = std::max(frame.high, loss);
    }
  }
  if (!(frame.low <= frame.high)) return;
  if (frame.high == frame.low) {
    frame.low -= 0.5;
    frame.high += 0.5;
  }
  page.raw(
      "<h3>Loss</h3><p class=soft>Every trained step; a curve that isn't seen lies under another one.</p><ul "
      "class=legend>");
  std::size_t colour = 0;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    const VariantResult& v = result.variants[i];
    if (v.loss_curve.empty()) continue;
    page.add("<li><span class=\"key m{}\"></span>", colour++ % kColours);
    page.text(v.id);
    page.add(", {} step{}", v.loss_curve.size(), v.loss_curve.size() == 1 ? "" : "s");
    if (v.loss) {
      page.raw(", last ");
      number(page, significant(*v.loss, 6), fmt::format("{}.v{}.loss", index, i));
    }
    const auto holes =
        std::count_if(v.loss_curve.begin(), v.loss_curve.end(), [](double x) { return !std::isfinite(x); });
    if (holes > 0) {
      page.raw(" ");
      pill(page, fmt::format("{} not finite", holes), "bad");
    }
  }
  page.add("</ul><div class=loss><div class=y><span>{}</span><span>{}</span></div>", significant(frame.high, 4),
           significant(frame.low, 4));
  page.add("<svg viewBox=\"0 -4 {} {}\" preserveAspectRatio=none role=img aria-label=\"loss by step\">", kWidth,
           kHeight + 8);
  colour = 0;
  for (const VariantResult& v : result.variants) {
    if (v.loss_curve.empty()) continue;
    page.add("<path class=m{} d=\"{}\"/>", colour++ % kColours, path_of(v.loss_curve, frame));
  }
  page.add("</svg><div class=x><span>step 1</span><span>{}</span></div></div>", frame.steps);
}

}  // namespace benchsuite::html
