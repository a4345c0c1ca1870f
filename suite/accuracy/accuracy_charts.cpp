#include "suite/accuracy/accuracy_charts.h"

#include <algorithm>
#include <cmath>

#include "suite/report/format.h"

namespace benchsuite {

namespace {

constexpr double kSide = 230, kLeft = 44, kBottom = 30, kTop = 10;
constexpr double kMostError = 60;

void open(html::Page& page, double width, double height, const std::string& label) {
  page.add("<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=img aria-label=\"{}\">", width, height, width,
           html_escape(label));
}

void line(html::Page& page, double x1, double y1, double x2, double y2, const char* kind) {
  page.add("<line x1={:.1f} y1={:.1f} x2={:.1f} y2={:.1f} class={} />", x1, y1, x2, y2, kind);
}

void label(html::Page& page, double x, double y, const char* anchor, const std::string& text) {
  page.add("<text x={:.1f} y={:.1f} text-anchor={} class=axis>{}</text>", x, y, anchor, html_escape(text));
}

}  // namespace

void identity_chart(html::Page& page, const std::vector<ChartPoint>& points) {
  double low = 1e300, high = 0;
  for (const ChartPoint& point : points) {
    low = std::min({low, point.x, point.y});
    high = std::max({high, point.x, point.y});
  }
  if (!(low > 0) || !(high > 0)) return;
  low /= 1.15;
  high *= 1.15;
  const double span = std::log(high / low);
  const auto at = [&](double value) { return std::clamp(std::log(value / low) / span, 0.0, 1.0); };
  const auto x = [&](double value) { return kLeft + kSide * at(value); };
  const auto y = [&](double value) { return kTop + kSide * (1 - at(value)); };
  open(page, kLeft + kSide + 12, kTop + kSide + kBottom, "predicted against published seconds");
  page.add("<rect x={} y={} width={} height={} class=frame />", kLeft, kTop, kSide, kSide);
  line(page, x(low), y(low), x(high), y(high), "diagonal");
  line(page, x(low), y(low * 1.1), x(high / 1.1), y(high), "band");
  line(page, x(low * 1.1), y(low), x(high), y(high / 1.1), "band");
  for (const double value : {low * 1.15, std::sqrt(low * high), high / 1.15}) {
    label(page, x(value), kTop + kSide + 14, "middle", format_seconds(value, 2));
    label(page, kLeft - 4, y(value) + 4, "end", format_seconds(value, 2));
  }
  label(page, kLeft + kSide / 2, kTop + kSide + 27, "middle", "published");
  for (const ChartPoint& point : points) {
    page.add("<circle cx={:.1f} cy={:.1f} r=2.6 class=dot><title>{}</title></circle>", x(point.x), y(point.y),
             html_escape(point.title));
  }
  page.raw("</svg>\n");
}

void residual_chart(html::Page& page, const std::string& title, const std::vector<ChartPoint>& points) {
  double low = 1e300, high = 0;
  for (const ChartPoint& point : points) {
    if (!(point.x > 0)) continue;
    low = std::min(low, point.x);
    high = std::max(high, point.x);
  }
  if (!(high > 0)) return;
  const double first = std::floor(std::log2(low) - 0.3), last = std::ceil(std::log2(high) + 0.3);
  const auto x = [&](double value) { return kLeft + kSide * (std::log2(value) - first) / std::max(1.0, last - first); };
  const auto y = [&](double error) {
    return kTop + kSide * (0.5 - std::clamp(error, -kMostError, kMostError) / (2 * kMostError));
  };
  open(page, kLeft + kSide + 12, kTop + kSide + kBottom, "error over " + title);
  page.add("<rect x={} y={} width={} height={} class=frame />", kLeft, kTop, kSide, kSide);
  for (const double error : {-40.0, -20.0, 0.0, 20.0, 40.0}) {
    line(page, kLeft, y(error), kLeft + kSide, y(error), error == 0 ? "diagonal" : "grid");
    label(page, kLeft - 4, y(error) + 4, "end", fmt::format("{:+.0f} %", error));
  }
  const double step = std::max(1.0, std::ceil((last - first) / 5));
  for (double power = first; power <= last; power += step) {
    label(page, x(std::exp2(power)), kTop + kSide + 14, "middle", significant(std::exp2(power), 3));
  }
  label(page, kLeft + kSide / 2, kTop + kSide + 27, "middle", title);
  for (const ChartPoint& point : points) {
    if (!(point.x > 0)) continue;
    page.add("<circle cx={:.1f} cy={:.1f} r=2.2 class=dot><title>{}</title></circle>", x(point.x), y(point.y),
             html_escape(point.title));
  }
  page.raw("</svg>\n");
}

}  // namespace benchsuite
