// The small Markdown of method notes as HTML. Text is escaped first, so that a note can't bring in markup.
#include <algorithm>

#include "suite/report/format.h"
#include "suite/report/html_parts.h"

namespace benchsuite::html {
namespace {

std::string trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::string inline_html(const std::string& source);

/// Text between a mark at `at` and the next one, or npos. Emphasis doesn't start before a space or inside a word.
std::size_t closing(const std::string& s, std::size_t at, const std::string& mark) {
  const std::size_t from = at + mark.size();
  if (from >= s.size() || s[from] == ' ') return std::string::npos;
  if (mark[0] == '_' && at > 0 && std::isalnum(static_cast<unsigned char>(s[at - 1]))) return std::string::npos;
  const std::size_t end = s.find(mark, from);
  return end == std::string::npos || end == from || s[end - 1] == ' ' ? std::string::npos : end;
}

std::string inline_html(const std::string& source) {
  std::string out, plain;
  const auto flush = [&] {
    out += html_escape(plain);
    plain.clear();
  };
  for (std::size_t i = 0; i < source.size();) {
    if (source[i] == '\\' && i + 1 < source.size() && std::ispunct(static_cast<unsigned char>(source[i + 1]))) {
      plain += source[i + 1];
      i += 2;
      continue;
    }
    if (source[i] == '`') {
      const std::size_t end = source.find('`', i + 1);
      if (end != std::string::npos) {
        flush();
        out += "<code>" + html_escape(source.substr(i + 1, end - i - 1)) + "</code>";
        i = end + 1;
        continue;
      }
    }
    bool marked = false;
    const std::pair<const char*, const char*> marks[] = {{"**", "strong"}, {"__", "strong"}, {"*", "em"}, {"_", "em"}};
    for (const auto& [mark, tag] : marks) {
      const std::string word = mark;
      if (source.compare(i, word.size(), word) != 0) continue;
      const std::size_t end = closing(source, i, word);
      if (end == std::string::npos) continue;
      flush();
      out += fmt::format("<{0}>{1}</{0}>", tag, inline_html(source.substr(i + word.size(), end - i - word.size())));
      i = end + word.size();
      marked = true;
      break;
    }
    if (marked) continue;
    if (source[i] == '[') {
      const std::size_t middle = source.find("](", i);
      const std::size_t end = middle == std::string::npos ? middle : source.find(')', middle);
      if (end != std::string::npos) {
        flush();
        out += inline_html(source.substr(i + 1, middle - i - 1));
        out += " <span class=\"soft mono\">(" + html_escape(source.substr(middle + 2, end - middle - 2)) + ")</span>";
        i = end + 1;
        continue;
      }
    }
    plain += source[i++];
  }
  flush();
  return out;
}

std::size_t heading_level(const std::string& line) {
  const std::size_t level = line.find_first_not_of('#');
  return level != std::string::npos && level >= 1 && level <= 6 && line[level] == ' ' ? level : 0;
}

/// Length of a list marker ("- ", "* ", "12. ") at the start of a trimmed line, 0 for none.
std::size_t marker(const std::string& line, bool& ordered) {
  if (line.size() > 2 && (line[0] == '-' || line[0] == '*' || line[0] == '+') && line[1] == ' ') {
    ordered = false;
    return 2;
  }
  const std::size_t digits = line.find_first_not_of("0123456789");
  if (digits != std::string::npos && digits > 0 && digits + 1 < line.size() && line[digits] == '.' &&
      line[digits + 1] == ' ') {
    ordered = true;
    return digits + 2;
  }
  return 0;
}

std::vector<std::string> cells_of(std::string line) {
  if (!line.empty() && line.front() == '|') line.erase(0, 1);
  if (!line.empty() && line.back() == '|') line.pop_back();
  std::vector<std::string> cells(1);
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cells.back() += '|';
      ++i;
    } else if (line[i] == '|') {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  for (std::string& cell : cells) cell = trim(cell);
  return cells;
}

bool is_rule_of_table(const std::string& line) {
  return line.find('-') != std::string::npos && line.find('|') != std::string::npos &&
         line.find_first_not_of("|-: ") == std::string::npos;
}

}  // namespace

std::string markdown_to_html(std::string_view markdown, int top) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= markdown.size();) {
    const std::size_t end = std::min(markdown.find('\n', at), markdown.size());
    lines.emplace_back(markdown.substr(at, end - at));
    at = end + 1;
  }
  std::string out, paragraph;
  const auto flush = [&] {
    if (!paragraph.empty()) out += "<p>" + inline_html(paragraph) + "</p>\n";
    paragraph.clear();
  };
  for (std::size_t i = 0; i < lines.size();) {
    const std::string line = trim(lines[i]);
    bool ordered = false;
    if (line.empty()) {
      flush();
      ++i;
    } else if (line.rfind("```", 0) == 0) {
      flush();
      out += "<pre><code>";
      for (++i; i < lines.size() && trim(lines[i]).rfind("```", 0) != 0; ++i) out += html_escape(lines[i]) + "\n";
      ++i;
      out += "</code></pre>\n";
    } else if (const std::size_t level = heading_level(line)) {
      flush();
      const int depth = std::min(6, top + static_cast<int>(level) - 1);
      out += fmt::format("<h{0}>{1}</h{0}>\n", depth, inline_html(trim(line.substr(level))));
      ++i;
    } else if (marker(line, ordered) > 0) {
      flush();
      out += ordered ? "<ol>" : "<ul>";
      while (i < lines.size()) {
        std::string item = trim(lines[i]);
        bool same = false;
        const std::size_t skip = marker(item, same);
        if (skip == 0 || same != ordered) break;
        item.erase(0, skip);
        // Lines that go on with the item: indented, not empty, no marker of their own.
        for (++i;
             i < lines.size() && !trim(lines[i]).empty() && lines[i][0] == ' ' && marker(trim(lines[i]), same) == 0;
             ++i)
          item.append(" ").append(trim(lines[i]));
        out += "<li>" + inline_html(item) + "</li>";
      }
      out += ordered ? "</ol>\n" : "</ul>\n";
    } else if (line[0] == '>') {
      flush();
      std::string quote;
      for (; i < lines.size() && trim(lines[i]).rfind(">", 0) == 0; ++i)
        quote.append(quote.empty() ? "" : " ").append(trim(trim(lines[i]).substr(1)));
      out += "<blockquote><p>" + inline_html(quote) + "</p></blockquote>\n";
    } else if (line.find('|') != std::string::npos && i + 1 < lines.size() && is_rule_of_table(trim(lines[i + 1]))) {
      flush();
      out += "<div class=scroll><table><tr>";
      for (const std::string& cell : cells_of(line)) out += "<th class=l>" + inline_html(cell) + "</th>";
      out += "</tr>";
      for (i += 2; i < lines.size() && trim(lines[i]).find('|') != std::string::npos; ++i) {
        out += "<tr>";
        for (const std::string& cell : cells_of(trim(lines[i])))
          out += "<td class=\"l wide\">" + inline_html(cell) + "</td>";
        out += "</tr>";
      }
      out += "</table></div>\n";
    } else {
      paragraph += (paragraph.empty() ? "" : " ") + line;
      ++i;
    }
  }
  flush();
  return out;
}

}  // namespace benchsuite::html
