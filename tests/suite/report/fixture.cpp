#include "tests/suite/report/fixture.h"

#include <algorithm>
#include <cmath>

namespace benchsuite {
namespace {

constexpr int kStages = 4, kTensor = 4, kLayersPerStage = 10;
constexpr Picoseconds kMs = 1'000'000'000;

/// What one micro-batch costs on one stage, in picoseconds.
struct Costs {
  Picoseconds forward = 24 * kMs, backward = 51 * kMs, recompute = 0;
  Picoseconds tensor_forward = 5 * kMs, tensor_backward = 4 * kMs, tensor_recompute = 0;
  Picoseconds transfer = 400'000'000;
};

struct Piece {
  Category category;
  Picoseconds length;
};

std::vector<Piece> pieces(const Costs& costs, bool forward, bool per_layer) {
  std::vector<Piece> list;
  const int layers = per_layer ? kLayersPerStage : 1;
  for (int layer = 0; layer < layers; ++layer) {
    if (forward) {
      list.push_back({Category::forward, costs.forward / layers});
      list.push_back({Category::tensor, costs.tensor_forward / layers});
    } else {
      list.push_back({Category::recompute, costs.recompute / layers});
      list.push_back({Category::tensor_recompute, costs.tensor_recompute / layers});
      list.push_back({Category::backward, costs.backward / layers});
      list.push_back({Category::tensor, costs.tensor_backward / layers});
    }
  }
  std::erase_if(list, [](const Piece& piece) { return piece.length == 0; });
  return list;
}

/// 1F1B on four stages: warm-up forwards, then one forward and one backward in turn.
std::vector<std::vector<std::pair<bool, int>>> order_of(int m) {
  std::vector<std::vector<std::pair<bool, int>>> order(kStages);
  for (int r = 0; r < kStages; ++r) {
    const int warm_up = std::min(kStages - 1 - r, m);
    int f = 0, b = 0;
    while (f < warm_up) order[r].emplace_back(true, f++);
    while (f < m) {
      order[r].emplace_back(true, f++);
      order[r].emplace_back(false, b++);
    }
    while (b < m) order[r].emplace_back(false, b++);
  }
  return order;
}

void schedule(VariantResult& variant, int m, const Costs& costs, bool per_layer) {
  const auto order = order_of(m);
  std::vector<std::vector<Picoseconds>> forward_end(kStages, std::vector<Picoseconds>(m, -1)),
      backward_end = forward_end;
  std::vector<std::size_t> next(kStages, 0);
  std::vector<Picoseconds> clock(kStages, 0);
  variant.stages.resize(kStages);
  for (bool progress = true; progress;) {
    progress = false;
    for (int r = 0; r < kStages; ++r) {
      while (next[r] < order[r].size()) {
        const auto [forward, i] = order[r][next[r]];
        Picoseconds ready = 0;
        if (forward && r > 0) ready = forward_end[r - 1][i];
        if (!forward && r < kStages - 1) ready = backward_end[r + 1][i];
        if (ready < 0) break;
        std::vector<GanttSpan>& gantt = variant.stages[r].gantt;
        Picoseconds now = clock[r];
        if (ready > now) now = ready;
        if (forward ? r > 0 : r < kStages - 1) {
          gantt.push_back({Category::pipeline, i, 0, now, now + costs.transfer});
          now += costs.transfer;
        }
        for (const Piece& piece : pieces(costs, forward, per_layer)) {
          gantt.push_back({piece.category, i, 0, now, now + piece.length});
          now += piece.length;
        }
        (forward ? forward_end : backward_end)[r][i] = now;
        clock[r] = now;
        ++next[r];
        progress = true;
      }
    }
  }
  const Picoseconds last = *std::max_element(clock.begin(), clock.end());
  for (int r = 0; r < kStages; ++r) {
    std::vector<GanttSpan>& gantt = variant.stages[r].gantt;
    if (r == 0 || r == kStages - 1) gantt.push_back({Category::embedding, -1, -1, last, last + 9 * kMs});
    gantt.push_back({Category::global, -1, -1, last + 9 * kMs, last + 9 * kMs + kMs / 4});
    gantt.push_back({Category::optimizer, -1, -1, last + 9 * kMs + kMs / 4, last + 22 * kMs});
  }
  variant.step = last + 22 * kMs;
}

void summarize(VariantResult& v, int m) {
  v.iteration_s = static_cast<double>(v.step) * kSecondsPerPicosecond;
  v.ranks_in_breakdown = kStages * kTensor;
  double idle = 0;
  for (int r = 0; r < kStages; ++r) {
    StageResult& stage = v.stages[r];
    stage.stage = r;
    stage.representative_rank = r * kTensor;
    stage.peak_in_flight = std::min(kStages - r, m);
    Picoseconds busy = 0, compute = 0;
    for (const GanttSpan& span : stage.gantt) {
      stage.breakdown.time[static_cast<std::size_t>(span.category)] += span.end - span.start;
      busy += span.end - span.start;
      if (span.category != Category::optimizer) compute += span.end - span.start;
    }
    const auto bubble = static_cast<std::size_t>(Category::bubble);
    stage.breakdown.time[bubble] = v.step - busy;
    stage.gpu_busy = std::min(0.999, static_cast<double>(busy) / static_cast<double>(v.step) + 0.19);
    for (int c = 0; c < kCategories; ++c) v.mean_breakdown.time[c] += kTensor * stage.breakdown.time[c];
    idle += static_cast<double>(v.step - busy);
    v.gpu_busy += stage.gpu_busy / kStages;
    v.recompute_s += static_cast<double>(stage.breakdown.time[static_cast<std::size_t>(Category::recompute)]) *
                     kSecondsPerPicosecond / kStages;
  }
  v.bubble_share = idle / static_cast<double>(v.step) / kStages;
  v.bubble_over_ideal = v.bubble_share / (1 - v.bubble_share);
  v.bubble_formula_step = static_cast<double>(kStages - 1) / (m + kStages - 1);
  v.bubble_formula_ideal = static_cast<double>(kStages - 1) / m;
  const double waiting = v.bubble_share * v.iteration_s;
  v.bubble_parts = {{"formula", 0.9 * waiting, "(p - 1)/(v m) of the passes"}, {"rest", 0.1 * waiting, "what is left"}};
  const double samples = 4.0 * m, gpus = kStages * kTensor, peak = 989e12;
  v.flops_model = 1.598e14 * samples;  // 72 b s L h^2 (1 + s/6h + V/12hL) of the 13B model, rounded
  v.flops_hardware = v.flops_model * (v.recompute_s > 0.15 ? 1.31 : v.recompute_s > 0 ? 1.02 : 1);
  v.flops_formula = "gpt-v1";
  v.speed_of_light_s = v.flops_model / gpus / peak;
  v.mfu = v.flops_model / (v.iteration_s * gpus * peak);
  v.hfu = v.flops_hardware / (v.iteration_s * gpus * peak);
  v.tokens_per_s_per_gpu = samples * 2048 / v.iteration_s / gpus;
  v.model_tflops_per_gpu = v.flops_model / v.iteration_s / gpus / 1e12;
  v.ops = 4 * (m * 812 + 300);
}

void remember(VariantResult& v, double saved_per_micro_batch_gib) {
  constexpr double kGiB = 0x1p30;
  v.capacity_gib = 80;
  for (StageResult& stage : v.stages) {
    const double ends = stage.stage == 0 || stage.stage == kStages - 1 ? 1.0 : 0.0;
    const double parameters = (0.791 + 0.064 * ends) * 2 * kGiB / 1.07;
    StageMemory& memory = stage.memory;
    memory.saved_bytes = saved_per_micro_batch_gib * static_cast<double>(stage.peak_in_flight) * kGiB;
    memory.saved_formula_bytes = memory.saved_bytes;
    memory.saved_terms = {
        {"saved: attention softmax output", memory.saved_bytes * 0.6, "2 a s² b L / (t p) per micro-batch", "activations"},
        {"saved: layer input", memory.saved_bytes * 0.4, "2 s b h L / (t p) per micro-batch", "activations"}};
    memory.by_purpose = {{"inputs", 65536.0},
                         {"parameters", parameters},
                         {"gradients", 2 * parameters},
                         {"master", 2 * parameters},
                         {"moments", 4 * parameters},
                         {"activations", memory.saved_bytes + 1.1 * kGiB},
                         {"communication", 0.32 * kGiB},
                         {"workspace", 0.06 * kGiB},
                         {"overhead", 2.4 * kGiB}};
    for (const auto& [purpose, bytes] : memory.by_purpose) {
      memory.peak_bytes += bytes;
      memory.terms.push_back({"all " + purpose, bytes, "its own", purpose});
    }
    v.peak_memory_gib = std::max(v.peak_memory_gib, memory.peak_bytes / kGiB);
  }
  v.fits = v.peak_memory_gib <= v.capacity_gib;
}

void communicate(VariantResult& v, int m, bool recomputes) {
  const double slice = 2.0 * 2048 * 4 * 5120 * 3 / 4;  // 2 s b h (t-1)/t bytes sent by one rank
  const std::int64_t forward = 2LL * kLayersPerStage * m;
  const double exposed = (static_cast<double>(v.mean_breakdown.time[static_cast<std::size_t>(Category::tensor)])) *
                         kSecondsPerPicosecond / 16;
  v.communication = {
      {"tensor all_gather", exposed * 0.52, exposed * 0.31, slice * 3 * forward, slice * 3 * forward, 3 * forward},
      {"tensor reduce_scatter", exposed * 0.48, exposed * 0.22, slice * 2 * forward, slice * 2 * forward, 2 * forward},
      {"pipeline send", 0.0004 * m, 0.0003 * m, 2.0 * 2048 * 4 * 5120 / 4 * m * 1.5,
       2.0 * 2048 * 4 * 5120 / 4 * m * 1.5, m * 3 / 2},
      {"embedding all_reduce", 0.0045, 0, 259522560.0 / 2, 259522560.0 / 2, 1}};
  if (recomputes) {
    v.communication.insert(v.communication.begin() + 1, {"tensor all_gather (recomputed)", 0.0031 * m, 0,
                                                         slice * forward, slice * forward, forward});
  }
  for (StageResult& stage : v.stages) {
    for (const CommunicationTime& kind : v.communication)
      stage.sent.push_back({kind.kind, kind.bytes, kind.expected_bytes});
  }
}

VariantResult variant(const std::string& id, const std::string& title, int m, const Costs& costs, const char* recompute,
                      const char* attention, const char* hardware, bool across, double saved_gib, bool per_layer) {
  VariantResult v;
  v.id = id;
  v.title = title;
  v.hardware = hardware;
  v.stack = "megatron_core";
  v.model = {{"name", "gpt-13b"}, {"family", "gpt"}, {"layers", 40}, {"hidden", 5120}, {"ffn_hidden", 20480},
             {"heads", 40},       {"kv_heads", 40},  {"seq", 2048},  {"vocab", 50257}};
  v.layout = {
      {"tp", 4},
      {"pp", 4},
      {"dp", 1},
      {"vpp", 1},
      {"cp", 1},
      {"ep", 1},
      {"micro_batch", 4},
      {"global_batch", 4 * m},
      {"sequence_parallel", true},
      {"recompute", {{"granularity", recompute}, {"method", "uniform"}, {"num_layers", 1}, {"modules", {"core_attn"}}}},
      {"zero_stage", 0},
      {"precision", "bf16"},
      {"attention", attention},
      {"placement", across ? "across_nodes" : "packed"},
      {"schedule", "one_f_one_b"}};
  schedule(v, m, costs, per_layer);
  summarize(v, m);
  remember(v, saved_gib);
  communicate(v, m, std::string(recompute) == "full");
  return v;
}

Waterfall fall(const VariantResult& from, const VariantResult& to, const std::string& one_line) {
  Waterfall waterfall{from.id + "_to_" + to.id, from.id, to.id, from.iteration_s, to.iteration_s, {}, one_line};
  const auto part = [&](Category category) {
    const auto at = static_cast<std::size_t>(category);
    return static_cast<double>(to.mean_breakdown.time[at] - from.mean_breakdown.time[at]) * kSecondsPerPicosecond / 16;
  };
  const double compute = part(Category::recompute), collectives = part(Category::tensor_recompute),
               bubble = part(Category::bubble);
  waterfall.parts = {{"recompute compute", compute,
                      "forward ops run again for the backward pass, on the critical path of every stage"},
                     {"recomputed collectives", collectives,
                      "all-gathers and reduce-scatters that the recomputation runs again, exposed"},
                     {"bubble", bubble, "the same (p−1)/m share of a shorter micro-batch"},
                     {"rest", to.iteration_s - from.iteration_s - compute - collectives - bubble,
                      "optimizer, embedding and norm differences"}};
  return waterfall;
}

CheckResult check(const char* id, const char* metric, const char* kind, std::optional<double> value, const char* unit,
                  Verdict verdict) {
  CheckResult c;
  c.id = id;
  c.metric = metric;
  c.kind = kind;
  c.value = value;
  c.unit = unit;
  c.verdict = verdict;
  return c;
}

void judge(CaseResult& result) {
  const auto of = [&](const char* id) -> const VariantResult& {
    return *std::find_if(result.variants.begin(), result.variants.end(),
                         [&](const VariantResult& v) { return v.id == id; });
  };
  for (const char* m : {"m8", "m128"}) {
    const std::string full = std::string("full_") + m, selective = std::string("selective_") + m;
    CheckResult ratio = check("", "", "measurement", of(full.c_str()).iteration_s / of(selective.c_str()).iteration_s,
                              "x", Verdict::pass);
    ratio.id = "ratio_" + std::string(m);
    ratio.title = "step-time ratio full/selective, " + std::string(m);
    ratio.metric = full + ".iteration_s / " + selective + ".iteration_s";
    ratio.pass_low = 1.2;
    ratio.pass_high = 1.4;
    ratio.warn_low = 1.1;
    ratio.warn_high = 1.5;
    ratio.target = 1.3;
    ratio.source =
        "Korthikanti et al. 2022, Tables 4 and 5: 1.29–1.32; Hagemann et al. 2023, 34 paired layouts: median 1.31, "
        "p10–p90 1.12–1.36";
    result.checks.push_back(ratio);
  }
  CheckResult worse = check("step-time ratio across nodes, 1 × 100 Gb/s",
                            "full_across_1x100g.iteration_s / selective_across_1x100g.iteration_s", "measurement", 1.62,
                            "x", Verdict::fail);
  worse.pass_low = 1.2;
  worse.pass_high = 1.4;
  worse.warn_low = 1.1;
  worse.warn_high = 1.5;
  worse.source = "SYNTHETIC failure of the fixture";
  result.checks.push_back(worse);
  for (const VariantResult& v : result.variants) {
    CheckResult bytes = check("", "", "bound", v.communication.front().bytes, "bytes", Verdict::pass);
    bytes.id = "bytes of tensor all_gather, " + v.id;
    bytes.metric = v.id + ".communication.tensor_all_gather.bytes";
    bytes.pass_low = bytes.pass_high = v.communication.front().expected_bytes;
    bytes.source = "closed formula: 2 s b h (t−1)/t a call";
    result.checks.push_back(bytes);
  }
  CheckResult memory = check("peak memory fits", "none_m8.peak_memory_gib", "bound", of("none_m8").peak_memory_gib,
                             "GiB", Verdict::warn);
  memory.pass_high = 72;
  memory.warn_high = 80;
  memory.source = "datasheet: 80 GiB, 10 % kept free";
  result.checks.push_back(memory);
  CheckResult missing = check("loss after one step", "full_m8.loss", "bound", std::nullopt, "1", Verdict::noref);
  missing.gates = false;
  missing.source = "no loss on this device";
  result.checks.push_back(missing);
  CheckResult claim = check("document 000: throughput", "full_m8.samples_per_s", "claim",
                            32 / of("full_m8").iteration_s, "samples/s", Verdict::shown);
  claim.gates = false;
  claim.target = 102;
  claim.source = "document 000, line 43";
  claim.explanation =
      "102 samples/s × 1.598e14 FLOP a sample is 16.3 PFLOP/s, 103 % of the 15.8 PFLOP/s that 16 H100 have; 24 % MFU "
      "is 23.8 samples/s.";
  result.checks.push_back(claim);
  claim = check("document 000: 1.71 × from selective recompute", "", "claim",
                of("full_m8").iteration_s / of("selective_m8").iteration_s, "x", Verdict::shown);
  claim.gates = false;
  claim.target = 1.71;
  claim.source = "document 000, line 151";
  claim.explanation =
      "The FLOP ratio full/selective is 1.30 with the full attention matrix, so recompute alone can't give 1.71 ×; "
      "removing all of its 316 ms from 1336 ms gives 1.31 ×.";
  result.checks.push_back(claim);
}

}  // namespace

Run synthetic_run(bool per_layer) {
  Run run;
  run.run_id = "20260830T021500Z-7f3a";
  run.suite_version = "0.1.0";
  run.engine_commit = "0123456789ab";
  run.device = "sim";
  run.argv = {"./build/benchsuite", "run", "--case", "sp_recompute_13b"};
  run.started = "2026-08-30T02:15:00Z";
  run.ended = "2026-08-30T02:15:01Z";
  run.host = "synthetic-host";
  run.exit_code = 1;

  CaseResult result;
  result.id = "sp_recompute_13b";
  result.title = "Sequence parallelism and recomputation, GPT-13B on 16 H100";
  result.case_hash = "sha256:5f1d0c";
  result.elapsed_s = 0.84;
  result.status = Status::fail;
  result.reason_code = "PERF_WORSE";
  result.reason = "1 of 18 expectations failed";
  Costs none, selective, full, flash, flash_full, slow_full, slow_selective, slowest_full, slowest_selective;
  selective.recompute = 3 * kMs;
  full.recompute = 24 * kMs;
  full.tensor_recompute = 5 * kMs;
  flash.forward = 19 * kMs;
  flash.backward = 41 * kMs;
  flash_full = flash;
  flash_full.recompute = 19 * kMs;
  flash_full.tensor_recompute = 5 * kMs;
  slow_full = full;
  slow_full.tensor_forward = 44 * kMs;
  slow_full.tensor_backward = 40 * kMs;
  slow_full.tensor_recompute = 44 * kMs;
  slow_selective = slow_full;
  slow_selective.recompute = 3 * kMs;
  slow_selective.tensor_recompute = 0;
  slowest_full = slow_full;
  slowest_full.tensor_forward = slowest_full.tensor_recompute = 310 * kMs;
  slowest_full.tensor_backward = 330 * kMs;
  slowest_selective = slowest_full;
  slowest_selective.recompute = 3 * kMs;
  slowest_selective.tensor_recompute = 0;
  const char* dgx = "dgx-h100";
  const auto add = [&](const char* id, const char* title, int m, const Costs& costs, const char* recompute,
                       const char* attention, const char* hardware, bool across, double saved) {
    result.variants.push_back(variant(id, title, m, costs, recompute, attention, hardware, across, saved, per_layer));
  };
  add("full_m8", "Full recompute, 8 micro-batches", 8, full, "full", "unfused", dgx, false, 0.195);
  add("selective_m8", "Selective recompute of core attention, 8 micro-batches", 8, selective, "selective", "unfused",
      dgx, false, 3.32);
  add("none_m8", "No recompute, 8 micro-batches", 8, none, "none", "unfused", dgx, false, 16.6);
  add("full_m128", "Full recompute, 128 micro-batches", 128, full, "full", "unfused", dgx, false, 0.195);
  add("selective_m128", "Selective recompute, 128 micro-batches", 128, selective, "selective", "unfused", dgx, false,
      3.32);
  add("none_m128", "No recompute, 128 micro-batches", 128, none, "none", "unfused", dgx, false, 16.6);
  add("full_across_8x100g", "Full, tensor groups across nodes", 8, slow_full, "full", "unfused", "dgx-h100-8x100g",
      true, 0.195);
  add("selective_across_8x100g", "Selective, tensor groups across nodes", 8, slow_selective, "selective", "unfused",
      "dgx-h100-8x100g", true, 3.32);
  add("full_across_1x100g", "Full, tensor groups across nodes, one shared link", 8, slowest_full, "full", "unfused",
      "dgx-h100-1x100g", true, 0.195);
  add("selective_across_1x100g", "Selective, tensor groups across nodes, one shared link", 8, slowest_selective,
      "selective", "unfused", "dgx-h100-1x100g", true, 3.32);
  add("flash_full_m8", "Flash attention, full recompute", 8, flash_full, "full", "flash", dgx, false, 0.195);
  add("flash_none_m8", "Flash attention, no recompute", 8, flash, "none", "flash", dgx, false, 3.32);
  const auto& v = result.variants;
  result.waterfalls = {
      fall(v[0], v[1],
           "GPUs are 95 % busy at 26 % MFU: a collective that waits counts as busy, and of the compute 24 % runs for "
           "the second time."),
      fall(v[3], v[4], "With m = 128 the bubble is 2.3 % of the step; what is left is the recomputation itself."),
      fall(v[6], v[7], "Across nodes the recomputed collectives cost more than the recomputed compute.")};
  judge(result);
  result.method_note =
      "# Method\n\nThe case replays the *recorded* program of every stage on a **synthetic** fixture; see [the "
      "paper](https://arxiv.org/abs/2205.05198), section 4.\n\n"
      "- Step time: the last rank's end.\n- Bubble: idle share, `(p-1)/(v m + p-1)` beside it.\n\n1. Record.\n2. "
      "Replay.\n\n"
      "| category | priority |\n|---|---|\n| compute | 1 |\n| exposed communication | 2 |\n\n```\nbenchsuite run "
      "--case sp_recompute_13b\n```\n\n> Formulas are exact on the ideal profile only.\n";
  run.cases.push_back(std::move(result));
  return run;
}

}  // namespace benchsuite
