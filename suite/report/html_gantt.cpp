// The still pipeline picture: one lane per stage, one path per category. A step with m = 128 has far more spans than
// the picture has columns, so time is cut into columns first; a column gets one of the categories that occur in it,
// chosen so that over neighbouring columns each keeps its share.
#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

constexpr int kWidth = 1160, kLeft = 58, kLane = 22, kPitch = 27, kAxis = 20;
constexpr int kPlot = kWidth - kLeft - 12;
constexpr int kBubble = static_cast<int>(Category::bubble);

/// The passage of one micro-batch through a chunk, forward or backward.
struct Pass {
  enum Side { unknown, forward, backward };
  int micro_batch = -1, chunk = -1;
  Side side = unknown;
  Picoseconds start = 0, end = 0;
};

Pass::Side side_of(Category category) {
  switch (category) {
    case Category::forward: return Pass::forward;
    case Category::backward:
    case Category::recompute:
    case Category::tensor_recompute: return Pass::backward;
    default: return Pass::unknown;
  }
}

std::vector<GanttSpan> sorted_spans(const StageResult& stage) {
  std::vector<GanttSpan> spans;
  for (const GanttSpan& span : stage.gantt) {
    if (span.end > span.start && span.category != Category::bubble) spans.push_back(span);
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const GanttSpan& a, const GanttSpan& b) { return a.start < b.start; });
  return spans;
}

std::vector<Pass> passes_of(const std::vector<GanttSpan>& spans) {
  std::vector<Pass> passes;
  for (const GanttSpan& span : spans) {
    if (span.category >= Category::pipeline) continue;  // a transfer may end long after the pass it belongs to
    const Pass::Side side = side_of(span.category);
    const bool same = !passes.empty() && passes.back().micro_batch == span.micro_batch &&
                      passes.back().chunk == span.chunk &&
                      (side == Pass::unknown || passes.back().side == Pass::unknown || passes.back().side == side);
    if (!same) {
      passes.push_back({span.micro_batch, span.chunk, side, span.start, span.end});
      continue;
    }
    if (side != Pass::unknown) passes.back().side = side;
    passes.back().end = std::max(passes.back().end, span.end);
  }
  return passes;
}

/// The category of each of `count` columns of a lane that shows [0, window].
std::vector<int> columns_of(const std::vector<GanttSpan>& spans, Picoseconds window, std::size_t count) {
  std::vector<int> column(count, kBubble);
  const double per_column = static_cast<double>(window) / static_cast<double>(count);
  std::array<double, kCategories> owed{};  // share that a category had in earlier columns without getting one
  std::size_t first = 0;
  for (std::size_t c = 0; c < count; ++c) {
    const double from = static_cast<double>(c) * per_column, to = from + per_column;
    std::array<double, kCategories> share{};
    double idle = 1;
    while (first < spans.size() && static_cast<double>(spans[first].end) <= from) ++first;
    for (std::size_t i = first; i < spans.size() && static_cast<double>(spans[i].start) < to; ++i) {
      const double overlap =
          std::min(to, static_cast<double>(spans[i].end)) - std::max(from, static_cast<double>(spans[i].start));
      if (overlap <= 0) continue;
      share[static_cast<std::size_t>(spans[i].category)] += overlap / per_column;
      idle -= overlap / per_column;
    }
    share[kBubble] = std::max(0.0, idle);
    int best = -1;
    for (int k = 0; k < kCategories; ++k) {
      const auto at = static_cast<std::size_t>(k);
      owed[at] += share[at];
      if (share[at] > 1e-6 && (best < 0 || owed[at] > owed[static_cast<std::size_t>(best)])) best = k;
    }
    if (best < 0) best = kBubble;
    column[c] = best;
    owed[static_cast<std::size_t>(best)] -= 1;
    // A debt is paid next door or not at all: a colour never turns up where its category is long gone.
    for (double& debt : owed) debt = std::clamp(debt, -1.0, 1.0);
  }
  return column;
}

/// Round tick distance with four to nine ticks in `length` seconds.
double tick_of(double length) {
  double tick = std::pow(10.0, std::floor(std::log10(length)));
  for (double divisor : {1.0, 2.0, 5.0, 10.0}) {
    if (length / (tick / divisor) >= 4) return tick / divisor;
  }
  return tick / 10;
}

void axis(Page& page, double length, int y) {
  const double tick = tick_of(length);
  const int decimals_unit = length >= 1 ? 0 : length >= 1e-3 ? 3 : 6;
  const double factor = std::pow(10.0, decimals_unit);
  const char* unit = decimals_unit == 0 ? "s" : decimals_unit == 3 ? "ms" : "µs";
  const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(tick * factor) + 1e-9)));
  page.add("<path class=rule d=\"M{} {}h{}", kLeft, y, kPlot);
  for (int i = 0; i * tick <= length * (1 + 1e-9); ++i)
    page.add("M{:.1f} {}v4", kLeft + kPlot * (i * tick / length), y);
  page.raw("\" style=\"stroke-width:1;stroke:var(--soft)\"/>");
  for (int i = 0; i * tick <= length * (1 + 1e-9); ++i) {
    const double x = kLeft + kPlot * (i * tick / length);
    const bool near_end = x > kLeft + kPlot - 24;
    page.add("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{:.{}f}{}</text>", near_end ? kLeft + kPlot : x, y + 15,
             near_end ? "end" : "middle", i * tick * factor, decimals, i == 0 ? fmt::format(" {}", unit) : "");
  }
}

void labels(Page& page, const std::vector<Pass>& passes, Picoseconds window, std::size_t lane) {
  const bool chunks = std::any_of(passes.begin(), passes.end(), [](const Pass& pass) { return pass.chunk > 0; });
  std::string cuts;
  const double per_unit = static_cast<double>(window) / kPlot;
  const int top = static_cast<int>(lane) * kPitch;
  double last_end = -100;
  for (const Pass& pass : passes) {
    if (pass.start >= window) break;
    const double x = static_cast<double>(pass.start) / per_unit,
                 width = static_cast<double>(std::min(pass.end, window)) / per_unit - x;
    // White hairlines between boxes that touch; between slivers they would hide the boxes.
    if (width >= 7 && x - last_end < 1.5) cuts += fmt::format("M{:.1f} {}v{}", kLeft + x, top, kLane);
    last_end = width >= 7 ? x + width : -100;
    if (pass.micro_batch < 0) continue;
    const std::string label =
        chunks ? fmt::format("{}.{}", pass.micro_batch, pass.chunk) : fmt::to_string(pass.micro_batch);
    if (width >= 7.0 + 6.2 * static_cast<double>(label.size())) {
      page.add("<text class=on x=\"{:.1f}\" y=\"{}\">{}</text>", kLeft + x + width / 2, top + 15, label);
    }
  }
  if (!cuts.empty()) page.add("<path class=cut d=\"{}\"/>", cuts);
}

using Lanes = std::vector<std::vector<GanttSpan>>;  ///< the spans of each stage, by start

/// The first `window` of the step.
void picture(Page& page, const VariantResult& variant, const Lanes& lanes, Picoseconds window,
             std::size_t column_count) {
  const int count = static_cast<int>(lanes.size());
  page.add("<div class=gantt><svg viewBox=\"0 0 {} {}\" role=img aria-label=\"pipeline timeline\">", kWidth,
           count * kPitch + kAxis);
  // Lanes are bubble where nothing is drawn.
  for (int lane = 0; lane < count; ++lane) {
    page.add(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">stage {}</text><rect class=k-bubble x={} y={} width={} height={} "
        "/>",
        kLeft - 8, lane * kPitch + 15, variant.stages[static_cast<std::size_t>(lane)].stage, kLeft, lane * kPitch,
        kPlot, kLane);
  }
  std::array<std::string, kCategories> paths;
  for (int lane = 0; lane < count; ++lane) {
    const std::vector<int> column = columns_of(lanes[static_cast<std::size_t>(lane)], window, column_count);
    std::array<std::size_t, kCategories> pen{};
    std::array<bool, kCategories> down{};
    for (std::size_t from = 0; from < column.size();) {
      std::size_t to = from + 1;
      while (to < column.size() && column[to] == column[from]) ++to;
      const auto k = static_cast<std::size_t>(column[from]);
      if (column[from] != kBubble) {
        if (down[k]) {
          fmt::format_to(std::back_inserter(paths[k]), "m{} 0h{}", from - pen[k], to - from);
        } else {
          fmt::format_to(std::back_inserter(paths[k]), "M{} {}h{}", from, lane * kPitch + kLane / 2, to - from);
        }
        down[k] = true;
        pen[k] = to;
      }
      from = to;
    }
  }
  // Columns are the unit of x inside; crisp edges keep neighbours from showing a seam.
  page.add("<g transform=\"translate({} 0) scale({:.5f} 1)\" shape-rendering=crispEdges>", kLeft,
           static_cast<double>(kPlot) / static_cast<double>(column_count));
  for (const CategoryStyle& style : category_styles()) {
    const std::string& path = paths[static_cast<std::size_t>(style.category)];
    if (!path.empty())
      page.add("<path class={} d=\"{}\"><title>{}</title></path>", category_class(style.category), path, style.title);
  }
  page.raw("</g>");
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) labels(page, passes_of(lanes[lane]), window, lane);
  axis(page, static_cast<double>(window) * kSecondsPerPicosecond, count * kPitch - 1);
  page.raw("</svg></div>");
}

/// The stretch in which a pass is about as wide as its number needs; the whole step when it is so anyway.
Picoseconds readable_window(const Lanes& lanes, Picoseconds step) {
  constexpr double kReadable = 26, kNarrow = 9;
  Picoseconds total = 0;
  std::int64_t count = 0;
  for (const auto& spans : lanes) {
    for (const Pass& pass : passes_of(spans)) {
      if (pass.micro_batch < 0) continue;
      total += pass.end - pass.start;
      ++count;
    }
  }
  if (count == 0) return step;
  const double mean = static_cast<double>(total) / static_cast<double>(count);
  if (mean * kPlot / static_cast<double>(step) >= kNarrow) return step;
  return std::min(step, static_cast<Picoseconds>(mean * kPlot / kReadable));
}

}  // namespace

void gantt_chart(Page& page, const VariantResult& variant, std::size_t column_budget, std::size_t case_index,
                 std::size_t variant_index) {
  if (variant.step <= 0 || variant.stages.empty()) return;
  Lanes lanes;
  for (const StageResult& stage : variant.stages) lanes.push_back(sorted_spans(stage));
  const auto value = [&](const std::string& text, const char* metric) {
    number(page, text, fmt::format("{}.v{}.{}", case_index, variant_index, metric));
  };
  page.raw("<figure><figcaption><b>");
  page.text(variant.id);
  page.raw("</b><span class=soft>");
  value(format_seconds(variant.iteration_s), "iteration_s");
  page.raw(", GPU busy ");
  value(format_percent(variant.gpu_busy), "gpu_busy");
  if (variant.mfu) {
    page.raw(", MFU ");
    value(format_percent(*variant.mfu), "mfu");
  }
  page.raw(", bubble ");
  value(format_percent(variant.bubble_share), "bubble_share");
  page.add("</span></figcaption><div class=live-gantt data-g='{}'></div><div class=still>", gantt_data(variant));
  picture(page, variant, lanes, variant.step, column_budget);
  if (const Picoseconds window = readable_window(lanes, variant.step); window < variant.step) {
    page.add("<p class=\"soft small zoom\">The first {} of it, enlarged:</p>",
             format_seconds(static_cast<double>(window) * kSecondsPerPicosecond));
    picture(page, variant, lanes, window, column_budget);
  }
  page.raw("</div></figure>");
}

}  // namespace benchsuite::html
