// The pieces that html.cpp puts together. Each appends to a page under construction.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "suite/run.h"

namespace benchsuite::html {

class Page {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }
  void raw(std::string_view text) { text_ += text; }
  /// Text of the run: escaped.
  void text(std::string_view text);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// The whole style sheet.
std::string_view style_sheet();

/// CSS class of a category's colour: "k-forward".
std::string category_class(Category category);
/// "ok", "warn", "bad" or "mute".
std::string_view tone_of(Status status);
std::string_view tone_of(Verdict verdict);

void pill(Page& page, std::string_view word, std::string_view tone);
void category_legend(Page& page);

// html_charts.cpp
void waterfall_chart(Page& page, const Waterfall& waterfall);
void breakdown_chart(Page& page, const CaseResult& result);
void memory_chart(Page& page, const CaseResult& result);
void range_bar(Page& page, const CheckResult& check);

// html_gantt.cpp
/// Stages as lanes over one step. `column_budget` bounds the size: a lane has at most that many distinguishable
/// instants.
void gantt_chart(Page& page, const VariantResult& variant, std::size_t column_budget);

// html_tables.cpp
void variants_table(Page& page, const CaseResult& result);
void communication_table(Page& page, const CaseResult& result);
void checks_table(Page& page, const CaseResult& result);
void claims_list(Page& page, const CaseResult& result);

/// A small subset of Markdown: headings, paragraphs, lists, block quotes, code, tables, emphasis. Links become their
/// text and, behind it, their address as text: the page links nowhere. Headings start at level `top`.
std::string markdown_to_html(std::string_view markdown, int top);

}  // namespace benchsuite::html
