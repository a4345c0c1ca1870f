#include "suite/hardware/measured_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "engine/device/op_table.h"
#include "engine/device/sim/cost_model.h"
#include "suite/calibrate/calibrate.h"
#include "suite/calibrate/measurement_file.h"

namespace benchsuite {

namespace {

/// "A100" of "NVIDIA A100-SXM4-80GB".
std::string gpu_family(std::string name) {
  for (const char* prefix : {"NVIDIA ", "Tesla "})
    if (name.starts_with(prefix)) name = name.substr(std::string(prefix).size());
  return name.substr(0, name.find_first_of("- _("));
}

bool same_gpu(const std::string& row, const std::string& profile) {
  const bool pcie = row.find("PCI") != std::string::npos || row.find("NVL") != std::string::npos;
  return gpu_family(row) == gpu_family(profile) && pcie == (profile.find("PCI") != std::string::npos);
}

std::optional<DType> dtype_of(std::string word) {
  word = word.substr(0, word.find('/'));
  if (word == "bf16" || word == "bfloat16") return DType::bf16;
  if (word == "fp16" || word == "float16" || word == "half") return DType::fp16;
  if (word == "fp32" || word == "float" || word == "float32") return DType::fp32;
  if (word.starts_with("fp8") || word.starts_with("f8")) return DType::fp8;
  return std::nullopt;
}

double number_of(const Json& row, const char* key) {
  return row.contains(key) && row.at(key).is_number() ? row.at(key).get<double>() : 0;
}
std::int64_t whole_of(const Json& row, const char* key) { return static_cast<std::int64_t>(number_of(row, key)); }
std::string text_of(const Json& row, const char* key) {
  return row.contains(key) && row.at(key).is_string() ? row.at(key).get<std::string>() : "";
}
bool flag_of(const Json& row, const char* key) {
  return row.contains(key) && row.at(key).is_boolean() && row.at(key).get<bool>();
}

/// Seconds of a row that gives "ms", "us" or a rate over `work`.
double seconds_of(const Json& row, double work) {
  if (const double ms = number_of(row, "ms"); ms > 0) return ms * 1e-3;
  if (const double us = number_of(row, "us"); us > 0) return us * 1e-6;
  if (const double rate = number_of(row, "tflops"); rate > 0) return work / (rate * 1e12);
  return 0;
}

class Reader {
 public:
  explicit Reader(const HardwareProfile& hardware) : hardware_(hardware), model_(hardware, placement(hardware)) {}

  void read(const std::string& file) {
    const std::string text = read_measurement_file(file, "--rows");
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
      const Json json = Json::parse(text, nullptr, false);
      if (json.is_object() && json.contains("memory_bound")) return read_memory_tables(json["memory_bound"]);
      const Json* rows = json.is_array() ? &json : json.is_object() && json.contains("rows") ? &json["rows"] : nullptr;
      if (rows && rows->is_array()) {
        for (const Json& row : *rows) read_row(row);
        return;
      }
    }
    const std::string line =
        text.substr(first == std::string::npos ? 0 : first, text.find('\n', first == std::string::npos ? 0 : first));
    const bool csv = line.find(',') != std::string::npos && line.find("busbw") != std::string::npos;
    read_collectives(csv ? read_collective_csv(text, file) : read_nccl_tests(text, file), file);
  }

  MeasuredRows take() {
    for (const auto& [why, count] : left_out_)
      out_.left_out.push_back(fmt::format("{} row{} {}", count, count == 1 ? "" : "s", why));
    return std::move(out_);
  }

 private:
  static Placement placement(const HardwareProfile& hardware) {
    Placement one;
    one.gpus_per_node = hardware.gpus_per_node;
    one.node = {0};
    one.slot = {0};
    return one;
  }

  void leave_out(const std::string& why) { ++left_out_[why]; }

  void read_row(const Json& row) {
    if (!row.is_object()) return leave_out("that are no objects");
    if (!same_gpu(text_of(row, "gpu"), hardware_.gpu)) return leave_out("of other GPUs");
    const auto type = dtype_of(text_of(row, "dtype"));
    if (!type) return leave_out("without a dtype that is known");
    if (row.contains("m") && row.contains("n") && row.contains("k")) return read_product(row, *type);
    if (row.contains("head_dim") && row.contains("seqlen")) return read_attention(row, *type);
    if (row.contains("op") && row.contains("rows")) return read_memory(row, *type);
    leave_out("of a kind that is not compared (launch cost, clocks, summaries)");
  }

  void add(MeasuredRow row) {
    if (!(row.seconds > 0) || !std::isfinite(row.seconds)) return leave_out("without a time");
    if (!(row.predicted > 0)) return leave_out("that the model prices at nothing");
    out_.rows.push_back(std::move(row));
  }

  void read_product(const Json& row, DType type) {
    if (!hardware_.peak_flops.contains(type)) return leave_out("of a dtype the profile has no rate for");
    OpShape shape;
    shape.kind = OpKind::gemm;
    shape.dtype = type;
    shape.out_dtype = dtype_of(text_of(row, "out_dtype")).value_or(type == DType::fp8 ? DType::bf16 : type);
    shape.transpose_a = flag_of(row, "transpose_a");
    shape.transpose_b = flag_of(row, "transpose_b");
    shape.accumulate = flag_of(row, "accumulate");
    const std::int64_t batch = std::max<std::int64_t>(1, whole_of(row, "batch"));
    shape.dims = {whole_of(row, "m"), whole_of(row, "n"), whole_of(row, "k"), batch};
    const double work = flops_of(shape);
    if (!(work > 0)) return leave_out("without a size");
    MeasuredRow out;
    out.family = std::string(shape.accumulate ? "weight gradient "
                             : batch > 1      ? "batched gemm "
                                              : "gemm ") +
                 std::string(name_of(type));
    out.source = text_of(row, "source");
    out.work = work;
    out.seconds = seconds_of(row, work);
    out.predicted = model_.gemm_seconds(shape, GemmRate::burst);
    out.predicted_sustained = model_.gemm_seconds(shape, GemmRate::sustained);
    add(std::move(out));
  }

  void read_attention(const Json& row, DType type) {
    const std::string mode = text_of(row, "mode"), impl = text_of(row, "impl");
    if (impl.find("unfused") != std::string::npos) return leave_out("of unfused attention (its parts are other rows)");
    if (mode != "fwd" && mode != "bwd" && mode != "fwd+bwd") return leave_out("of an attention mode that is not known");
    OpShape shape;
    shape.kind = OpKind::flash_attention;
    shape.dtype = shape.out_dtype = type;
    shape.causal = flag_of(row, "causal");
    const std::int64_t kv_heads = whole_of(row, "kv_heads");
    shape.dims = {whole_of(row, "seqlen"), whole_of(row, "batch"), whole_of(row, "heads"), whole_of(row, "head_dim"),
                  kv_heads};
    const double forward = 4.0 * number_of(row, "batch") * number_of(row, "heads") * number_of(row, "seqlen") *
                           number_of(row, "seqlen") * number_of(row, "head_dim") / (shape.causal ? 2 : 1);
    if (!(forward > 0)) return leave_out("without a size");
    MeasuredRow out;
    out.family = "attention " + mode + (kv_heads > 0 && kv_heads < whole_of(row, "heads") ? ", grouped queries" : "");
    out.source = text_of(row, "source") + (impl.empty() ? "" : " " + impl);
    out.work = forward * (mode == "fwd" ? 1.0 : mode == "bwd" ? 2.5 : 3.5);
    out.seconds = seconds_of(row, out.work);
    double predicted = 0;
    if (mode != "bwd") predicted += static_cast<double>(model_.compute(shape, Site::attention)) * kSecondsPerPicosecond;
    if (mode != "fwd") {
      shape.kind = OpKind::flash_attention_backward;
      predicted += static_cast<double>(model_.compute(shape, Site::attention)) * kSecondsPerPicosecond;
    }
    out.predicted = predicted;
    add(std::move(out));
  }

  void read_memory(const Json& row, DType type) {
    OpKind kind{};
    if (!memory_op(text_of(row, "op"), kind)) return leave_out("of an op that the model has under no such name");
    OpShape shape = memory_shape(kind, type, whole_of(row, "rows"), std::max<std::int64_t>(1, whole_of(row, "cols")));
    if (const auto out_type = dtype_of(text_of(row, "out_dtype"))) shape.out_dtype = *out_type;
    shape.stores_mask = flag_of(row, "stores_mask");
    MeasuredRow out;
    out.family = text_of(row, "op") + " " + std::string(name_of(type));
    out.source = text_of(row, "source");
    out.work = bytes_of(shape);
    out.seconds = seconds_of(row, 0);
    out.predicted = static_cast<double>(model_.compute(shape, Site::mlp)) * kSecondsPerPicosecond;
    add(std::move(out));
  }

  /// The published tables of memory-bound kernels: rates over least bytes, the shape as tokens x hidden, as text, or a
  /// mean over everything from 256 MB up.
  void read_memory_tables(const Json& tables) {
    for (const char* list : {"rows", "quack_h100"}) {
      if (!tables.contains(list) || !tables[list].is_array()) continue;
      for (const Json& row : tables[list]) {
        if (!row.is_object() || !same_gpu(text_of(row, "gpu"), hardware_.gpu)) {
          leave_out("of other GPUs");
          continue;
        }
        Json plain = row;
        static const std::map<std::string, std::string> kNames = {
            {"residual add", "add"}, {"ln", "layernorm"}, {"Softmax", "softmax"}, {"RMSNorm", "rmsnorm"}};
        if (const auto name = kNames.find(text_of(row, "op")); name != kNames.end()) plain["op"] = name->second;
        const std::string type = text_of(row, "dtype"), impl = text_of(row, "impl");
        plain["dtype"] = type.empty() ? "bf16" : type;
        plain["source"] = impl.empty() ? text_of(row, "source").substr(0, text_of(row, "source").find(' ')) : impl;
        std::vector<std::int64_t> dims = numbers_in(text_of(row, "shape"));
        if (row.contains("tokens")) dims = {whole_of(row, "tokens"), whole_of(row, "hidden")};
        if (number_of(row, "GBps_at_ge256MB") > 0) dims = {1 << 15, 4096};
        OpKind kind{};
        const auto known = dtype_of(plain["dtype"]);
        if (dims.empty() || !known || !memory_op(text_of(plain, "op"), kind)) {
          leave_out("of memory-bound kernels that the model has under no such name");
          continue;
        }
        plain["rows"] = dims[0];
        plain["cols"] = dims.size() > 1 ? dims[1] : 1;
        const double rate = number_of(row, "GBps") > 0 ? number_of(row, "GBps") : number_of(row, "GBps_at_ge256MB");
        if (rate > 0 && !row.contains("ms") && !row.contains("us"))
          plain["us"] = bytes_of(memory_shape(kind, *known, dims[0], plain["cols"].get<std::int64_t>())) / rate / 1e3;
        read_memory(plain, *known);
      }
    }
  }

  /// {32768, 256} of "(32K, 256)" or "32768x256".
  static std::vector<std::int64_t> numbers_in(const std::string& text) {
    std::vector<std::int64_t> out;
    for (std::size_t i = 0; i < text.size();) {
      std::int64_t value = 0;
      const std::size_t start = i;
      for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) value = 10 * value + (text[i] - '0');
      if (i == start) {
        ++i;
        continue;
      }
      if (i < text.size() && (text[i] == 'K' || text[i] == 'M')) value *= text[i++] == 'K' ? 1 << 10 : 1 << 20;
      out.push_back(value);
    }
    return out;
  }

  void read_collectives(const NcclTestsFile& file, const std::string& name) {
    if (file.tables.empty()) leave_out("files without a row that is known: " + name);
    for (const CollectiveTable& table : file.tables) {
      std::vector<Reading> readings;
      try {
        readings = readings_of(table, {}, &hardware_);
      } catch (const Error& error) {
        if (error.violations().empty()) throw;
        leave_out("tables whose ranks can't be known");
        continue;
      }
      const Reading& reading = readings.front();
      if (reading.nodes > 1 && hardware_.nics_per_node == 0) {
        leave_out("tables of several nodes (the profile is one node)");
        continue;
      }
      const double factor = busbw_factor(reading.op, reading.ranks);
      for (const CollectiveRow& row : table.rows) {
        MeasuredRow out;
        out.family = fmt::format("{} {}", reading.op, reading.nodes > 1 ? "across nodes" : "inside a node");
        out.source = fmt::format("{} ranks, {}", reading.ranks, name.substr(name.find_last_of('/') + 1));
        out.work = static_cast<double>(row.size) * factor;
        out.seconds = row.best_s();
        out.predicted = expected_seconds(hardware_, reading, row.size).value_or(0);
        add(std::move(out));
      }
    }
  }

  const HardwareProfile& hardware_;
  CostModel model_;
  MeasuredRows out_;
  std::map<std::string, std::size_t> left_out_;
};

RowErrors errors_of(const std::string& family, const std::string& source, const std::string& rate,
                    std::vector<double> ratios) {
  RowErrors out{family, source, rate, ratios.size()};
  const auto quantile = [](std::vector<double>& values, double q) {
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1, static_cast<std::size_t>(q * static_cast<double>(values.size())))];
  };
  out.bias = quantile(ratios, 0.5);
  for (double& ratio : ratios) ratio = std::abs(ratio - 1);
  out.median = quantile(ratios, 0.5);
  out.p90 = quantile(ratios, 0.9);
  return out;
}

}  // namespace

bool memory_op(const std::string& name, OpKind& kind) {
  for (int i = static_cast<int>(OpKind::embedding); i < kOpKinds; ++i) {
    if (is_communication(static_cast<OpKind>(i)) || name_of(static_cast<OpKind>(i)) != name) continue;
    kind = static_cast<OpKind>(i);
    return true;
  }
  return false;
}

OpShape memory_shape(OpKind kind, DType type, std::int64_t rows, std::int64_t cols) {
  OpShape shape;
  shape.kind = kind;
  shape.dtype = shape.out_dtype = type;
  switch (kind) {
    case OpKind::add:
    case OpKind::cast:
    case OpKind::fill:
    case OpKind::pack:
    case OpKind::unpack:
    case OpKind::sum_squares:
    case OpKind::adamw:
      shape.dims = {rows * cols};
      break;
    case OpKind::dropout:
    case OpKind::dropout_backward:
    case OpKind::bias_dropout_add:
      shape.dims = {rows, 1, cols};
      break;
    default:
      shape.dims = {rows, cols};
  }
  return shape;
}

MeasuredRows read_measured_rows(const std::vector<std::string>& files, const HardwareProfile& hardware) {
  Reader reader(hardware);
  for (const std::string& file : files) reader.read(file);
  return reader.take();
}

std::vector<RowErrors> errors_of(const MeasuredRows& measured) {
  struct Ratios {
    std::vector<double> burst, sustained;
  };
  std::map<std::string, std::map<std::string, Ratios>> families;
  for (const MeasuredRow& row : measured.rows) {
    Ratios& ratios = families[row.family][row.source];
    ratios.burst.push_back(row.predicted / row.seconds);
    if (row.predicted_sustained > 0) ratios.sustained.push_back(row.predicted_sustained / row.seconds);
  }
  std::vector<RowErrors> out;
  for (const auto& [family, sources] : families) {
    Ratios all;
    for (const auto& [source, ratios] : sources) {
      const bool product = !ratios.sustained.empty();
      out.push_back(errors_of(family, source, product ? "burst" : "", ratios.burst));
      if (product) out.push_back(errors_of(family, source, "sustained", ratios.sustained));
      all.burst.insert(all.burst.end(), ratios.burst.begin(), ratios.burst.end());
      all.sustained.insert(all.sustained.end(), ratios.sustained.begin(), ratios.sustained.end());
    }
    if (sources.size() < 2) continue;
    out.push_back(errors_of(family, "all", all.sustained.empty() ? "" : "burst", all.burst));
    if (!all.sustained.empty()) out.push_back(errors_of(family, "all", "sustained", all.sustained));
  }
  return out;
}

std::vector<PlotChart> ratio_charts(const MeasuredRows& measured) {
  constexpr std::size_t kDots = 400;
  std::map<std::string, std::map<std::string, std::vector<std::pair<double, double>>>> families;
  for (const MeasuredRow& row : measured.rows)
    families[row.family][row.source].emplace_back(row.work, row.predicted / row.seconds);
  std::vector<PlotChart> out;
  for (auto& [family, sources] : families) {
    const bool product =
        family.find("gemm") != std::string::npos || family.starts_with("weight") || family.starts_with("attention");
    PlotChart chart{family + ": predicted over measured",
                    "one dot a row; 1 is right, above 1 the model is slower",
                    product ? "FLOP" : "bytes",
                    "predicted / measured time",
                    !product,
                    true,
                    {}};
    for (auto& [source, dots] : sources) {
      PlotCurve curve{source, true, {}};
      const std::size_t stride = std::max<std::size_t>(1, div_ceil(dots.size() * sources.size(), kDots));
      for (std::size_t i = 0; i < dots.size(); i += stride) curve.points.push_back(dots[i]);
      chart.curves.push_back(std::move(curve));
    }
    out.push_back(std::move(chart));
  }
  return out;
}

}  // namespace benchsuite
