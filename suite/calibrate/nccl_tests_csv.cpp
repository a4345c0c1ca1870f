// Summaries of collectives: op, ranks, size, busbw[, nodes].
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "suite/calibrate/nccl_tests.h"

namespace benchsuite {

namespace {

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find(',', at), line.size());
    std::string_view cell = line.substr(at, end - at);
    while (!cell.empty() && (cell.front() == ' ' || cell.front() == '\t' || cell.front() == '"')) cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\t' || cell.back() == '\r' || cell.back() == '"'))
      cell.remove_suffix(1);
    out.emplace_back(cell);
    at = end + 1;
  }
  return out;
}

bool parse(const std::string& text, double& value) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc{} && end == text.data() + text.size() && std::isfinite(value) && value > 0;
}

}  // namespace

NcclTestsFile read_collective_csv(std::string_view text, const std::string& file) {
  static const std::vector<std::string> kColumns = {"op", "ranks", "size", "busbw", "nodes"};
  std::vector<Violation> problems;
  std::map<std::string, std::size_t> column;
  struct Key {
    std::string op;
    int ranks, nodes;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<CollectiveRow>> found;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() == 1 && cells[0].empty()) continue;
    const std::string where = "line " + std::to_string(number);
    if (column.empty()) {
      for (std::size_t i = 0; i < cells.size(); ++i)
        if (std::find(kColumns.begin(), kColumns.end(), cells[i]) != kColumns.end()) column[cells[i]] = i;
      for (std::size_t i = 0; i < 4; ++i) {
        if (!column.contains(kColumns[i]))
          problems.push_back(
              {file, where, kColumns[i], "the heading has no such column",
               "name the columns in the first line: op,ranks,size,busbw (size in bytes, busbw in GB/s)"});
      }
      if (!problems.empty()) throw Error(problems);
      continue;
    }
    const auto cell = [&](const std::string& name) {
      const auto place = column.find(name);
      return place == column.end() || place->second >= cells.size() ? std::string() : cells[place->second];
    };
    const std::string op = collective_name(cell("op"));
    double ranks = 0, size = 0, busbw = 0, nodes = 0;
    const std::size_t before = problems.size();
    if (op.empty())
      problems.push_back({file, where, cell("op"), "not a collective",
                          "use all_reduce, all_gather, reduce_scatter, alltoall, send, broadcast or reduce"});
    if (!parse(cell("ranks"), ranks) || ranks != std::floor(ranks) || ranks < 2 || ranks > 1e6)
      problems.push_back({file, where, cell("ranks"), "ranks must be a whole number of 2 or more", "correct the line"});
    if (!parse(cell("size"), size))
      problems.push_back({file, where, cell("size"), "size must be bytes above 0", "correct the line"});
    if (!parse(cell("busbw"), busbw))
      problems.push_back({file, where, cell("busbw"), "busbw must be GB/s above 0", "correct the line"});
    if (!cell("nodes").empty() && (!parse(cell("nodes"), nodes) || nodes != std::floor(nodes) || nodes > ranks))
      problems.push_back(
          {file, where, cell("nodes"), "nodes must be a whole number up to the ranks", "correct the line"});
    if (problems.size() > before) continue;
    CollectiveRow row;
    row.size = static_cast<std::int64_t>(size);
    row.busbw = busbw * 1e9;
    row.out_of_place_s = size * busbw_factor(op, static_cast<int>(ranks)) / row.busbw;
    row.line = number;
    found[{op, static_cast<int>(ranks), static_cast<int>(nodes)}].push_back(row);
  }
  if (!problems.empty()) throw Error(problems);
  NcclTestsFile out;
  for (auto& [key, rows] : found) {
    CollectiveTable table;
    table.file = file;
    table.op_candidates = {key.op};
    table.ranks_low = table.ranks_high = key.ranks;
    table.nodes = key.nodes;
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.size < b.size; });
    table.rows = std::move(rows);
    out.tables.push_back(std::move(table));
  }
  return out;
}

}  // namespace benchsuite
