#include "suite/report/hardware_page.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {

namespace {

using html::Page;

constexpr double kWidth = 560, kHeight = 300, kLeft = 52, kRight = 12, kTop = 12, kBottom = 40;

/// Where data values lie in the picture.
struct Scale {
  bool logarithmic = true;
  double low = 0, high = 1;  ///< in log2 or plain

  double fraction(double value) const {
    const double at = logarithmic ? std::log2(value) : value;
    return high > low ? (at - low) / (high - low) : 0.5;
  }
};

double x_of(const Scale& scale, double value) { return kLeft + (kWidth - kLeft - kRight) * scale.fraction(value); }
double y_of(const Scale& scale, double value) {
  return kHeight - kBottom - (kHeight - kTop - kBottom) * scale.fraction(value);
}

bool drawable(const std::pair<double, double>& point, bool log_y) {
  return std::isfinite(point.first) && std::isfinite(point.second) && point.first > 0 && (!log_y || point.second > 0);
}

/// A round step that gives about five ticks.
double round_step(double span) {
  const double raw = span / 5, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 2.5, 5.0, 10.0})
    if (raw <= step * power) return step * power;
  return 10 * power;
}

std::string tick_text(double value, bool bytes) {
  if (bytes) return format_bytes(value, 3);
  if (value >= 1e15 || value < 1e-3) return fmt::format("{:.0e}", value);
  for (const auto& [unit, size] : {std::pair{"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e4}})
    if (value >= size) return fmt::format("{:.3g}{}", value / (size == 1e4 ? 1e3 : size), unit);
  return fmt::format("{:.4g}", value);
}

void axis_ticks(Page& page, const Scale& scale, bool horizontal, bool bytes) {
  std::vector<double> ticks;
  if (scale.logarithmic) {
    const double stride = std::max(1.0, std::ceil((scale.high - scale.low) / 7));
    for (double at = std::ceil(scale.low - 1e-9); at <= scale.high + 1e-9; at += stride) ticks.push_back(std::exp2(at));
  } else {
    const double step = round_step(scale.high - scale.low);
    for (double at = 0; at <= scale.high * (1 + 1e-9); at += step) ticks.push_back(at);
  }
  for (const double tick : ticks) {
    const std::string text = tick == 0 ? "0" : tick_text(tick, bytes);
    if (horizontal) {
      const double x = x_of(scale, tick);
      page.add(
          "<line class=grid x1={0:.1f} x2={0:.1f} y1={1} y2={2} /><text x={0:.1f} y={3} text-anchor=middle>{4}</text>",
          x, kTop, kHeight - kBottom, kHeight - kBottom + 14, text);
    } else {
      const double y = y_of(scale, tick);
      page.add(
          "<line class=grid x1={1} x2={2} y1={0:.1f} y2={0:.1f} /><text x={3} y={4:.1f} text-anchor=end>{5}</text>", y,
          kLeft, kWidth - kRight, kLeft - 6, y + 4, text);
    }
  }
}

void draw(Page& page, const PlotChart& chart) {
  Scale x{true, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  Scale y{chart.log_y, chart.log_y ? std::numeric_limits<double>::infinity() : 0.0,
          chart.log_y ? -std::numeric_limits<double>::infinity() : 0.0};
  for (const PlotCurve& curve : chart.curves) {
    for (const auto& point : curve.points) {
      if (!drawable(point, chart.log_y)) continue;
      x.low = std::min(x.low, std::log2(point.first));
      x.high = std::max(x.high, std::log2(point.first));
      const double at = chart.log_y ? std::log2(point.second) : point.second;
      y.low = std::min(y.low, at);
      y.high = std::max(y.high, at);
    }
  }
  page.raw("<figure class=plot><figcaption><b>");
  page.text(chart.title);
  page.raw("</b>");
  if (!chart.note.empty()) {
    page.raw("<span class=soft>");
    page.text(chart.note);
    page.raw("</span>");
  }
  page.raw("</figcaption>");
  if (!(x.low <= x.high)) {
    page.raw("<p class=soft>nothing to draw</p></figure>");
    return;
  }
  if (chart.log_y) {
    y.low = std::floor(y.low);
    y.high = std::max(std::ceil(y.high), y.low + 1);
  } else {
    y.high = y.high > 0 ? y.high * 1.05 : 1;
  }
  page.add("<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">", kWidth, kHeight, html_escape(chart.title));
  axis_ticks(page, x, true, chart.x_bytes);
  axis_ticks(page, y, false, false);
  page.add(
      "<text x={:.0f} y={} text-anchor=middle>{}</text><text x=12 y={:.0f} text-anchor=middle transform=\"rotate(-90 "
      "12 {:.0f})\">{}</text>",
      (kLeft + kWidth - kRight) / 2, kHeight - 6, html_escape(chart.x_title), (kTop + kHeight - kBottom) / 2,
      (kTop + kHeight - kBottom) / 2, html_escape(chart.y_title));
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    const PlotCurve& curve = chart.curves[i];
    if (curve.dots) {
      page.add("<g class=m{}><title>{}</title>", i % 9, html_escape(curve.name));
      for (const auto& point : curve.points)
        if (drawable(point, chart.log_y))
          page.add("<circle cx={:.1f} cy={:.1f} r=2 />", x_of(x, point.first), y_of(y, point.second));
      page.raw("</g>");
      continue;
    }
    page.add("<polyline class=m{} points=\"", i % 9);
    for (const auto& point : curve.points)
      if (drawable(point, chart.log_y)) page.add("{:.1f},{:.1f} ", x_of(x, point.first), y_of(y, point.second));
    page.add("\"><title>{}</title></polyline>", html_escape(curve.name));
  }
  page.raw("</svg><ul class=legend>");
  for (std::size_t i = 0; i < chart.curves.size(); ++i) {
    page.add("<li><span class=\"key m{}\"></span>", i % 9);
    page.text(chart.curves[i].name);
    page.raw("</li>");
  }
  page.raw("</ul></figure>");
}

void errors_table(Page& page, const HardwarePage& hardware) {
  if (hardware.errors.empty() && hardware.left_out.empty()) return;
  page.raw("<h2>Predicted against measured</h2>");
  if (!hardware.errors.empty()) {
    page.raw(
        "<p class=soft>Error of predicted time over measured time; bias is the median of predicted over measured "
        "(below 1: the model is faster).</p><div class=scroll><table><tr><th class=l>family<th class=l>source<th "
        "class=l>rate<th>rows<th>median error<th>p90 error<th>bias</tr>");
    for (const RowErrors& e : hardware.errors) {
      page.raw("<tr><td class=l>");
      page.text(e.family);
      page.raw("<td class=l>");
      page.text(e.source);
      page.raw("<td class=l>");
      page.text(e.rate);
      page.add("<td>{}<td>{}<td>{}<td>{}</tr>", e.rows, format_percent(e.median), format_percent(e.p90),
               significant(e.bias));
    }
    page.raw("</table></div>");
  }
  if (!hardware.left_out.empty()) {
    page.raw("<p class=soft>Left out: ");
    for (std::size_t i = 0; i < hardware.left_out.size(); ++i) {
      if (i > 0) page.raw("; ");
      page.text(hardware.left_out[i]);
    }
    page.raw(".</p>");
  }
}

}  // namespace

std::string hardware_html(const HardwarePage& hardware) {
  Page page;
  page.raw(
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width,initial-scale=1\"><title>");
  page.text(hardware.name + ": hardware profile");
  page.raw("</title><style>");
  page.raw(html::style_sheet());
  page.raw(
      ".plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:14px 34px}"
      ".plot svg{width:100%;height:auto;overflow:visible}.plot polyline{fill:none;stroke:var(--c);stroke-width:2}"
      ".plot circle{fill:var(--c);opacity:.55}.plot text{font-size:11px;fill:var(--soft)}"
      ".plot .grid{stroke:var(--line);stroke-width:1}.plot .legend{margin-top:.4em}</style><main><h1>");
  page.text(hardware.name);
  page.raw("</h1><p class=soft>");
  page.text(hardware.title + "; " + hardware.gpu);
  page.raw(
      "</p><p class=soft>Curves are the model's times of single operators, alone on the machine. Constants with their "
      "sources: <code>benchsuite hardware show ");
  page.text(hardware.name);
  page.raw("</code></p>");
  errors_table(page, hardware);
  page.raw("<h2>Curves</h2><div class=plots>");
  for (const PlotChart& chart : hardware.charts) draw(page, chart);
  page.raw("</div></main></html>\n");
  return page.take();
}

Json hardware_page_json(const HardwarePage& hardware) {
  Json out = {{"schema_version", 1},     {"kind", "hardware curves"},    {"name", hardware.name},
              {"title", hardware.title}, {"gpu", hardware.gpu},          {"charts", Json::array()},
              {"errors", Json::array()}, {"left_out", hardware.left_out}};
  for (const PlotChart& chart : hardware.charts) {
    Json curves = Json::array();
    for (const PlotCurve& curve : chart.curves) {
      Json points = Json::array();
      for (const auto& [x, y] : curve.points) points.push_back({x, y});
      curves.push_back({{"name", curve.name}, {"dots", curve.dots}, {"points", points}});
    }
    out["charts"].push_back({{"title", chart.title},
                             {"note", chart.note},
                             {"x_title", chart.x_title},
                             {"y_title", chart.y_title},
                             {"x_bytes", chart.x_bytes},
                             {"log_y", chart.log_y},
                             {"curves", curves}});
  }
  for (const RowErrors& e : hardware.errors) {
    out["errors"].push_back({{"family", e.family},
                             {"source", e.source},
                             {"rate", e.rate},
                             {"rows", e.rows},
                             {"median", e.median},
                             {"p90", e.p90},
                             {"bias", e.bias}});
  }
  return out;
}

}  // namespace benchsuite
