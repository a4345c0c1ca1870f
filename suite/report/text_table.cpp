#include "suite/report/text_table.h"

#include <algorithm>

#include "suite/report/console.h"
#include "suite/report/format.h"

namespace benchsuite {

void TextTable::add(std::vector<std::string> cells) {
  CHECK(cells.size() == columns_.size()) << cells.size() << " cells for " << columns_.size() << " columns";
  for (std::string& cell : cells) cell = one_line(cell);
  rows_.push_back(std::move(cells));
}

std::string TextTable::text(std::size_t indent, const PaintHeader& paint_header, const PaintFirst& paint_first,
                            const Note& note) const {
  const std::size_t count = columns_.size();
  std::vector<std::size_t> width(count, 0);
  for (std::size_t c = 0; c < count; ++c) {
    width[c] = columns(columns_[c].header);
    for (const auto& row : rows_) width[c] = std::max(width[c], std::min(columns(row[c]), columns_[c].most));
  }

  // Too wide: the text columns give way, the widest first; numbers stay whole.
  std::size_t used = indent + 2 * (count - 1);
  for (std::size_t w : width) used += w;
  while (used > kConsoleColumns) {
    std::size_t widest = count;
    for (std::size_t c = 0; c < count; ++c) {
      if (columns_[c].side == left && width[c] > 8 && (widest == count || width[c] > width[widest])) widest = c;
    }
    if (widest == count) break;
    --width[widest];
    --used;
  }

  std::string out;
  const auto line = [&](const std::vector<std::string>& cells, const auto& paint) {
    std::string text(indent, ' ');
    for (std::size_t c = 0; c < count; ++c) {
      const std::string cell = clip(cells[c], width[c]);
      const std::string padded = columns_[c].side == left ? pad_right(cell, width[c]) : pad_left(cell, width[c]);
      if (c > 0) text += "  ";
      text += paint(c, padded);
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    out += text + "\n";
  };
  std::vector<std::string> headers;
  for (const Column& column : columns_) headers.push_back(column.header);
  line(headers, [&](std::size_t, const std::string& cell) { return paint_header ? paint_header(cell) : cell; });
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    line(rows_[r],
         [&](std::size_t c, const std::string& cell) { return c == 0 && paint_first ? paint_first(r, cell) : cell; });
    if (!note || (r + 1 < rows_.size() && note(r + 1) == note(r))) continue;
    const std::string margin(indent + width[0] + 4, ' ');
    for (const std::string& piece : wrap(note(r), kConsoleColumns - margin.size())) {
      if (!piece.empty()) out += margin + piece + "\n";
    }
  }
  return out;
}

}  // namespace benchsuite
