// A table of aligned columns for a terminal that never gets wider than 120 columns.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace benchsuite {

class TextTable {
 public:
  enum Side { right, left };
  struct Column {
    std::string header;
    Side side = right;
    std::size_t most = 200;  ///< cells are clipped to this width
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column.
  void add(std::vector<std::string> cells);

  using PaintHeader = std::function<std::string(std::string_view)>;
  using PaintFirst =
      std::function<std::string(std::size_t row, std::string_view cell)>;  ///< colours the first cell of a row

  using Note =
      std::function<std::string(std::size_t row)>;  ///< wrapped below its row, under the second column, and once below
                                                    ///< rows in a row that have the same; "" for none

  /// `indent` spaces, then cells two spaces apart; lines end in a newline and have no trailing spaces.
  std::string text(std::size_t indent, const PaintHeader& paint_header, const PaintFirst& paint_first = {},
                   const Note& note = {}) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace benchsuite
