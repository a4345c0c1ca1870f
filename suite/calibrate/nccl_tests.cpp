#include "suite/calibrate/nccl_tests.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "engine/core/json_reader.h"
#include "suite/calibrate/nccl_tests_rows.h"

namespace benchsuite {

using namespace nccl_tests;

double CollectiveRow::best_s() const {
  return in_place_s > 0 && in_place_s < out_of_place_s ? in_place_s : out_of_place_s;
}

double busbw_factor(std::string_view op, int ranks) {
  const double n = ranks;
  if (op == "all_reduce") return 2 * (n - 1) / n;
  if (op == "send" || op == "broadcast" || op == "reduce") return 1;
  return (n - 1) / n;
}

std::string collective_name(std::string_view word) {
  std::string letters;
  for (const char c : word)
    if (c != '_' && c != '-' && c != ' ') letters += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (letters.ends_with("perf")) letters.resize(letters.size() - 4);
  static constexpr std::array<std::pair<const char*, const char*>, 11> kNames = {{{"allreduce", "all_reduce"},
                                                                                  {"allgather", "all_gather"},
                                                                                  {"reducescatter", "reduce_scatter"},
                                                                                  {"alltoall", "alltoall"},
                                                                                  {"sendrecv", "send"},
                                                                                  {"send", "send"},
                                                                                  {"sendreceive", "send"},
                                                                                  {"broadcast", "broadcast"},
                                                                                  {"reduce", "reduce"},
                                                                                  {"gather", "gather"},
                                                                                  {"scatter", "scatter"}}};
  for (const auto& [given, name] : kNames)
    if (letters == given) return name;
  return "";
}

namespace {

/// What the header of one run said, until the next run starts.
struct Header {
  std::string op, software, gpu;
  std::set<std::string> hosts;
  int ranks = 0;
  std::optional<Columns> columns;
};

class TextReader {
 public:
  TextReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  NcclTestsFile read() {
    for (std::size_t at = 0; at < text_.size();) {
      const std::size_t end = std::min(text_.find('\n', at), text_.size());
      ++line_;
      std::string_view line = text_.substr(at, end - at);
      if (line.size() < 4096) read_line(cleaned(line));  // nothing nccl-tests prints is longer
      at = end + 1;
    }
    close();
    agree();
    return std::move(out_);
  }

 private:
  /// A log is of one job: where some tables tell its ranks and all that do agree, they tell the others'.
  void agree() {
    int known = 0;
    for (const CollectiveTable& table : out_.tables) {
      if (!table.ranks_known()) continue;
      if (known != 0 && known != table.ranks_low) return;
      known = table.ranks_low;
    }
    for (CollectiveTable& table : out_.tables)
      if (table.ranks_low <= known && known <= table.ranks_high) table.ranks_low = table.ranks_high = known;
  }

  void read_line(const std::string& line) {
    std::vector<std::string_view> tokens = tokens_of(line);
    if (tokens.empty()) return;
    if (const auto columns = read_heading(tokens)) {
      if (!rows_.empty()) {
        close();
        header_.op.clear();
      }
      header_.columns = columns;
      return;
    }
    if (looks_like_row(tokens)) return read_data(tokens);
    if (tokens.front() == "#") tokens.erase(tokens.begin());
    if (!tokens.empty()) read_header(tokens);
  }

  void read_data(const std::vector<std::string_view>& tokens) {
    const auto raw = read_row(tokens, header_.columns);
    if (!raw) {
      out_.warnings.push_back(file_ + " line " + std::to_string(line_) + ": starts like a row and is none; left out");
      return;
    }
    // A new run starts where sizes fall back or the kind of row changes.
    if (!rows_.empty()) {
      const RawRow& last = rows_.back();
      const auto expands = [](const RawRow& r) { return r.row.size > r.row.count * std::max(1, element_size(r.type)); };
      if (raw->type != last.type || raw->redop != last.redop || raw->root != last.root ||
          (raw->row.count > 0 && last.row.count > 0 && expands(*raw) != expands(last)) || raw->row.size < last.row.size)
        close();
    }
    rows_.push_back(*raw);
    rows_.back().row.line = line_;
  }

  void read_header(const std::vector<std::string_view>& tokens) {
    const auto is = [&](std::size_t i, std::string_view word) { return i < tokens.size() && tokens[i] == word; };
    if (is(0, "nThread")) {
      close();
      const Header before = std::move(header_);
      header_ = Header{};
      header_.op = before.op;
      header_.software = before.software;
    } else if (is(0, "Collective") && is(1, "test") && is(2, "starting:") && tokens.size() == 4) {
      close();
      header_.op = collective_name(tokens[3]);
    } else if (is(0, "nccl-tests") && is(1, "version")) {
      header_.software = "nccl-tests";
      for (std::size_t i = 2; i < tokens.size(); ++i) header_.software.append(" ").append(tokens[i]);
    } else if (is(0, "Rank") && tokens.size() > 6) {
      read_device(tokens);
    } else if (is(0, "Out") && is(1, "of") && is(2, "bounds") && is(3, "values") && tokens.size() > 5) {
      out_of_bounds_ = tokens[5] != "0";
    }
  }

  /// Rank 0 [Group 0] Pid 1 on HOST device 0 [0000:19:00] NVIDIA H100 80GB HBM3
  void read_device(const std::vector<std::string_view>& tokens) {
    int rank = -1;
    std::from_chars(tokens[1].data(), tokens[1].data() + tokens[1].size(), rank);
    if (rank < 0) return;
    if (!rows_.empty()) close();
    header_.ranks = std::max(header_.ranks, rank + 1);
    for (std::size_t i = 2; i + 2 < tokens.size(); ++i) {
      if (tokens[i] == "on" && tokens[i + 2] == "device") header_.hosts.insert(std::string(tokens[i + 1]));
      if (!tokens[i].starts_with("[")) continue;
      header_.gpu.clear();
      for (std::size_t j = i + 1; j < tokens.size(); ++j) {
        if (!header_.gpu.empty()) header_.gpu += ' ';
        header_.gpu += tokens[j];
      }
      break;
    }
  }

  void close() {
    if (!rows_.empty()) {
      CollectiveTable table;
      table.file = file_;
      table.nodes = static_cast<int>(header_.hosts.size());
      table.gpu = header_.gpu;
      table.software = header_.software;
      table.out_of_bounds = out_of_bounds_;
      classify(table, rows_, header_.op, header_.ranks);
      for (const RawRow& raw : rows_)
        if (raw.row.size > 0 && raw.row.out_of_place_s > 0) table.rows.push_back(raw.row);
      std::stable_sort(table.rows.begin(), table.rows.end(),
                       [](const auto& a, const auto& b) { return a.size < b.size; });
      if (!table.rows.empty()) out_.tables.push_back(std::move(table));
    }
    rows_.clear();
    out_of_bounds_.reset();
  }

  std::string_view text_;
  std::string file_;
  int line_ = 0;
  Header header_;
  std::optional<bool> out_of_bounds_;
  std::vector<RawRow> rows_;
  NcclTestsFile out_;
};

double number_of(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return 0;
  const Json& value = object.at(key);
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    double parsed = 0;
    std::from_chars(text.data(), text.data() + text.size(), parsed);
    return std::isfinite(parsed) ? parsed : 0;
  }
  return 0;
}

std::string text_of(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object.at(key).is_string() ? object.at(key).get<std::string>()
                                                                                  : "";
}

/// One row of JSON as the scanner would have read it, so that both formats are classified alike.
RawRow raw_row(const Json& result, const Json& out_of_place, const Json& in_place) {
  RawRow raw;
  raw.row.size = static_cast<std::int64_t>(number_of(result, "size"));
  raw.row.count = static_cast<std::int64_t>(number_of(result, "count"));
  raw.type = text_of(result, "type");
  raw.redop = text_of(result, "redop");
  if (raw.redop == "none" || raw.redop == "-") raw.redop.clear();
  raw.root = result.contains("root") ? static_cast<int>(number_of(result, "root")) : -1;
  const double time = number_of(out_of_place, "time") + number_of(out_of_place, "cpu_time");
  raw.row.out_of_place_s = time * 1e-6;
  raw.row.in_place_s = (number_of(in_place, "time") + number_of(in_place, "cpu_time")) * 1e-6;
  const double algbw = number_of(out_of_place, "alg_bw") * 1e9, busbw = number_of(out_of_place, "bus_bw") * 1e9;
  raw.row.busbw = busbw;
  raw.row.wrong = static_cast<std::int64_t>(number_of(out_of_place, "nwrong"));
  // JSON carries doubles; a part in ten thousand covers how they were printed.
  constexpr double kDigits = 1e-4;
  raw.time_low = raw.row.out_of_place_s * (1 - kDigits);
  raw.time_high = raw.row.out_of_place_s * (1 + kDigits);
  raw.algbw_low = algbw * (1 - kDigits);
  raw.algbw_high = algbw * (1 + kDigits);
  raw.busbw_low = busbw * (1 - kDigits);
  raw.busbw_high = busbw * (1 + kDigits);
  return raw;
}

void add_table(NcclTestsFile& out, CollectiveTable table, std::vector<RawRow> raws, const std::string& named,
               int ranks) {
  std::erase_if(raws, [](const RawRow& raw) { return raw.row.size <= 0 || !(raw.row.out_of_place_s > 0); });
  if (raws.empty()) return;
  std::stable_sort(raws.begin(), raws.end(), [](const auto& a, const auto& b) { return a.row.size < b.row.size; });
  classify(table, raws, named, ranks);
  for (const RawRow& raw : raws) table.rows.push_back(raw.row);
  out.tables.push_back(std::move(table));
}

/// nccl-tests -J.
NcclTestsFile read_json(const Json& json, const std::string& file) {
  NcclTestsFile out;
  CollectiveTable table;
  table.file = file;
  int ranks = 0;
  std::set<std::string> hosts;
  if (json.contains("config") && json["config"].is_object() && json["config"].contains("devices")) {
    for (const Json& device : json["config"]["devices"]) {
      ranks = std::max(ranks, static_cast<int>(number_of(device, "rank")) + 1);
      if (const std::string host = text_of(device, "hostname"); !host.empty()) hosts.insert(host);
      table.gpu = text_of(device, "device_info");
    }
  }
  table.nodes = static_cast<int>(hosts.size());
  if (const double version = number_of(json, "nccl_version"); version > 0)
    table.software = "NCCL " + std::to_string(static_cast<std::int64_t>(version));
  if (json.contains("out_of_bounds")) table.out_of_bounds = number_of(json["out_of_bounds"], "count") > 0;
  std::string named;
  if (json.contains("args") && json["args"].is_array() && !json["args"].empty() && json["args"][0].is_string()) {
    const std::string program = json["args"][0].get<std::string>();
    named = collective_name(std::string_view(program).substr(program.find_last_of('/') + 1));
  }
  std::vector<RawRow> raws;
  for (const Json& result : json.at("results")) {
    if (!result.is_object() || !result.contains("out_of_place")) continue;
    raws.push_back(raw_row(result, result["out_of_place"], result.contains("in_place") ? result["in_place"] : Json()));
  }
  add_table(out, std::move(table), std::move(raws), named, ranks);
  return out;
}

/// rccl-tests -Z json: one object a line, out of place and in place apart.
NcclTestsFile read_rccl_lines(std::string_view text, const std::string& file) {
  NcclTestsFile out;
  std::map<std::pair<std::string, int>, std::map<std::int64_t, RawRow>> tables;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const Json json = Json::parse(text.substr(at, end - at), nullptr, false);
    at = end + 1;
    if (!json.is_object() || !json.contains("busBw")) continue;
    const std::string name = collective_name(text_of(json, "name"));
    const auto size = static_cast<std::int64_t>(number_of(json, "size"));
    RawRow& raw = tables[{name, static_cast<int>(number_of(json, "gpus"))}][size];
    raw.row.size = size;
    raw.type = text_of(json, "type");
    raw.redop = text_of(json, "redop");
    if (number_of(json, "inPlace") > 0) {
      raw.row.in_place_s = number_of(json, "time") * 1e-6;
      continue;
    }
    raw.row.out_of_place_s = number_of(json, "time") * 1e-6;
    raw.row.busbw = number_of(json, "busBw") * 1e9;
    raw.row.wrong = static_cast<std::int64_t>(number_of(json, "#wrong"));
  }
  for (const auto& [key, rows] : tables) {
    std::vector<RawRow> raws;
    for (const auto& [size, raw] : rows) raws.push_back(raw);
    CollectiveTable table;
    table.file = file;
    add_table(out, std::move(table), std::move(raws), key.first, key.second);
  }
  return out;
}

}  // namespace

NcclTestsFile read_nccl_tests(std::string_view text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_object() && json.contains("results") && json["results"].is_array()) return read_json(json, file);
    return read_rccl_lines(text, file);
  }
  return TextReader(text, file).read();
}

}  // namespace benchsuite
