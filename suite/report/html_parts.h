// The pieces that html.cpp puts together. Each appends to a page under construction.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "suite/results/run.h"

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

/// A number that says where it comes from when it is clicked: the script finds it in number_data() by `key`, for example
/// "0.v3.mfu" (case 0, variant 3), "0.v3.s1.peak_bytes" (stage), "0.v3.c2.bytes" (kind of communication),
/// "0.v3.k.forward" (category), "0.w1.p2" (part of a waterfall), "0.x12" (check).
void number(Page& page, std::string_view text, std::string_view key);

void pill(Page& page, std::string_view word, std::string_view tone);
void category_legend(Page& page);

/// A share of one as an SVG length: "12.5%".
std::string pct(double share);

// html_charts.cpp. `index` is the place of the case in the run: keys of numbers start with it.
void waterfall_chart(Page& page, const Waterfall& waterfall, const std::string& key);
void breakdown_chart(Page& page, const CaseResult& result, std::size_t index);
void range_bar(Page& page, const CheckResult& check);

// html_memory.cpp
void memory_chart(Page& page, const CaseResult& result, std::size_t index);

// html_loss.cpp
/// The loss of every trained step, all variants in one picture; nothing where nothing was trained.
void loss_chart(Page& page, const CaseResult& result, std::size_t index);

// html_gantt.cpp
/// Stages as lanes over one step: a still picture for paper and for readers without script, and beside it the spans for
/// the script's. `column_budget` bounds the still: a lane has at most that many distinguishable instants.
void gantt_chart(Page& page, const VariantResult& variant, std::size_t column_budget, std::size_t case_index,
                 std::size_t variant_index);

// html_tables.cpp
void variants_table(Page& page, const CaseResult& result, std::size_t index);
void bubble_table(Page& page, const CaseResult& result, std::size_t index);
void communication_table(Page& page, const CaseResult& result, std::size_t index);

// html_checks.cpp
void checks_table(Page& page, const CaseResult& result, std::string_view device, std::size_t index);
void claims_list(Page& page, const CaseResult& result, std::size_t index);

// gantt_data.cpp
/// The spans of all stages for the script, as JSON without any text of the run: {step, quantum (both ps), stages,
/// tokens, lanes}. A token is [category, quanta, change of micro-batch, change of chunk]; a lane is base64 of token
/// numbers, one byte below 224, else (number - 224) / 256 + 224 and the remainder. The quantum is the finest of at
/// most 2^22 in a step with which 2,048 tokens are enough: a step of 64 stages and 512 micro-batches takes 400 KB.
std::string gantt_data(const VariantResult& variant);

// html_numbers.cpp
/// How a number of a variant is made. `inputs` are keys of other numbers of the same variant.
struct NumberDefinition {
  std::string_view key, title, unit, formula, source;
  std::vector<std::string_view> inputs;
};
const std::vector<NumberDefinition>& number_definitions();
/// What the script needs to explain every number: definitions, and the values of all of them in full precision, as JSON
/// that can't end a script element.
std::string number_data(const Run& run);
/// The definitions as text, for paper and for readers without script.
void definitions_list(Page& page, const Run& run);

// html_script.cpp, html_script_gantt.cpp
/// The page's own script: explains numbers; draws, zooms and moves pipeline pictures.
std::string_view number_script();
std::string_view gantt_script();

/// A small subset of Markdown: headings, paragraphs, lists, block quotes, code, tables, emphasis. Links become their
/// text and, behind it, their address as text: the page links nowhere. Headings start at level `top`.
std::string markdown_to_html(std::string_view markdown, int top);

}  // namespace benchsuite::html
