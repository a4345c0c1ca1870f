#include "engine/model/formulas.h"

#include <algorithm>

#include "engine/model/flops.h"
#include "engine/model/stage_layers.h"

namespace benchsuite {

namespace {

/// The letters of the papers. `repl` is what divides tensors outside the tensor-parallel regions: 1, or t with sequence
/// parallelism.
struct Letters {
  double s, b, h, f, a, t, d, repl, e;
  double o;   // bytes of an operand of the layers' products: e, but 1 in 8 bit
  double kv;  // width of all keys: u times the head size
  std::int64_t p, v, m, g;
  StageLayers layers;  // of the stage
  std::int64_t groups, recomputed_layers;  // of the stage: groups that full recompute keeps the input of, layers run again

  Letters(const ModelConfig& model, const Layout& layout, std::int64_t stage)
      : s(static_cast<double>(model.seq / layout.cp)),
        b(static_cast<double>(layout.micro_batch)),
        h(static_cast<double>(model.hidden)),
        f(static_cast<double>(model.ffn_hidden)),
        a(static_cast<double>(model.heads)),
        t(static_cast<double>(layout.tp)),
        d(static_cast<double>(layout.replicas())),
        repl(layout.sequence_parallel ? t : 1),
        e(static_cast<double>(size_of(layout.stored()))),
        o(static_cast<double>(size_of(layout.precision))),
        kv(static_cast<double>(model.kv_heads * model.head_dim())),
        p(layout.pp),
        v(layout.vpp),
        m(layout.micro_batches()),
        g(layout.group()),
        layers(stage_layers(model, layout, stage)),
        groups(0),
        recomputed_layers(0) {
    if (layout.recompute.granularity != RecomputeGranularity::full) return;
    const bool uniform = layout.recompute.method == RecomputeMethod::uniform;
    const std::int64_t k = layout.recompute.num_layers;
    for (std::int64_t chunk = 0; chunk < v; ++chunk) {
      const std::int64_t l = layers.chunk - (is_light(chunk) ? 1 : 0);
      groups += uniform ? div_ceil(l, k) : std::min(k, l);
      recomputed_layers += uniform ? l : std::min(k, l);
    }
  }

  bool is_light(std::int64_t chunk) const {
    return (layers.light == StageLayers::Light::first_chunk && chunk == 0) ||
           (layers.light == StageLayers::Light::last_chunk && chunk == v - 1);
  }

  double x() const { return s * b * h; }
};

std::int64_t in_flight(const Letters& n, ScheduleKind schedule, std::int64_t stage) {
  switch (schedule) {
    case ScheduleKind::gpipe:
      return n.m;
    case ScheduleKind::one_f_one_b:
      return std::min(n.p - stage, n.m);
    case ScheduleKind::interleaved:
      return std::min(2 * (n.p - 1 - stage) + (n.v - 1) * n.g + 1, n.m * n.v);
  }
  return 0;
}

struct Extremes {
  std::int64_t least = 0, most = 0;
};

/// Micro-batches of the first (else the last) chunk of `stage` whose backward is to come, while as many chunks as ever are in
/// flight. The paper's p is v = 1, m >= p. Interleaved: of `count` forwards in table order, all of chunk 0 come first in
/// each group, of as many backwards last; of the last chunk the other way round.
Extremes chunk_in_flight(const Letters& n, ScheduleKind schedule, std::int64_t stage, bool first) {
  const std::int64_t all = in_flight(n, schedule, stage);
  if (schedule != ScheduleKind::interleaved) return {all, all};
  const auto of_chunk = [&n](std::int64_t count, bool last_in_group) {
    const std::int64_t groups = std::min(count / (n.g * n.v), n.m / n.g);
    const std::int64_t rest = count - groups * n.g * n.v;
    const std::int64_t size = groups < n.m / n.g ? n.g : n.m % n.g;
    return groups * n.g + (last_in_group ? std::max<std::int64_t>(0, rest - (n.v - 1) * size) : std::min(rest, size));
  };
  Extremes found{all, 0};
  for (std::int64_t gone = 0; gone + all <= n.m * n.v; ++gone) {
    const std::int64_t here = of_chunk(gone + all, !first) - of_chunk(gone, first);
    found = {std::min(found.least, here), std::max(found.most, here)};
  }
  return found;
}

double sum(const std::vector<BytesTerm>& terms) {
  double bytes = 0;
  for (const BytesTerm& term : terms) bytes += term.bytes;
  return bytes;
}

/// One layer, nothing fully recomputed.
std::vector<BytesTerm> layer_terms(const Letters& n, const ModelConfig& model, const Layout& layout, const Stack& stack,
                                   bool masks) {
  const bool core =
      layout.attention == AttentionKernel::unfused && !layout.recompute.selects(RecomputeModule::core_attn);
  const bool norm_outputs = !layout.recompute.selects(RecomputeModule::layernorm);
  const bool mlp_inside = !layout.recompute.selects(RecomputeModule::mlp);
  const std::string r = layout.sequence_parallel ? "/t" : "";
  const double x = n.x();
  const double matrix = n.a * n.s * n.s * n.b / n.t;
  const bool cast = layout.precision == DType::fp8;
  const std::string o = cast ? "o" : "e";

  std::vector<BytesTerm> terms;
  terms.push_back({"layernorm inputs", 2 * n.e * x / n.repl, "2 e s b h" + r});
  if (norm_outputs) {
    const double share = stack.keeps_gathered_inputs ? 1 : n.repl;
    for (const char* input : {"QKV input", "FC1 input"}) {
      terms.push_back({input, n.o * x / share, o + (share == 1 ? " s b h" : " s b h/t")});
    }
  }
  const bool llama = model.family == ModelFamily::llama;
  terms.push_back({"Q, K and V", n.e * n.s * n.b * (n.h + 2 * n.kv) / n.t, llama ? "e s b (h + 2 u d)/t" : "3 e s b h/t"});
  terms.push_back({"projection input", n.e * x / n.t, "e s b h/t"});
  if (cast) terms.push_back({"projection input in 8 bit", n.o * x / n.t, "o s b h/t"});
  if (mlp_inside) {
    if (llama) {
      terms.push_back({"gate and up", 2 * n.e * n.s * n.b * n.f / n.t, "2 e s b f/t"});
    } else {
      terms.push_back({"GELU input", n.e * n.s * n.b * n.f / n.t, "e s b f/t"});
    }
    terms.push_back({"FC2 input", n.o * n.s * n.b * n.f / n.t, o + " s b f/t"});
  }
  const bool norms = llama && !stack.fused_norm, gates = llama && !stack.fused_swiglu;
  const bool copied = layout.attention == AttentionKernel::flash && !stack.strided_attention && layout.micro_batch > 1;
  if (norms && norm_outputs) terms.push_back({"norms in fp32 and before gamma", 2 * 4 * x / n.repl, "8 s b h" + r});
  if (copied && !layout.recompute.selects(RecomputeModule::core_attn)) {
    terms.push_back({"copy of the context", n.e * x / n.t, "e s b h/t"});
  }
  const bool queries_copied =
      layout.attention == AttentionKernel::unfused && !stack.strided_attention && layout.micro_batch > 1;
  if (llama && !stack.fused_rope && !queries_copied) {
    terms.push_back({"rotated Q and K", n.e * n.s * n.b * (n.h + n.kv) / n.t, "e s b (h + u d)/t"});
  }
  if (gates && mlp_inside) terms.push_back({"SiLU", n.e * n.s * n.b * n.f / n.t, "e s b f/t"});
  if (masks) terms.push_back({"output dropout masks", 2 * x / n.repl, "2 s b h" + r});
  if (core) {
    terms.push_back({"softmax output", n.e * matrix, "e a s^2 b/t"});
    if (model.dropout > 0) terms.push_back({"attention dropout output", n.e * matrix, "e a s^2 b/t"});
    if (masks) terms.push_back({"attention dropout mask", matrix, "a s^2 b/t"});
  }
  return terms;
}

}  // namespace

SavedActivations saved_activations(const ModelConfig& model, const Layout& layout, const Stack& stack,
                                   std::int64_t stage) {
  CHECK(stage >= 0 && stage < layout.pp) << "stage " << stage << " of " << layout.pp;
  const Letters n(model, layout, stage);
  const bool masks = stack.stores_dropout_masks && model.dropout > 0;
  const RecomputeConfig& recompute = layout.recompute;
  const bool full = recompute.granularity == RecomputeGranularity::full;
  const bool uniform = recompute.method == RecomputeMethod::uniform;

  SavedActivations saved;
  saved.layer = layer_terms(n, model, layout, stack, masks);
  saved.layer_bytes = sum(saved.layer);
  const double input = n.e * n.x() / n.repl;
  saved.input_bytes = recompute.distribute_saved_activations ? input / n.t : input;
  saved.chunks_in_flight = in_flight(n, layout.schedule, stage);
  const auto of_chunk = [&](std::int64_t l) {
    if (!full) return static_cast<double>(l) * saved.layer_bytes;
    const std::int64_t k = std::min(recompute.num_layers, l);
    if (uniform) return k == 0 ? 0 : static_cast<double>(div_ceil(l, k)) * saved.input_bytes;
    return static_cast<double>(k) * saved.input_bytes + static_cast<double>(l - k) * saved.layer_bytes;
  };
  saved.chunk_bytes = of_chunk(n.layers.chunk);
  if (full) {
    const auto again = static_cast<double>(uniform ? std::min(recompute.num_layers, n.layers.chunk) : 1);
    saved.transient_bytes = again * saved.layer_bytes - saved.input_bytes;
  }
  saved.layers_total = saved.chunk_bytes * static_cast<double>(saved.chunks_in_flight);
  if (n.layers.light != StageLayers::Light::none) {
    const bool first = n.layers.light == StageLayers::Light::first_chunk;
    const auto light = static_cast<double>(chunk_in_flight(n, layout.schedule, stage, first).least);
    saved.layers_total -= light * (saved.chunk_bytes - of_chunk(n.layers.chunk - 1));
  }

  if (stage == 0 && masks) {
    const auto embedded = static_cast<double>(chunk_in_flight(n, layout.schedule, 0, true).most);
    saved.outside.push_back(
        {"embedding dropout mask", embedded * n.x() / n.repl,
         std::string("s b h") + (layout.sequence_parallel ? "/t" : "") + " x micro-batches in flight"});
  }
  if (stage == n.p - 1) {
    // Only GPipe lets a second micro-batch reach the head before the first one has gone back.
    const double waiting = layout.schedule == ScheduleKind::gpipe ? static_cast<double>(n.m) : 1;
    const auto vocab = static_cast<double>(padded_vocab(model.vocab, layout.tp));
    const std::string r = layout.sequence_parallel ? "/t" : "";
    saved.outside.push_back({"final layernorm input", waiting * n.e * n.x() / n.repl, "e s b h" + r});
    const double share = stack.keeps_gathered_inputs ? 1 : n.repl;
    saved.outside.push_back({"head input", waiting * n.e * n.x() / share, share == 1 ? "e s b h" : "e s b h/t"});
    if (stack.framework_loss) {
      const int buffers = n.m > 1 ? 2 : 1;
      saved.outside.push_back({"logits", (waiting * 4 + buffers * n.e) * n.s * n.b * vocab,
                               n.m > 1 ? "(4 + 2 e) s b V" : "(4 + e) s b V"});
    } else {
      saved.outside.push_back({"logits", waiting * 4 * n.s * n.b * vocab / n.t, "4 s b V/t"});
    }
  }
  saved.outside_bytes = sum(saved.outside);
  return saved;
}

double state_bytes_per_parameter(const Layout& layout, const Stack& stack) {
  const bool master = layout.precision != DType::fp32;
  const double parameter = static_cast<double>(size_of(layout.stored()));
  const double gradient = static_cast<double>(size_of(stack.gradient_dtype));
  const double optimizer = (master ? 4 : 0) + 8;
  const auto replicas = static_cast<double>(layout.replicas());
  const auto shards_from = [&](int stage) { return layout.zero_stage >= stage ? replicas : 1; };
  return parameter / shards_from(3) + gradient / shards_from(2) + optimizer / shards_from(1);
}

namespace {

/// Collects volumes, leaving out what is zero.
class Volumes {
 public:
  void add(GroupKind group, OpKind op, Site site, double bytes, std::int64_t calls, std::string formula,
           bool recomputed = false) {
    if (bytes > 0) list.push_back({group, op, site, recomputed, bytes, calls, std::move(formula)});
  }

  std::vector<Volume> list;
};

/// Of one layer, a place in it and a micro-batch: all-reduces of X; with sequence parallelism gathers and scatters of X, some of
/// which go in t - 1 exchanges of a piece where products run in tiles.
struct Times {
  std::int64_t all_reduces, gathers, scatters, tiled_gathers, tiled_scatters;
};

void add_layers(Volumes& volumes, const Letters& n, bool sequence_parallel, bool tiles, Site site, std::int64_t layers,
                const Times& each_time, bool recomputed) {
  const double half = (n.t - 1) / n.t * n.e * n.x(), half_gathered = (n.t - 1) / n.t * n.o * n.x();
  const std::string o = n.o == n.e ? "e" : "o";
  const std::int64_t passes = layers * n.m;
  const std::string each =
      recomputed ? " for each layer recomputed and micro-batch" : " for each layer and micro-batch";
  const auto add = [&](OpKind op, std::int64_t times, double bytes, const std::string& formula) {
    volumes.add(GroupKind::tensor, op, site, static_cast<double>(passes * times) * bytes, passes * times,
                std::to_string(times) + " " + formula + each, recomputed);
  };
  if (!sequence_parallel) return add(OpKind::all_reduce, each_time.all_reduces, 2 * half, "2 (t-1)/t e s b h");
  const std::int64_t tiled_gathers = tiles ? each_time.tiled_gathers : 0;
  const std::int64_t tiled_scatters = tiles ? each_time.tiled_scatters : 0;
  add(OpKind::all_gather, each_time.gathers - tiled_gathers, half_gathered, "(t-1)/t " + o + " s b h");
  add(OpKind::reduce_scatter, each_time.scatters - tiled_scatters, half, "(t-1)/t e s b h");
  const auto pieces = static_cast<std::int64_t>(n.t) - 1;
  if (n.o == n.e) return add(OpKind::shift, (tiled_gathers + tiled_scatters) * pieces, n.e * n.x() / n.t, "1/t e s b h");
  add(OpKind::shift, tiled_gathers * pieces, n.o * n.x() / n.t, "1/t o s b h");
  add(OpKind::shift, tiled_scatters * pieces, n.e * n.x() / n.t, "1/t e s b h");
}

void add_tensor(Volumes& volumes, const Letters& n, const ModelConfig& model, const Layout& layout, const Stack& stack,
                std::int64_t stage) {
  const bool sp = layout.sequence_parallel;
  const bool first = stage == 0;
  const bool last = stage == n.p - 1;
  const std::int64_t layers = n.layers.all;
  const double half = (n.t - 1) / n.t * n.e * n.x();
  const auto m = static_cast<double>(n.m);

  // Forward: gather, scatter. Backward: gather dY, re-gather the column layer's input, scatter dX. Tiles: all but the last two.
  const bool tiles = stack.overlaps_tensor_gemms;
  constexpr Times kForward{1, 1, 1, 1, 1};
  const Times both_ways{2, stack.keeps_gathered_inputs ? 2 : 3, 2, 2, 1};
  Times mlp_both_ways = both_ways;
  if (stack.separate_gate_linear && model.gated_mlp()) ++mlp_both_ways.all_reduces;
  add_layers(volumes, n, sp, tiles, Site::attention, layers, both_ways, false);
  add_layers(volumes, n, sp, tiles, Site::mlp, layers, mlp_both_ways, false);

  if (layout.recompute.granularity == RecomputeGranularity::full) {
    for (const Site site : {Site::attention, Site::mlp}) {
      add_layers(volumes, n, sp, tiles, site, n.recomputed_layers, kForward, true);
    }
    if (layout.recompute.distribute_saved_activations) {
      volumes.add(GroupKind::tensor, OpKind::all_gather, Site::attention, static_cast<double>(n.groups * n.m) * half,
                  n.groups * n.m, "(t-1)/t e s b h for each input kept and micro-batch", true);
    }
  }
  if (layout.recompute.selects(RecomputeModule::mlp)) {
    // A linear whose input was kept whole gathers nothing when it runs again.
    add_layers(volumes, n, sp, tiles, Site::mlp, layers, {1, stack.keeps_gathered_inputs ? 0 : 1, 1, 1, 1}, true);
  }

  if (first && sp && !model.learned_positions()) {
    volumes.add(GroupKind::tensor, OpKind::reduce_scatter, Site::embedding, m * half, n.m, "m (t-1)/t e s b h");
    volumes.add(GroupKind::tensor, OpKind::all_gather, Site::embedding, m * half, n.m, "m (t-1)/t e s b h");
  } else if (first) {
    // Learned positions are added after the sum, so sequence parallelism does not turn it into a scatter.
    volumes.add(GroupKind::tensor, OpKind::all_reduce, Site::embedding, m * 2 * half, n.m, "2 m (t-1)/t e s b h");
    if (sp) volumes.add(GroupKind::tensor, OpKind::all_gather, Site::embedding, m * half, n.m, "m (t-1)/t e s b h");
  }
  if (last) {
    if (sp) {
      const std::int64_t gathers = stack.keeps_gathered_inputs ? 1 : 2;
      volumes.add(GroupKind::tensor, OpKind::all_gather, Site::head, m * static_cast<double>(gathers) * half, gathers * n.m,
                  std::to_string(gathers) + " m (t-1)/t e s b h");
      volumes.add(GroupKind::tensor, OpKind::reduce_scatter, Site::head, m * half, n.m, "m (t-1)/t e s b h");
    } else {
      volumes.add(GroupKind::tensor, OpKind::all_reduce, Site::head, m * 2 * half, n.m, "2 m (t-1)/t e s b h");
    }
    const bool again = stack.recomputes_head && layout.recompute.granularity == RecomputeGranularity::full;
    if (sp && again) {
      volumes.add(GroupKind::tensor, OpKind::all_gather, Site::head, m * half, n.m, "m (t-1)/t e s b h", true);
    }
    if (stack.framework_loss) {
      const auto vocab = static_cast<double>(padded_vocab(model.vocab, layout.tp));
      for (const bool recomputed : {false, true}) {
        if (recomputed && !again) continue;
        volumes.add(GroupKind::tensor, OpKind::all_gather, Site::head, m * (n.t - 1) / n.t * n.e * n.s * n.b * vocab, n.m,
                    "m (t-1)/t e s b V", recomputed);
      }
    } else {
      volumes.add(GroupKind::tensor, OpKind::all_reduce, Site::loss, m * 3 * 2 * (n.t - 1) / n.t * 4 * n.s * n.b,
                  3 * n.m, "3 m 2 (t-1)/t 4 s b");
    }
  }
  if (sp) {
    const double w = static_cast<double>(size_of(stack.gradient_dtype));
    // Two norms and two row biases a layer and the final norm; RMSNorm has no shift and llama no biases.
    const bool llama = model.family == ModelFamily::llama;
    const double of_layer = llama ? 2 : 6, of_end = llama ? 1 : 2;
    const double elements = n.h * (static_cast<double>(layers) * of_layer + (last ? of_end : 0));
    const std::string text = llama ? (last ? "(2 h L/p + h)" : "2 h L/p") : (last ? "(6 h L/p + 2 h)" : "6 h L/p");
    if (layout.zero_stage >= 2 && n.d > 1) {  // only what a rank owns, and slices cut parameters anywhere
      volumes.list.push_back({GroupKind::tensor, OpKind::all_reduce, Site::gradients, false, -1, 1, "by slices"});
      return;
    }
    volumes.add(GroupKind::tensor, OpKind::all_reduce, Site::gradients, 2 * (n.t - 1) / n.t * w * elements, 1,
                "2 (t-1)/t w " + text);
  }
}

void add_pipeline(Volumes& volumes, const Letters& n, const Stack& stack, std::int64_t stage) {
  if (n.p == 1) return;
  const bool scattered = stack.scatters_pipeline_activations && n.repl == 1 && n.t > 1;
  const double tensor = n.e * n.x() / (scattered ? n.t : n.repl);
  // The last stage's last chunk sends no activations, the first stage's first chunk no gradients.
  const std::int64_t forward = n.m * (stage == n.p - 1 ? n.v - 1 : n.v);
  const std::int64_t backward = n.m * (stage == 0 ? n.v - 1 : n.v);
  const std::string size = n.repl > 1 || scattered ? " e s b h/t" : " e s b h";
  volumes.add(GroupKind::pipeline_forward, OpKind::send, Site::pipeline, static_cast<double>(forward) * tensor, forward,
              (stage == n.p - 1 ? "m (v-1)" : "m v") + size);
  volumes.add(GroupKind::pipeline_backward, OpKind::send, Site::pipeline, static_cast<double>(backward) * tensor,
              backward, (stage == 0 ? "m (v-1)" : "m v") + size);
  if (!scattered) return;
  // What a stage receives it gathers: activations on all but the first chunk of all, gradients on all but the last.
  const std::int64_t received = n.m * (stage == 0 ? n.v - 1 : n.v) + n.m * (stage == n.p - 1 ? n.v - 1 : n.v);
  volumes.add(GroupKind::tensor, OpKind::all_gather, Site::pipeline, static_cast<double>(received) * (n.t - 1) * tensor,
              received, "(t-1)/t e s b h for each tensor received");
}

/// ZeRO-2 and 3: gradients are reduced in every micro-batch, but for the tied embedding's. ZeRO-3 gathers parameters for each
/// use; how often is a formula only when nothing is prefetched, kept for reuse or persistent.
void add_sharded(Volumes& volumes, const Letters& n, const ModelConfig& model, const Layout& layout, const Stack& stack,
                 std::int64_t stage) {
  const double w = static_cast<double>(size_of(stack.gradient_dtype));
  const double ring = (n.d - 1) / n.d;
  const auto m = static_cast<double>(n.m);
  const bool first = stage == 0, last = stage == n.p - 1;
  const auto all = static_cast<double>(rank_parameters(model, layout, stage).total());
  const double vocabulary = static_cast<double>(padded_vocab(model.vocab, layout.tp)) * n.h / n.t;
  const bool tied = model.tied_embeddings();
  const double words = tied && (first || last) ? vocabulary : 0;
  volumes.add(GroupKind::data, OpKind::reduce_scatter, Site::gradients, ring * w * (m * (all - words) + words), -1,
              tied ? "(d-1)/d w (m (N - V h/t) + V h/t)" : "(d-1)/d w m N");
  if (layout.zero_stage == 2) {
    volumes.add(GroupKind::data, OpKind::all_gather, Site::optimizer, ring * n.e * all, -1, "(d-1)/d e N");
    return;
  }
  const ShardedParameterConfig& sharded = stack.sharded_parameters;
  if (sharded.prefetch_elements > 0 || sharded.max_reuse_distance > 0 || sharded.persistence_threshold > 0) {
    volumes.list.push_back({GroupKind::parameters, OpKind::all_gather, Site::optimizer, false, -1, -1, "by use order"});
    return;
  }
  const double ends = tied ? (first ? n.s * n.h : 0) + (last ? 2 * n.h : 0)
                           : (first ? vocabulary : 0) + (last ? n.h + vocabulary : 0);
  // Share of the layers whose forward runs again.
  const double again = static_cast<double>(n.recomputed_layers) / static_cast<double>(n.layers.all);
  const double word_uses = first && last ? 4 : 2;
  volumes.add(GroupKind::parameters, OpKind::all_gather, Site::optimizer,
              ring * n.e * m * ((2 + again) * (all - words - ends) + 2 * ends + word_uses * words), -1,
              "(d-1)/d e m (2 or 3 per layer, 2 per end, 2 or 4 of the words)");
}

void add_gradients(Volumes& volumes, const Letters& n, const ModelConfig& model, const Layout& layout,
                   const Stack& stack, std::int64_t stage) {
  const double w = static_cast<double>(size_of(stack.gradient_dtype));
  const double ring = (n.d - 1) / n.d;
  const auto parameters = static_cast<double>(rank_parameters(model, layout, stage).total());
  if (model.tied_embeddings() && n.p > 1 && (stage == 0 || stage == n.p - 1)) {
    const auto rows = static_cast<double>(padded_vocab(model.vocab, layout.tp));
    // A ring of two: 2 (2-1)/2 = 1.
    volumes.add(GroupKind::embedding, OpKind::all_reduce, Site::gradients, w * rows * n.h / n.t, 1, "w V h/t");
  }
  if (layout.zero_stage >= 2) return add_sharded(volumes, n, model, layout, stack, stage);
  if (stack.all_reduces_in_fp32) {
    volumes.add(GroupKind::data, OpKind::all_reduce, Site::gradients, 2 * ring * 4 * parameters, -1, "2 (d-1)/d 4 N");
  } else if (layout.zero_stage == 0) {
    volumes.add(GroupKind::data, OpKind::all_reduce, Site::gradients, 2 * ring * w * parameters, -1, "2 (d-1)/d w N");
  } else {
    volumes.add(GroupKind::data, OpKind::reduce_scatter, Site::gradients, ring * w * parameters, -1, "(d-1)/d w N");
  }
  if (layout.zero_stage == 0) return;
  volumes.add(GroupKind::data, OpKind::all_gather, Site::optimizer, ring * n.e * parameters, -1, "(d-1)/d e N");
}

}  // namespace

std::vector<Volume> communication_volumes(const ModelConfig& model, const Layout& layout, const Stack& stack,
                                          std::int64_t stage) {
  CHECK(stage >= 0 && stage < layout.pp) << "stage " << stage << " of " << layout.pp;
  const Letters n(model, layout, stage);
  Volumes volumes;
  if (layout.tp > 1) add_tensor(volumes, n, model, layout, stack, stage);
  add_pipeline(volumes, n, stack, stage);
  add_gradients(volumes, n, model, layout, stack, stage);
  return std::move(volumes.list);
}

double sum_bytes(const std::vector<Volume>& volumes, GroupKind group, OpKind op, bool recomputed) {
  double bytes = 0;
  for (const Volume& volume : volumes) {
    if (volume.group == group && volume.op == op && volume.recomputed == recomputed && volume.bytes > 0) {
      bytes += volume.bytes;
    }
  }
  return bytes;
}

}  // namespace benchsuite
