// history: list, show, trend, export, prune.
#include <fmt/format.h>

#include <algorithm>

#include "suite/expectations/tracked_metrics.h"
#include "suite/history/history.h"
#include "suite/history/trend_page.h"
#include "suite/history/verb_history.h"
#include "suite/report/format.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace {

Json to_json(const HistoryRow& row) {
  return {{"run_id", row.run_id},   {"started", row.started}, {"commit", row.commit},   {"system", row.system},
          {"device", row.device},   {"case", row.case_id},    {"case_hash", row.case_hash}, {"variant", row.variant},
          {"metric", row.metric},   {"value", row.value},     {"unit", row.unit},       {"samples", row.samples},
          {"spread", row.spread},   {"status", row.status}};
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return quoted + "\"";
}

int list(History& history, const HistoryRequest& request) {
  const std::vector<HistoryRun> runs = history.runs(request.last);
  Json all = Json::array();
  for (const HistoryRun& run : runs) {
    if (request.json) {
      all.push_back({{"run_id", run.run_id}, {"started", run.started}, {"device", run.device}, {"system", run.system},
                     {"commit", run.commit}, {"suite_version", run.suite_version}, {"host", run.host},
                     {"exit_code", run.exit_code}, {"rows", run.rows}});
    } else {
      fmt::print("{}  {}  {} on {}  engine {}  {} rows  exit={}\n", run.run_id, run.started, run.device, run.system,
                 run.commit, run.rows, run.exit_code);
    }
  }
  if (request.json) fmt::print("{}\n", all.dump(2));
  return runs.empty() ? kExitNothing : kExitPass;
}

int print_rows(const std::vector<HistoryRow>& rows, const HistoryRequest& request) {
  if (request.format == ExportFormat::csv) {
    fmt::print("run_id,started,commit,system,device,case,case_hash,variant,metric,value,unit,samples,spread,status\n");
  }
  for (const HistoryRow& row : rows) {
    if (request.format == ExportFormat::json) {
      fmt::print("{}\n", to_json(row).dump(-1, ' ', false, Json::error_handler_t::replace));
      continue;
    }
    fmt::print("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", csv_field(row.run_id), row.started, csv_field(row.commit),
               csv_field(row.system), row.device, csv_field(row.case_id), row.case_hash, csv_field(row.variant),
               row.metric, row.value, row.unit, row.samples, row.spread, row.status);
  }
  return rows.empty() ? kExitNothing : kExitPass;
}

int show(History& history, const HistoryRequest& request) {
  HistoryQuery query;
  query.run_id = request.run_id;
  const std::vector<HistoryRow> rows = history.rows(query);
  if (rows.empty()) {
    fmt::print(stderr, "benchsuite: no run \"{}\" in the history; benchsuite history list shows all\n", request.run_id);
    return kExitNothing;
  }
  if (request.json) return print_rows(rows, request);
  for (const HistoryRow& row : rows) {
    fmt::print("{}/{}  {} = {}  ({}, n = {})\n", row.case_id, row.variant, row.metric,
               format_in_unit(row.value, row.unit), row.status, row.samples);
  }
  return kExitPass;
}

/// Values as bars of eighths between the smallest and the largest; "│" where another case hash begins, "▲" before a
/// change of level. The newest that fit.
std::string sparkline(const TrendLine& segments) {
  constexpr std::size_t kBars = 80;
  static constexpr const char* kBar[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double low = segments.front().points.front().value, high = low;
  std::vector<std::string> marks;
  for (const Segment& segment : segments) {
    for (const TrendPoint& point : segment.points) {
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (s > 0) marks.emplace_back("│");
    for (const TrendPoint& point : segments[s].points) {
      if (point.change) marks.emplace_back("▲");
      const double share = high > low ? (point.value - low) / (high - low) : 0.5;
      marks.emplace_back(kBar[std::min<std::size_t>(7, static_cast<std::size_t>(share * 8))]);
    }
  }
  std::string text;
  for (std::size_t i = marks.size() > kBars ? marks.size() - kBars : 0; i < marks.size(); ++i) text += marks[i];
  return text;
}

void print_trend(const TrendLine& segments) {
  const HistoryRow& newest = segments.back().rows.back();
  const TrendPoint& last = segments.back().points.back();
  const auto value = [&](double number) { return format_in_unit(number, newest.unit, 4); };
  std::size_t count = 0;
  for (const Segment& segment : segments) count += segment.rows.size();
  fmt::print("{}/{}  {}  {} on {}\n", newest.case_id, newest.variant, newest.metric, newest.device, newest.system);
  fmt::print("  {}\n", sparkline(segments));
  fmt::print("  {} runs, last {}, rolling median {}, band {} to {}{}\n", count, value(last.value), value(last.median),
             value(last.low), value(last.high), last.outside ? ": OUTSIDE the band of the runs before" : "");
  for (const std::string& event : events_of(segments)) fmt::print("  {}\n", event);
}

Json trend_json(const TrendLine& segments) {
  const HistoryRow& newest = segments.back().rows.back();
  Json series = Json::array();
  for (const Segment& segment : segments) {
    Json points = Json::array();
    for (std::size_t i = 0; i < segment.points.size(); ++i) {
      const TrendPoint& point = segment.points[i];
      points.push_back({{"run_id", segment.rows[i].run_id}, {"started", segment.rows[i].started},
                        {"commit", segment.rows[i].commit}, {"value", point.value}, {"median", point.median},
                        {"low", point.low}, {"high", point.high}, {"outside", point.outside}, {"change", point.change},
                        {"shift", point.shift}});
    }
    series.push_back({{"case_hash", segment.rows.front().case_hash}, {"points", points}});
  }
  return {{"case", newest.case_id}, {"variant", newest.variant}, {"metric", newest.metric}, {"unit", newest.unit},
          {"device", newest.device}, {"system", newest.system}, {"series", series}};
}

int trend(History& history, const HistoryRequest& request) {
  HistoryQuery query{request.case_id, request.variant, request.metric.empty() ? "iteration_s" : request.metric,
                     request.device, "", request.last};
  const std::vector<HistoryRow> rows = history.rows(query);
  if (rows.empty()) {
    fmt::print(stderr, "benchsuite: the history has no {} of case \"{}\"; benchsuite history list shows the runs\n",
               query.metric, request.case_id);
    return kExitNothing;
  }
  const std::vector<TrendLine> lines = lines_of(rows);
  if (!request.html.empty()) write_file(request.html, trend_page(lines), "--html");
  Json all = Json::array();
  for (const TrendLine& line : lines) {
    if (request.json) {
      all.push_back(trend_json(line));
    } else {
      print_trend(line);
    }
  }
  if (request.json) fmt::print("{}\n", all.dump(2));
  return kExitPass;
}

void check_metric(const std::string& metric) {
  if (metric.empty() || find_tracked(metric)) return;
  std::vector<std::string> known;
  std::string names;
  for (const TrackedMetric& tracked : tracked_metrics()) {
    known.emplace_back(tracked.name);
    names += (names.empty() ? "" : ", ") + std::string(tracked.name);
  }
  const std::string guess = did_you_mean(metric, known);
  throw Error({Violation{"command line", "--metric", metric, "not in the history",
                         (guess.empty() ? "" : "did you mean \"" + guess + "\"? ") + "choose from " + names}});
}

}  // namespace

int verb_history(const HistoryRequest& request) {
  check_metric(request.metric);
  if (request.action == HistoryAction::prune && request.keep < 0) {
    throw Error(
        {Violation{"command line", "--keep", fmt::format("{}", request.keep), "is negative", "give a number of runs"}});
  }
  const auto mode = request.action == HistoryAction::prune ? Database::Mode::write : Database::Mode::read;
  History history(request.file, mode);
  switch (request.action) {
    case HistoryAction::list: return list(history, request);
    case HistoryAction::show: return show(history, request);
    case HistoryAction::trend: return trend(history, request);
    case HistoryAction::prune:
      fmt::print("benchsuite: {} runs forgotten\n", history.prune(request.keep));
      return kExitPass;
    case HistoryAction::export_rows: break;
  }
  HistoryQuery query{request.case_id, request.variant, request.metric, request.device, "", 0};
  return print_rows(history.rows(query), request);
}

}  // namespace benchsuite
