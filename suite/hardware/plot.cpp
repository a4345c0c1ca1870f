// hardware plot: the model's curves, and how it stands against measured rows.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>

#include "engine/device/op_table.h"
#include "engine/device/sim/cost_model.h"
#include "suite/calibrate/calibrate.h"
#include "suite/cases/data_root.h"
#include "suite/hardware/measured_rows.h"
#include "suite/hardware/verb_hardware.h"
#include "suite/report/format.h"
#include "suite/report/text_table.h"
#include "suite/results/outcome.h"
#include "suite/results/run_files.h"

namespace benchsuite {

namespace {

double seconds_of(Picoseconds time) { return static_cast<double>(time) * kSecondsPerPicosecond; }

class Curves {
 public:
  explicit Curves(const HardwareProfile& hardware) : hardware_(hardware), model_(hardware, one_rank(hardware)) {
    type_ = hardware.peak_flops.contains(DType::bf16) ? DType::bf16 : DType::fp16;
    if (!hardware.peak_flops.contains(type_)) type_ = hardware.peak_flops.begin()->first;
  }

  std::vector<PlotChart> draw() {
    products();
    attention();
    memory();
    if (!hardware_.free_communication && !hardware_.intra_node.empty()) {
      inside_node();
      if (hardware_.nics_per_node > 0) across_nodes();
    }
    return std::move(charts_);
  }

 private:
  static Placement one_rank(const HardwareProfile& hardware) {
    Placement placement;
    placement.gpus_per_node = hardware.gpus_per_node;
    placement.node = {0};
    placement.slot = {0};
    return placement;
  }

  /// Achieved share of the dense peak.
  double efficiency(std::int64_t m, std::int64_t n, std::int64_t k, GemmRate rate, bool accumulate = false) {
    OpShape shape;
    shape.kind = OpKind::gemm;
    shape.dtype = type_;
    shape.out_dtype = accumulate ? DType::fp32 : type_;
    shape.accumulate = accumulate;
    shape.dims = {m, n, k, 1};
    return flops_of(shape) / model_.gemm_seconds(shape, rate) / hardware_.peak_flops.at(type_);
  }

  void products() {
    const std::string name(name_of(type_));
    PlotChart square{"Matrix product by size", "m = n = k, " + name, "m", "share of dense peak", false, false, {}};
    PlotChart inner{"Matrix product by k", "m = n = 4096, " + name, "k", "share of dense peak", false, false, {}};
    PlotChart outer{"Matrix product by n",
                    "m = k = 8192, " + name + ": what tensor parallelism cuts",
                    "n",
                    "share of dense peak",
                    false,
                    false,
                    {}};
    for (const auto& [rate, word] : {std::pair{GemmRate::burst, "burst"}, {GemmRate::sustained, "sustained"}}) {
      PlotCurve a{word, false, {}}, b = a, c = a;
      for (double at = 7; at <= 15.01; at += 0.125) {
        const auto x = round_up<std::int64_t>(std::llround(std::exp2(at)), 64);
        const double to = static_cast<double>(x);
        a.points.emplace_back(to, efficiency(x, x, x, rate));
        b.points.emplace_back(to, efficiency(4096, 4096, x, rate));
        c.points.emplace_back(to, efficiency(8192, x, 8192, rate));
      }
      square.curves.push_back(a);
      inner.curves.push_back(b);
      outer.curves.push_back(c);
    }
    PlotCurve accumulate{"sustained, fp32 accumulation", false, {}};
    for (const auto& [x, y] : std::vector(inner.curves.back().points))
      accumulate.points.emplace_back(x,
                                     efficiency(4096, 4096, static_cast<std::int64_t>(x), GemmRate::sustained, true));
    inner.curves.push_back(std::move(accumulate));
    charts_.insert(charts_.end(), {square, inner, outer});
  }

  void attention() {
    PlotChart chart{"Fused attention by sequence",
                    "batch x sequence = 16k, hidden 2048, causal",
                    "sequence",
                    "TFLOP/s",
                    false,
                    false,
                    {}};
    for (const std::int64_t head : {64, 128}) {
      for (const bool backward : {false, true}) {
        PlotCurve curve{fmt::format("d {} {}", head, backward ? "backward" : "forward"), false, {}};
        for (double at = 8; at <= 15.01; at += 0.25) {
          const auto s = round_up<std::int64_t>(std::llround(std::exp2(at)), 64);
          OpShape shape;
          shape.kind = backward ? OpKind::flash_attention_backward : OpKind::flash_attention;
          shape.dtype = shape.out_dtype = type_;
          shape.causal = true;
          shape.dims = {s, std::max<std::int64_t>(1, 16384 / s), 2048 / head, head};
          const double work = flops_of(shape) / 2;
          curve.points.emplace_back(static_cast<double>(s),
                                    work / seconds_of(model_.compute(shape, Site::attention)) / 1e12);
        }
        chart.curves.push_back(std::move(curve));
      }
    }
    charts_.push_back(std::move(chart));
  }

  void memory() {
    PlotChart chart{"Memory-bound ops",
                    "least bytes over time; rows of 4096",
                    "bytes",
                    "share of memory bandwidth",
                    true,
                    false,
                    {}};
    for (const OpKind kind : {OpKind::add, OpKind::gelu, OpKind::layernorm, OpKind::layernorm_backward, OpKind::softmax,
                              OpKind::dropout, OpKind::bias_dropout_add, OpKind::adamw}) {
      PlotCurve curve{std::string(name_of(kind)), false, {}};
      for (double at = 2; at <= 18.01; at += 0.5) {
        const OpShape shape = memory_shape(kind, type_, std::llround(std::exp2(at)), 4096);
        const double seconds = seconds_of(model_.compute(shape, Site::mlp));
        if (seconds > 0)
          curve.points.emplace_back(bytes_of(shape), bytes_of(shape) / seconds / hardware_.memory_bandwidth);
      }
      chart.curves.push_back(std::move(curve));
    }
    charts_.push_back(std::move(chart));
  }

  PlotCurve busbw(const std::string& name, const Reading& reading) {
    PlotCurve curve{name, false, {}};
    for (double at = 10; at <= 34.01; at += 0.5) {
      const auto size = std::llround(std::exp2(at));
      const double seconds = expected_seconds(hardware_, reading, size).value_or(0);
      if (seconds > 0)
        curve.points.emplace_back(static_cast<double>(size),
                                  static_cast<double>(size) * busbw_factor(reading.op, reading.ranks) / seconds / 1e9);
    }
    return curve;
  }

  void inside_node() {
    PlotChart ranks{"all_reduce inside a node", "by ranks", "bytes", "busbw, GB/s", true, false, {}};
    for (int n = 2; n <= hardware_.gpus_per_node; n *= 2)
      ranks.curves.push_back(busbw(fmt::format("{} GPUs", n), {"all_reduce", n, 1}));
    PlotChart ops{"Collectives inside a node",
                  fmt::format("{} GPUs", hardware_.gpus_per_node),
                  "bytes",
                  "busbw, GB/s",
                  true,
                  false,
                  {}};
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall", "send"})
      ops.curves.push_back(busbw(op, {op, hardware_.gpus_per_node, 1}));
    charts_.insert(charts_.end(), {ranks, ops});
  }

  void across_nodes() {
    const int gpus = hardware_.gpus_per_node;
    PlotChart nodes{"all_reduce across nodes",
                    fmt::format("all {} GPUs of each node", gpus),
                    "bytes",
                    "busbw, GB/s",
                    true,
                    false,
                    {}};
    for (const int n : {2, 4, 16, 64, 128})
      nodes.curves.push_back(busbw(fmt::format("{} nodes", n), {"all_reduce", n * gpus, n}));
    PlotChart ops{
        "Collectives across 4 nodes", fmt::format("{} ranks", 4 * gpus), "bytes", "busbw, GB/s", true, false, {}};
    for (const char* op : {"all_reduce", "all_gather", "reduce_scatter", "alltoall"})
      ops.curves.push_back(busbw(op, {op, 4 * gpus, 4}));
    ops.curves.push_back(busbw("send between two nodes", {"send", 2, 2}));
    charts_.insert(charts_.end(), {nodes, ops});
  }

  const HardwareProfile& hardware_;
  CostModel model_;
  DType type_{};
  std::vector<PlotChart> charts_;
};

std::string errors_text(const std::vector<RowErrors>& errors) {
  TextTable table({{"family", TextTable::left},
                   {"source", TextTable::left, 48},
                   {"rate", TextTable::left},
                   {"rows"},
                   {"median error"},
                   {"p90 error"},
                   {"bias"}});
  for (const RowErrors& e : errors)
    table.add({e.family, e.source, e.rate, std::to_string(e.rows), format_percent(e.median), format_percent(e.p90),
               significant(e.bias)});
  return table.text(0, [](std::string_view header) { return std::string(header); });
}

}  // namespace

std::vector<PlotChart> model_charts(const HardwareProfile& hardware) { return Curves(hardware).draw(); }

int verb_hardware_plot(const HardwareRequest& request) {
  std::vector<Violation> problems;
  const std::string file = DataRoot::find().locate(DataKind::hardware, request.name, "command line", "NAME", problems);
  if (!problems.empty()) throw Error(problems);
  const HardwareProfile hardware = load_hardware(file);
  HardwarePage page{hardware.name, hardware.title, hardware.gpu, model_charts(hardware), {}, {}};
  if (!request.rows.empty()) {
    const MeasuredRows measured = read_measured_rows(request.rows, hardware);
    page.errors = errors_of(measured);
    page.left_out = measured.left_out;
    for (PlotChart& chart : ratio_charts(measured)) page.charts.push_back(std::move(chart));
  }
  std::FILE* human = request.data == "-" ? stderr : stdout;
  if (!page.errors.empty()) fmt::print(human, "{}", errors_text(page.errors));
  for (const std::string& why : page.left_out) fmt::print(human, "left out: {}\n", why);
  const std::string out = request.out.empty() ? hardware.name + ".html" : request.out;
  write_file(out, hardware_html(page));
  fmt::print(human, "{}\n", out);
  if (request.data == "-")
    fmt::print("{}\n", hardware_page_json(page).dump());
  else if (!request.data.empty())
    write_file(request.data, hardware_page_json(page).dump(1) + "\n", "--data");
  // Rows were given and none could be compared: nothing was judged.
  return !request.rows.empty() && page.errors.empty() ? kExitNothing : kExitPass;
}

}  // namespace benchsuite
