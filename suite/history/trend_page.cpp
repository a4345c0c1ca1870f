#include "suite/history/trend_page.h"

#include <algorithm>
#include <cmath>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite {

namespace {

using html::Page;

constexpr double kWidth = 1000, kHeight = 260;
constexpr std::size_t kDots = 1500;  ///< of more runs the dots are one path: nobody hovers over a tenth of a pixel

constexpr const char* kStyle =
    ".trend svg{overflow:visible}.trend .band{fill:var(--forward);opacity:.16;stroke:none}.trend .mid{--c:var(--forward)}"
    ".trend .dot{--c:var(--ink);stroke-width:5;stroke-linecap:round}.trend .out{--c:var(--bad);stroke-width:7}"
    ".trend .moved{--c:var(--bad);stroke-dasharray:5 3}.trend .other{--c:var(--mute)}";

/// From places and values to the picture.
struct Frame {
  double low = 0, high = 1;
  std::size_t count = 1;

  double x(std::size_t place) const {
    return count > 1 ? static_cast<double>(place) * kWidth / static_cast<double>(count - 1) : kWidth / 2;
  }
  double y(double value) const { return kHeight - (value - low) * kHeight / (high - low); }
};

Frame frame_of(const TrendLine& line) {
  Frame frame{line.front().points.front().low, line.front().points.front().high, 0};
  for (const Segment& segment : line) {
    frame.count += segment.points.size();
    for (const TrendPoint& point : segment.points) {
      frame.low = std::min({frame.low, point.value, point.low});
      frame.high = std::max({frame.high, point.value, point.high});
    }
  }
  if (!(frame.high > frame.low)) {
    const double half = frame.low != 0 ? std::abs(frame.low) * 0.01 : 1;
    frame.low -= half;
    frame.high += half;
  }
  return frame;
}

/// Band and median of the points [begin, end), one level: the first of them is at `place`.
void level(Page& page, const Frame& frame, const std::vector<TrendPoint>& points, std::size_t begin, std::size_t end,
           std::size_t place) {
  std::string upper, lower, middle;
  for (std::size_t i = begin; i < end; ++i) {
    const double x = frame.x(place + i - begin);
    upper += fmt::format("{}{:.1f} {:.1f}", i == begin ? "M" : "L", x, frame.y(points[i].high));
    middle += fmt::format("{}{:.1f} {:.1f}", i == begin ? "M" : "L", x, frame.y(points[i].median));
  }
  for (std::size_t i = end; i-- > begin;)
    lower += fmt::format("L{:.1f} {:.1f}", frame.x(place + i - begin), frame.y(points[i].low));
  page.add("<path class=band d=\"{}{}Z\"/><path class=mid d=\"{}\"/>", upper, lower, middle);
}

void mark(Page& page, const Frame& frame, std::size_t place, const char* kind) {
  const double x = place > 0 ? (frame.x(place - 1) + frame.x(place)) / 2 : frame.x(0);
  page.add("<path class={} d=\"M{:.1f} 0V{}\"/>", kind, x, kHeight);
}

void dots(Page& page, const Frame& frame, const Segment& segment, std::size_t place) {
  std::string all;
  for (std::size_t i = 0; i < segment.points.size(); ++i) {
    const TrendPoint& point = segment.points[i];
    const std::string at = fmt::format("M{:.1f} {:.1f}h0", frame.x(place + i), frame.y(point.value));
    if (frame.count > kDots && !point.outside) {
      all += at;
      continue;
    }
    const HistoryRow& row = segment.rows[i];
    page.add("<path class=\"dot{}\" d=\"{}\"><title>", point.outside ? " out" : "", at);
    page.text(fmt::format("{}\n{}, median {}\nengine {}{}", row.run_id, format_in_unit(row.value, row.unit, 5),
                          format_in_unit(point.median, row.unit, 5), row.commit,
                          point.outside ? "\noutside the band of the runs before" : ""));
    page.raw("</title></path>");
  }
  if (!all.empty()) page.add("<path class=dot d=\"{}\"/>", all);
}

void picture(Page& page, const TrendLine& line) {
  const Frame frame = frame_of(line);
  const HistoryRow& newest = line.back().rows.back();
  page.add("<div class=\"loss trend\"><div class=y><span>{}</span><span>{}</span></div>",
           html_escape(format_in_unit(frame.high, newest.unit, 4)),
           html_escape(format_in_unit(frame.low, newest.unit, 4)));
  page.add("<svg viewBox=\"0 -6 {} {}\" preserveAspectRatio=none role=img aria-label=\"", kWidth, kHeight + 12);
  page.text(newest.metric + " by run");
  page.raw("\">");
  std::size_t place = 0;
  for (std::size_t s = 0; s < line.size(); ++s) {
    const std::vector<TrendPoint>& points = line[s].points;
    if (s > 0) mark(page, frame, place, "other");
    for (std::size_t begin = 0; begin < points.size();) {
      std::size_t end = begin + 1;
      while (end < points.size() && !points[end].change) ++end;
      level(page, frame, points, begin, end, place + begin);
      if (points[begin].change) mark(page, frame, place + begin, "moved");
      begin = end;
    }
    dots(page, frame, line[s], place);
    place += points.size();
  }
  page.raw("</svg><div class=x><span>");
  page.text(line.front().rows.front().started);
  page.raw("</span><span>");
  page.text(newest.started);
  page.raw("</span></div></div>");
}

void section(Page& page, const TrendLine& line) {
  const HistoryRow& newest = line.back().rows.back();
  const TrendPoint& last = line.back().points.back();
  const auto value = [&](double number) { return format_in_unit(number, newest.unit, 4); };
  page.raw("<h3>");
  page.text(newest.case_id + "/" + newest.variant + ": " + newest.metric);
  if (last.outside) {
    page.raw(" ");
    html::pill(page, "OUTSIDE", "bad");
  }
  page.raw("</h3><p class=soft>");
  std::size_t count = 0;
  for (const Segment& segment : line) count += segment.rows.size();
  page.text(fmt::format("{} runs on {}, system {}. Last {}, rolling median of {}: {}, band {} to {}.", count,
                        newest.device, newest.system, value(last.value), kTrendWindow, value(last.median),
                        value(last.low), value(last.high)));
  page.raw("</p>");
  picture(page, line);
  const std::vector<std::string> events = events_of(line);
  if (events.empty()) return;
  page.raw("<ul>");
  for (const std::string& event : events) {
    page.raw("<li>");
    page.text(event);
  }
  page.raw("</ul>");
}

}  // namespace

std::string trend_page(const std::vector<TrendLine>& lines) {
  Page page;
  page.raw("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
           "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\"><meta "
           "http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
           "<title>benchsuite history trend</title><style>");
  page.raw(html::style_sheet());
  page.raw(kStyle);
  page.raw(
      "</style></head>\n<body><main><h1>Trend</h1><p class=soft>A dot is a run; line and band are the rolling median "
      "and 3 scaled MAD about it, at least the metric's effect floor. A dashed line marks a change of level, a grey "
      "one a changed case, which starts a new series. Red dots lie outside the band of the runs before them.</p>");
  for (const TrendLine& line : lines) section(page, line);
  page.raw("</main></body></html>\n");
  return page.take();
}

}  // namespace benchsuite
