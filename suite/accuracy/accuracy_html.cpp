#include <fmt/format.h>

#include <algorithm>

#include "engine/model/flops.h"
#include "suite/accuracy/accuracy_charts.h"
#include "suite/accuracy/accuracy_render.h"
#include "suite/report/format.h"

namespace benchsuite {

namespace {

using html::Page;

constexpr std::string_view kStyle = R"css(
.charts{display:flex;flex-wrap:wrap;gap:6px 22px;margin:.4em 0 1em}
.charts figure{margin:0}.charts figcaption{font-size:.82rem;color:var(--soft);max-width:270px}
svg .frame{fill:var(--card);stroke:var(--line)}svg .grid{stroke:var(--line)}svg .diagonal{stroke:var(--soft)}
svg .band{stroke:var(--line);stroke-dasharray:4 3}svg .dot{fill:var(--backward);fill-opacity:.55}
svg .axis{fill:var(--soft);font-size:10.5px}
details{margin:.3em 0 1em}summary{cursor:pointer;color:var(--soft)}
td.met{color:var(--ok)}td.missed{color:var(--bad)}
)css";

void scores_table(Page& page, const std::vector<Score>& scores, const char* what) {
  page.add(
      "<div class=scroll><table><thead><tr><th class=l>{}<th>rows<th>com-<br>pared<th>mean<br>%<th>target<th>max<br>%<th>bias<br>%"
      "<th>by configu-<br>ration %<th>rank<th>cover-<br>age<th>half-width<br>%<th>draws that<br>meet it<th>memory<br>right</tr></thead><tbody>\n",
      what);
  for (const Score& score : scores) {
    const bool any = score.compared > 0;
    const std::vector<std::string> missed = score.missed_goals();
    const auto tone = [&](const char* goal) {
      if (!any || !score.target_mean_pct) return "";
      return std::find(missed.begin(), missed.end(), goal) == missed.end() ? " class=met" : " class=missed";
    };
    const auto number = [&](double value) { return any ? fmt::format("{:.1f}", value) : std::string("–"); };
    page.add("<tr><td class=\"l wide\">{}<td>{}<td>{}<td{}>{}<td>{}<td{}>{}<td{}>{}<td>{}<td>{}", html_escape(score.name), score.rows,
             score.compared, tone("mean"), number(score.mean_abs_pct), score_number(score.target_mean_pct, 1), tone("worst"),
             number(score.max_abs_pct), tone("bias"), any ? fmt::format("{:+.1f}", score.bias_pct) : "–",
             score.configurations > 0 ? fmt::format("{:.1f} of {}", score.configuration_mean_abs_pct, score.configurations) : "–",
             score_number(score.rank_correlation, 2));
    page.add("<td{}>{}<td{}>{}<td>{}<td>{}</tr>\n", score.interval_coverage ? tone("coverage") : "", score_share(score.interval_coverage),
             score.interval_half_width_pct ? tone("width") : "", score_half_width(score), score_share(score.share_of_draws),
             score.memory_rows > 0 ? fmt::format("{:.0f} % of {}", 100 * score.memory_right, score.memory_rows) : "–");
    for (const SubScore& sub : score.sub_scores) {
      const char* sub_tone = !sub.target.bound ? "" : sub.met() ? " class=met" : " class=missed";
      page.add("<tr><td class=\"l wide\">– {}<td><td>{}<td{}>{}<td>{}<td colspan=8></tr>\n", html_escape(sub.target.name), sub.rows,
               sub_tone, sub_value(sub), sub_bound(sub));
    }
  }
  page.raw("</tbody></table></div>\n");
}

std::vector<ChartPoint> points_of(const AccuracyReport& report, const std::string& set,
                                  const std::function<double(const RowResult&)>& x, bool residual) {
  std::vector<ChartPoint> points;
  for (const RowResult& row : report.rows) {
    if (!row.error_pct || (!set.empty() && row.set != set)) continue;
    points.push_back({x(row), residual ? *row.error_pct : row.predicted_seconds(),
                      fmt::format("{}: {} published, {} predicted, {:+.1f} %", row.id, format_seconds(row.published_seconds()),
                                  format_seconds(row.predicted_seconds()), *row.error_pct)});
  }
  return points;
}

void figures(Page& page, const AccuracyReport& report) {
  page.raw(
      "<h2>Predicted against published</h2>\n<p>Seconds of a step (of one layer where its time is published), by set. The dashes are "
      "10 % either side.</p>\n<div class=charts>\n");
  for (const Score& score : report.sets) {
    const auto points = points_of(report, score.name, [](const RowResult& row) { return row.published_seconds(); }, false);
    if (points.empty()) continue;
    page.raw("<figure>");
    identity_chart(page, points);
    page.add("<figcaption>{}: {} rows, mean {:.1f} %, bias {:+.1f} %</figcaption></figure>\n", html_escape(score.name), points.size(),
             score.mean_abs_pct, score.bias_pct);
  }
  page.raw("</div>\n<h2>Residuals</h2>\n<p>Error of every compared row; what lies beyond 60 % stands at the edge.</p>\n<div class=charts>\n");
  const std::pair<const char*, std::function<double(const RowResult&)>> quantities[] = {
      {"tensor ranks", [](const RowResult& row) { return static_cast<double>(row.layout.tp); }},
      {"pipeline stages", [](const RowResult& row) { return static_cast<double>(row.layout.pp); }},
      {"replicas", [](const RowResult& row) { return static_cast<double>(row.layout.dp); }},
      {"GPUs", [](const RowResult& row) { return static_cast<double>(row.layout.world()); }},
      {"billion parameters", [](const RowResult& row) { return static_cast<double>(parameter_count(row.model, row.model.vocab).total()) * 1e-9; }},
      {"tokens of a micro-batch", [](const RowResult& row) { return static_cast<double>(row.layout.micro_batch * row.model.seq); }},
      {"micro-batches a step", [](const RowResult& row) { return static_cast<double>(row.layout.micro_batches()); }},
      {"sequence", [](const RowResult& row) { return static_cast<double>(row.model.seq); }},
  };
  for (const auto& [name, x] : quantities) {
    page.raw("<figure>");
    residual_chart(page, name, points_of(report, "", x, true));
    page.raw("</figure>\n");
  }
  page.raw("</div>\n");
}

void ablation_table(Page& page, const AccuracyReport& report) {
  if (report.ablation.empty()) return;
  page.raw("<h2>What each effect is worth</h2>\n<p>The same rows with one thing changed. A lower error is no evidence by itself: "
           "errors cancel.</p>\n<div class=scroll><table><thead><tr><th class=l>change<th class=l>set<th>rows<th>step<th>mean %<th>bias %"
           "<th>mean before<th>bias before</tr></thead><tbody>\n");
  for (const AblationRow& row : report.ablation) {
    page.add("<tr><td class=l>{}<td class=l>{}<td>{}<td>{:+.1f} %<td>{:.1f}<td>{:+.1f}<td>{:.1f}<td>{:+.1f}</tr>\n",
             html_escape(row.effect), html_escape(row.set), row.rows, row.step_change_pct, row.mean_abs_pct, row.bias_pct,
             row.base_mean_abs_pct, row.base_bias_pct);
  }
  page.raw("</tbody></table></div>\n");
}

void ratios_table(Page& page, const Score& score) {
  page.add("<details><summary>{}: {} rows</summary><p>{}</p><div class=scroll><table><thead><tr><th class=l>row<th class=l>over"
           "<th>published<th>predicted<th>error</tr></thead><tbody>\n",
           html_escape(score.name), score.relative_rows.size(), html_escape(score.relative_to));
  for (const RelativeRow& row : score.relative_rows) {
    page.add("<tr><td class=l>{}<td class=l>{}<td>{:.3f}<td>{:.3f}<td>{:+.1f} %</tr>\n", html_escape(row.id), html_escape(row.reference),
             row.published, row.predicted, row.error_pct);
  }
  page.raw("</tbody></table></div></details>\n");
}

void rows_table(Page& page, const AccuracyReport& report) {
  page.raw("<h2>Rows</h2>\n");
  for (const Score& score : report.sets) {
    if (!score.relative_to.empty()) {
      ratios_table(page, score);
      continue;
    }
    if (score.mapped == 0) continue;
    page.add("<details><summary>{}: {} rows</summary><div class=scroll><table><thead><tr><th class=l>row<th>published<th>predicted"
             "<th>error<th>interval<th class=l>dominant<th>peak memory</tr></thead><tbody>\n", html_escape(score.name), score.mapped);
    for (const RowResult& row : report.rows) {
      if (row.set != score.name || !row.predicted) continue;
      const double published = row.published_seconds(), predicted = row.predicted_seconds();
      page.add("<tr><td class=l>{}<td>{}<td>{}<td>{}<td>{}<td class=l>{}<td>{}</tr>\n", html_escape(row.id),
               published > 0 ? format_seconds(published) : row.published.out_of_memory ? "no memory" : "–",
               predicted > 0 ? format_seconds(predicted) : row.predicted->fits ? "fits" : "no memory",
               row.error_pct ? fmt::format("{:+.1f} %", *row.error_pct) : "–",
               row.interval ? format_seconds(row.interval->first) + " – " + format_seconds(row.interval->second) : "–",
               html_escape(row.dominant),
               row.kind == RowKind::layer_time ? "–" : fmt::format("{:.1f} GiB", row.predicted->peak_memory_gib));
    }
    page.raw("</tbody></table></div></details>\n");
  }
  const std::vector<UnmappedReason> reasons = unmapped_reasons(report);
  if (reasons.empty()) return;
  page.raw("<h2>Rows that are not mapped</h2>\n<div class=scroll><table><thead><tr><th>rows<th class=l>reason<th class=l>one of them</tr></thead><tbody>\n");
  for (const UnmappedReason& reason : reasons) {
    page.add("<tr><td>{}<td class=\"l wide\">{}<td class=l>{}</tr>\n", reason.rows, html_escape(reason.reason), html_escape(reason.example));
  }
  page.raw("</tbody></table></div>\n");
}

}  // namespace

std::string accuracy_html(const AccuracyReport& report) {
  Page page;
  page.raw("<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
           "content=\"width=device-width,initial-scale=1\"><meta name=color-scheme content=\"light dark\">");
  page.add("<title>Accuracy against published measurements</title><style>{}{}</style></head>\n<body><main>\n", html::style_sheet(), kStyle);
  const auto mapped = static_cast<std::size_t>(std::count_if(report.rows.begin(), report.rows.end(), [](const auto& row) { return row.mapped; }));
  page.add("<h1>How far predictions are from published training steps</h1>\n<p>{} rows, {} mapped to a configuration, {} not (with the "
           "reason below). Constants come from operator measurements and datasheets; none was adjusted to these rows. {} Goals of a set "
           "with a target, green where it meets them: {}.</p>\n",
           report.rows.size(), mapped, report.rows.size() - mapped, intervals_in_words(report), goals_in_words());
  scores_table(page, sets_and_all(report), "set");
  figures(page, report);
  ablation_table(page, report);
  page.raw("<h2>By source</h2>\n");
  scores_table(page, report.sources, "source");
  rows_table(page, report);
  page.raw("</main></body></html>\n");
  return page.take();
}

}  // namespace benchsuite
