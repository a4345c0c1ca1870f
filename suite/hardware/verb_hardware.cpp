// hardware list and show: the profiles there are, and every constant of one with where it comes from.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "engine/device/sim/hardware.h"
#include "suite/cases/data_root.h"
#include "suite/hardware/verb_hardware.h"
#include "suite/report/format.h"
#include "suite/report/text_table.h"
#include "suite/results/outcome.h"

namespace benchsuite {

namespace {

constexpr std::size_t kValueColumns = 36;

/// One constant, flattened for a table.
struct Constant {
  std::string key, value, range, source, rows, error, held_back, remark;
};

std::string scalar(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// "[0.74, 0.87]", {"low": 0.74, "high": 0.87} and the like on one line.
std::string range_text(const Json& range) {
  std::string text;
  const auto add = [&](const Json& bound) { text += (text.empty() ? "" : " – ") + scalar(bound); };
  if (range.is_array() || range.is_object())
    for (const auto& bound : range)
      if (bound.is_primitive()) add(bound);
  return text;
}

std::string error_text(const Json& errors) {
  if (!errors.is_object() || !errors.contains("median") || !errors.contains("p90")) return "";
  return format_percent(errors["median"].get<double>(), 2) + " | " + format_percent(errors["p90"].get<double>(), 2);
}

void provenance(const Json& node, Constant& out) {
  if (node.contains("source")) out.source = scalar(node["source"]);
  if (node.contains("range")) out.range = range_text(node["range"]);
  if (node.contains("rows")) out.rows = scalar(node["rows"]);
  out.error = error_text(node.contains("fit_error") ? node["fit_error"] : node);
  if (node.contains("held_back")) {
    out.held_back = error_text(node["held_back"]);
    if (node["held_back"].contains("rows")) out.held_back += " of " + scalar(node["held_back"]["rows"]);
  }
  if (node.contains("status") && node["status"] == "proxy") out.remark = "proxy: ";
  for (const char* key : {"reason", "note"})
    if (node.contains(key)) out.remark += scalar(node[key]);
}

/// Fields of an entry of a list, but for its provenance: "op all_reduce, ranks 8, busbw 517".
std::string entry_text(const Json& entry) {
  static const std::vector<std::string> kElsewhere = {"source", "rows", "status", "reason", "note", "median", "p90"};
  std::string text;
  for (const auto& [key, value] : entry.items()) {
    if (std::find(kElsewhere.begin(), kElsewhere.end(), key) != kElsewhere.end()) continue;
    std::string word;
    if (value.is_primitive())
      word = scalar(value);
    else if (value.is_object() && !value.contains("median") && !value.contains("value"))
      word = entry_text(value);
    if (word.empty()) continue;
    text += (text.empty() ? "" : ", ") + key + " " + (value.is_object() ? "(" + word + ")" : word);
  }
  return text;
}

Constant constant_of(const std::string& key, const std::string& value, const Json& node) {
  Constant constant;
  constant.key = key;
  constant.value = value;
  provenance(node, constant);
  if (key.empty()) constant.key = "all of it";
  if (columns(value) > kValueColumns) {  // a whole entry: on lines of its own
    constant.remark = value + (constant.remark.empty() ? "" : "; ") + constant.remark;
    constant.value.clear();
  }
  return constant;
}

/// Every object with a value or a source is a constant; every entry of a list of objects too.
void flatten(const Json& node, const std::string& key, std::vector<Constant>& out) {
  if (!node.is_object()) return;
  if (node.contains("value")) {
    const std::string unit = node.contains("unit") ? " " + scalar(node["unit"]) : "";
    out.push_back(constant_of(key, scalar(node["value"]) + unit, node));
    return;
  }
  if (node.contains("source") && node["source"].is_string()) out.push_back(constant_of(key, entry_text(node), node));
  for (const auto& [name, child] : node.items()) {
    const std::string path = key.empty() ? name : key + "." + name;
    if (name == "fit_error" || name == "held_back") continue;
    if (!child.is_array()) {
      flatten(child, path, out);
      continue;
    }
    for (const Json& entry : child)
      if (entry.is_object()) out.push_back(constant_of(path, entry_text(entry), entry));
  }
}

std::string profile_file(const DataRoot& root, const std::string& name) {
  std::vector<Violation> problems;
  const std::string file = root.locate(DataKind::hardware, name, "command line", "NAME", problems);
  if (!problems.empty()) throw Error(problems);
  return file;
}

std::string plain(std::string_view header) { return std::string(header); }

std::string network_text(const HardwareProfile& p) {
  if (p.free_communication) return "free";
  if (p.nics_per_node == 0) return "one node";
  return fmt::format("{} × {} GB/s", p.nics_per_node, significant(p.nic_bandwidth / 1e9));
}

double peak16(const HardwareProfile& p) {
  for (const DType type : {DType::bf16, DType::fp16})
    if (const auto found = p.peak_flops.find(type); found != p.peak_flops.end()) return found->second;
  return 0;
}

}  // namespace

int verb_hardware_list(const HardwareRequest& request) {
  const DataRoot root = DataRoot::find();
  const std::vector<std::string> names = root.names(DataKind::hardware);
  Json json = Json::array();
  TextTable table({{"name", TextTable::left},
                   {"GPU", TextTable::left},
                   {"a node"},
                   {"memory"},
                   {"16-bit peak"},
                   {"NVLink"},
                   {"NICs a node", TextTable::left},
                   {"title", TextTable::left, 60}});
  for (const std::string& name : names) {
    const HardwareProfile p = load_hardware(root.file_of(DataKind::hardware, name));
    const double memory = static_cast<double>(p.memory_bytes);
    json.push_back({{"name", name},
                    {"title", p.title},
                    {"gpu", p.gpu},
                    {"gpus_per_node", p.gpus_per_node},
                    {"memory_bytes", p.memory_bytes},
                    {"memory_bandwidth", p.memory_bandwidth},
                    {"peak_flops_16bit", peak16(p)},
                    {"nics_per_node", p.nics_per_node},
                    {"nic_bandwidth", p.nic_bandwidth}});
    table.add({name, p.gpu, std::to_string(p.gpus_per_node), format_bytes(memory),
               significant(peak16(p) / 1e12, 4) + " TFLOP/s",
               p.nvlink_bandwidth > 0 ? significant(p.nvlink_bandwidth / 1e9) + " GB/s" : "–", network_text(p),
               p.title});
  }
  if (request.json)
    fmt::print("{}\n", json.dump(2));
  else
    fmt::print("{}", table.text(0, plain));
  return names.empty() ? kExitNothing : kExitPass;
}

int verb_hardware_show(const HardwareRequest& request) {
  const DataRoot root = DataRoot::find();
  const std::string file = profile_file(root, request.name);
  const HardwareProfile profile = load_hardware(file);
  if (request.json) {
    fmt::print("{}\n", profile.raw.dump(2));
    return kExitPass;
  }
  fmt::print("{}: {}, {}\n\n", profile.name, profile.title, profile.gpu);
  // A heading for each part of the file, so that names fit beside their values.
  std::vector<std::pair<std::string, std::vector<Constant>>> parts = {{"machine", {}}};
  for (const auto& [key, node] : profile.raw.items()) {
    if (key == "sources") continue;
    const bool single = node.is_object() && node.contains("value");
    if (!single) parts.push_back({key, {}});
    flatten(node, single ? key : "", single ? parts.front().second : parts.back().second);
  }
  for (const auto& [heading, constants] : parts) {
    if (constants.empty()) continue;
    TextTable table({{heading, TextTable::left},
                     {"value", TextTable::left},
                     {"range"},
                     {"source", TextTable::left, 24},
                     {"rows"},
                     {"median | p90"},
                     {"held back"}});
    for (const Constant& c : constants) table.add({c.key, c.value, c.range, c.source, c.rows, c.error, c.held_back});
    fmt::print("{}\n", table.text(0, plain, {}, [&list = constants](std::size_t row) { return list[row].remark; }));
  }
  if (profile.raw.contains("sources")) {
    fmt::print("sources\n");
    for (const auto& [key, text] : profile.raw["sources"].items()) {
      const std::vector<std::string> lines = wrap(scalar(text), 92);
      for (std::size_t i = 0; i < lines.size(); ++i)
        fmt::print("  {}  {}\n", pad_right(i == 0 ? key : "", 18), lines[i]);
    }
  }
  return kExitPass;
}

}  // namespace benchsuite
