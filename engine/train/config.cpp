#include "engine/train/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "engine/parallel/rank_grid.h"
#include "engine/parallel/schedule.h"

namespace benchsuite {

namespace {

// Bounds that keep every count below in 64 bits; layers and chunks are 16-bit numbers in a Program.
constexpr std::int64_t kMostLayers = std::numeric_limits<std::int16_t>::max();
constexpr std::int64_t kMostWidth = 1 << 20;
constexpr std::int64_t kMostTokens = 1 << 24;
constexpr std::int64_t kMostRanks = 1 << 20;
constexpr std::int64_t kMostSamples = std::numeric_limits<std::int32_t>::max();

std::string text(std::int64_t value) { return std::to_string(value); }
std::string quoted(std::string_view word) { return fmt::format("\"{}\"", word); }

/// "1, 2, 4, 8": the divisors of n, at most a dozen of them, those nearest to `wanted` kept.
std::string divisors(std::int64_t n, std::int64_t wanted) {
  std::set<std::int64_t> all;
  for (std::int64_t i = 1; i * i <= n; ++i) {
    if (n % i == 0) all.insert({i, n / i});
  }
  while (all.size() > 12) {
    const bool drop_last = *all.rbegin() - wanted > wanted - *all.begin();
    all.erase(drop_last ? std::prev(all.end()) : all.begin());
  }
  std::string list;
  for (const std::int64_t divisor : all) list += (list.empty() ? "" : ", ") + text(divisor);
  return list;
}

/// "96 or 128": the multiples of `unit` around n.
std::string multiples(std::int64_t n, std::int64_t unit) {
  const std::int64_t below = n / unit * unit;
  return (below > 0 ? text(below) + " or " : "") + text(below + unit);
}

class Validator {
 public:
  Validator(const TrainConfig& config, const std::string& file, Wanted wanted)
      : model_(config.model), layout_(config.layout), stack_(config.stack), file_(file), wanted_(wanted) {}

  std::vector<Violation> run() {
    ranges();
    supported();
    divisibility();
    sequence_parallel();
    overlap();
    schedule();
    recompute();
    offloading();
    placement();
    return std::move(problems_);
  }

 private:
  void add(const std::string& key, std::string value, std::string problem, std::string remedy) {
    problems_.push_back({file_, key, std::move(value), std::move(problem), std::move(remedy)});
  }

  /// A rule that needs these keys is judged only when none of them has been refused for its range.
  bool sound(std::initializer_list<const char*> keys) const {
    return std::none_of(keys.begin(), keys.end(), [&](const char* key) { return out_of_range_.contains(key); });
  }

  void range(const char* key, std::int64_t value, std::int64_t most, std::int64_t least = 1) {
    if (value >= least && value <= most) return;
    out_of_range_.insert(key);
    if (value < least) {
      add(key, text(value), "must be at least " + text(least), "set it to " + text(least) + " or more");
    } else {
      add(key, text(value), "is beyond what the engine counts", "set it to " + text(most) + " or less");
    }
  }

  void ranges() {
    range("model.layers", model_.layers, kMostLayers);
    range("model.hidden", model_.hidden, kMostWidth);
    range("model.ffn_hidden", model_.ffn_hidden, 4 * kMostWidth);
    range("model.heads", model_.heads, kMostWidth);
    range("model.kv_heads", model_.kv_heads, kMostWidth);
    range("model.seq", model_.seq, kMostTokens);
    range("model.vocab", model_.vocab, kMostTokens);
    if (!(model_.dropout >= 0 && model_.dropout < 1)) {
      add("model.dropout", Json(model_.dropout).dump(), "must be a probability below 1", "set it to 0 for no dropout");
    }
    range("layout.tp", layout_.tp, kMostRanks);
    range("layout.pp", layout_.pp, kMostRanks);
    range("layout.dp", layout_.dp, kMostRanks);
    range("layout.cp", layout_.cp, kMostRanks);
    range("layout.vpp", layout_.vpp, kMostLayers);
    range("layout.micro_batch", layout_.micro_batch, kMostSamples);
    range("layout.global_batch", layout_.global_batch, kMostSamples);
    range("layout.microbatch_group", layout_.microbatch_group, kMostSamples, 0);
    if (sound({"layout.tp", "layout.pp", "layout.dp", "layout.cp"}) &&
        (layout_.tp * layout_.pp > kMostRanks || layout_.tp * layout_.pp * layout_.dp > kMostRanks || layout_.world() > kMostRanks)) {
      out_of_range_.insert({"layout.tp", "layout.pp", "layout.dp", "layout.cp"});
      add("layout.dp", text(layout_.dp),
          (layout_.cp == 1 ? "tp x pp x dp is beyond the " : "tp x pp x cp x dp is beyond the ") + text(kMostRanks) +
              " ranks the engine counts",
          "lower one of them");
    }
  }

  void supported() {
    if (layout_.cp > 1 && wanted_ == Wanted::numbers) {
      add("layout.cp", text(layout_.cp), "context parallelism is timed on device sim alone", "set it to 1");
    } else if (layout_.cp > 1 && layout_.attention != AttentionKernel::flash) {
      add("layout.cp", text(layout_.cp), "context parallelism needs fused attention", "set layout.attention to \"flash\"");
    }
    if (layout_.ep != 1) {
      add("layout.ep", text(layout_.ep), "expert parallelism is not in the engine: its models are dense",
          "set it to 1");
    }
    if (layout_.zero_stage < 0 || layout_.zero_stage > 3) {
      add("layout.zero_stage", text(layout_.zero_stage), "there is no such ZeRO stage",
          "set it to 0 (every rank keeps all states), 1 (optimizer states sharded), 2 (gradients too) or 3 (parameters "
          "too)");
    }
    const bool timed_only = layout_.precision == DType::fp8 || layout_.precision == DType::fp16;
    if (timed_only && wanted_ == Wanted::numbers) {
      add("layout.precision", quoted(name_of(layout_.precision)), "this precision is timed on device sim alone",
          "set it to \"bf16\" or \"fp32\"");
    } else if (!timed_only && layout_.precision != DType::bf16 && layout_.precision != DType::fp32) {
      add("layout.precision", quoted(name_of(layout_.precision)), "this precision is not in the engine",
          "set it to \"bf16\", \"fp16\", \"fp8\" or \"fp32\"");
    }
    for (const auto& [key, set] : {std::pair{"stack.framework_loss", stack_.framework_loss},
                                   std::pair{"stack.separate_gate_linear", stack_.separate_gate_linear},
                                   std::pair{"stack.adds_scores_bias", stack_.adds_scores_bias}}) {
      if (set && wanted_ == Wanted::numbers) add(key, "true", "this is timed on device sim alone", "set it to false");
    }
    if (stack_.gradient_dtype != DType::fp32 && stack_.gradient_dtype != DType::bf16) {
      add("stack.gradient_dtype", quoted(name_of(stack_.gradient_dtype)), "gradients cannot accumulate in this type",
          "set it to \"fp32\" or \"bf16\"");
    }
    if (stack_.bucket_elements < 1) {
      add("stack.bucket_elements", text(stack_.bucket_elements), "must be at least 1", "set it to 1 or more");
    }
    if (model_.family == ModelFamily::gpt && sound({"model.heads", "model.kv_heads"}) &&
        model_.kv_heads != model_.heads) {
      add("model.kv_heads", text(model_.kv_heads), "family gpt has as many key-value heads as heads",
          "set it to " + text(model_.heads) + " or leave it out");
    }
  }

  /// `whole` % `parts` == 0, where a person may change either.
  void divides(const char* key, std::int64_t whole, const char* parts_key, std::int64_t parts) {
    if (!sound({key, parts_key}) || whole % parts == 0) return;
    add(key, text(whole), "is not a multiple of " + std::string(parts_key) + " = " + text(parts),
        "choose " + std::string(parts_key) + " among " + divisors(whole, parts) + ", or " + key + " = " +
            multiples(whole, parts));
  }

  void rotary_and_grouped() {
    divides("model.heads", model_.heads, "model.kv_heads", model_.kv_heads);
    if (sound({"model.hidden", "model.heads"}) && model_.hidden % model_.heads == 0 && model_.head_dim() % 2 != 0) {
      add("model.heads", text(model_.heads),
          "gives heads of " + text(model_.head_dim()) + " channels, and rotary positions turn pairs of channels",
          "choose it so that model.hidden / model.heads is even");
    }
    if (!(model_.rope_theta > 1 && model_.rope_theta < 1e12)) {
      add("model.rope_theta", Json(model_.rope_theta).dump(), "must be the base of falling frequencies, above 1",
          "set it to 10000 (Llama 2) or 500000 (Llama 3)");
    }
  }

  void divisibility() {
    if (sound({"layout.cp"}) && layout_.cp > 1) divides("model.seq", model_.seq, "layout.cp", layout_.cp);
    divides("model.hidden", model_.hidden, "model.heads", model_.heads);
    divides("model.heads", model_.heads, "layout.tp", layout_.tp);
    if (model_.kv_heads != model_.heads) divides("model.kv_heads", model_.kv_heads, "layout.tp", layout_.tp);
    if (model_.family == ModelFamily::llama) rotary_and_grouped();
    divides("model.ffn_hidden", model_.ffn_hidden, "layout.tp", layout_.tp);
    if (sound({"model.layers", "layout.pp", "layout.vpp"})) layers();
    if (sound({"layout.global_batch", "layout.micro_batch", "layout.dp"})) {
      const std::int64_t round = layout_.micro_batch * layout_.dp;
      if (layout_.global_batch % round != 0) {
        add("layout.global_batch", text(layout_.global_batch),
            "is not a multiple of layout.micro_batch x layout.dp = " + text(layout_.micro_batch) + " x " +
                text(layout_.dp) + " = " + text(round) + ", and all micro-batches must be equal",
            "set it to " + multiples(layout_.global_batch, round));
      }
    }
  }

  void layers() {
    if (!layout_.layer_split.even()) return layer_split();
    const std::int64_t chunks = layout_.pp * layout_.vpp;
    if (model_.layers % chunks == 0) return;
    add("model.layers", text(model_.layers),
        "is not a multiple of layout.pp x layout.vpp = " + text(layout_.pp) + " x " + text(layout_.vpp) + " = " +
            text(chunks),
        "choose a product among " + divisors(model_.layers, chunks) +
            ", or model.layers = " + multiples(model_.layers, chunks) + ", or split unevenly (layout.layer_split)");
  }

  void layer_split() {
    const LayerSplit& split = layout_.layer_split;
    const bool counts = split.counts_embedding || split.counts_loss;
    const bool stages = split.first_stage != 0 || split.last_stage != 0;
    const auto refuse = [&](const char* key, const std::string& value, const std::string& problem,
                            const std::string& remedy) {
      sound_split_ = false;
      add(std::string("layout.layer_split") + key, value, problem, remedy);
    };
    if (layout_.pp == 1) {
      return refuse("", "uneven", "there is one stage, which holds all layers: layout.pp is 1",
                    "leave layout.layer_split out or set layout.pp to 2 or more");
    }
    if (!split.stages.empty()) {
      const std::string listed = fmt::format("[{}]", fmt::join(split.stages, ", "));
      if (counts || stages) {
        return refuse(".stages", listed, "a list is given beside another form of the split", "keep one of them");
      }
      const std::int64_t sum = std::accumulate(split.stages.begin(), split.stages.end(), std::int64_t{0});
      const bool whole = std::all_of(split.stages.begin(), split.stages.end(),
                                     [&](std::int64_t layers) { return layers > 0 && layers % layout_.vpp == 0; });
      if (static_cast<std::int64_t>(split.stages.size()) == layout_.pp && sum == model_.layers && whole) return;
      return refuse(".stages", listed,
                    "must hold layout.pp = " + text(layout_.pp) + " numbers, multiples of layout.vpp = " +
                        text(layout_.vpp) + ", that add up to model.layers = " + text(model_.layers),
                    "list the layers of every stage");
    }
    if (counts && stages) {
      return refuse("", "both", "layers of a stage are stated and the embedding or loss is counted as one",
                    "state either first_stage and last_stage, or counts_embedding and counts_loss");
    }
    if (counts) {
      const std::int64_t all = model_.layers + (split.counts_embedding ? 1 : 0) + (split.counts_loss ? 1 : 0);
      const std::int64_t chunks = layout_.pp * layout_.vpp;
      if (all % chunks == 0) return;
      return refuse(split.counts_embedding ? ".counts_embedding" : ".counts_loss", "true",
                    "makes " + text(all) + " layers of " + text(model_.layers) +
                        ", not a multiple of layout.pp x layout.vpp = " + text(chunks),
                    "choose a product among " + divisors(all, chunks) + ", or state first_stage and last_stage");
    }
    for (const auto& [key, layers] : {std::pair{".first_stage", split.first_stage}, {".last_stage", split.last_stage}}) {
      if (layers < 0 || layers >= model_.layers || layers % layout_.vpp != 0) {
        refuse(key, text(layers), "must lie below model.layers = " + text(model_.layers) +
                   " and be a multiple of layout.vpp = " + text(layout_.vpp),
               "set it to " + multiples(std::clamp<std::int64_t>(layers, 0, model_.layers - 1), layout_.vpp) +
                   ", or 0 for an equal share");
      }
    }
    if (!sound_split_) return;
    const std::int64_t rest = model_.layers - split.first_stage - split.last_stage;
    const std::int64_t others = layout_.pp - (split.first_stage > 0 ? 1 : 0) - (split.last_stage > 0 ? 1 : 0);
    if (others == 0 ? rest == 0 : rest > 0 && rest % (others * layout_.vpp) == 0) return;
    refuse(split.first_stage > 0 ? ".first_stage" : ".last_stage",
           text(split.first_stage > 0 ? split.first_stage : split.last_stage),
           "leaves " + text(rest) + " of model.layers = " + text(model_.layers) + " for " + text(others * layout_.vpp) +
               " chunks of the other " + text(others) + " stages",
           "choose first_stage and last_stage so that every other chunk gets an equal number, at least 1");
  }

  void sequence_parallel() {
    if (!layout_.sequence_parallel || !sound({"layout.tp"})) return;
    if (layout_.tp == 1) {
      add("layout.sequence_parallel", "true", "sequence parallelism splits over the tensor ranks, and layout.tp is 1",
          "set it to false or layout.tp to 2 or more");
      return;
    }
    if (!sound({"layout.cp"}) || model_.seq % layout_.cp != 0) return;
    if (layout_.cp == 1) return divides("model.seq", model_.seq, "layout.tp", layout_.tp);
    divides("model.seq", model_.seq, "layout.cp x layout.tp", layout_.cp * layout_.tp);
  }

  void overlap() {
    if (stack_.overlaps_parameter_gather && !stack_.overlaps_gradient_reduction) {
      add("stack.overlaps_parameter_gather", "true",
          "parameters are gathered by the buckets whose gradient reductions overlap, and stack.overlaps_gradient_reduction is "
          "false",
          "set stack.overlaps_gradient_reduction to true, or this to false");
    }
    if (stack_.all_reduces_in_fp32 && layout_.zero_stage >= 2) {
      add("stack.all_reduces_in_fp32", "true", "ZeRO stages 2 and 3 scatter the sums of gradients",
          "set it to false, or layout.zero_stage to 0 or 1");
    }
    if (stack_.casts_added_gradients && (stack_.fused_gradient_accumulation || stack_.gradient_dtype != DType::fp32)) {
      add("stack.casts_added_gradients", "true",
          stack_.fused_gradient_accumulation ? "products add to the gradients, and stack.fused_gradient_accumulation is true"
                                             : "16-bit gradients are added as they are, and stack.gradient_dtype is bf16",
          "set one of them to false, or stack.gradient_dtype to fp32");
    }
    const bool hides = stack_.overlaps_tensor_backward || stack_.overlaps_pipeline || stack_.overlaps_gradient_reduction ||
                       stack_.overlaps_parameter_gather || stack_.overlaps_tensor_gemms;
    if (stack_.launch_blocking && (stack_.cuda_graphs || hides)) {
      add("stack.launch_blocking", "true",
          stack_.cuda_graphs ? "a captured step is launched once, and stack.cuda_graphs is true"
                             : "nothing overlaps while the host waits for every kernel, and an overlaps_* of the stack is true",
          "set one of them to false");
    }
    const bool tiles = stack_.overlaps_tensor_gemms, again = layout_.recompute.selects(RecomputeModule::layernorm);
    if (stack_.keeps_gathered_inputs && layout_.sequence_parallel && (tiles || again)) {
      add("stack.keeps_gathered_inputs", "true",
          std::string("inputs of linears are kept whole, and ") +
              (tiles ? "stack.overlaps_tensor_gemms gathers them tile by tile" : "recompute of layernorm gathers them again"),
          tiles ? "set one of them to false" : "set it to false, or leave layernorm out of layout.recompute.modules");
    }
    if (!stack_.overlaps_tensor_gemms || layout_.sequence_parallel || !sound({"layout.tp"}) || layout_.tp == 1) return;
    add("stack.overlaps_tensor_gemms", "true",
        "products overlap with the gathers and scatters of sequence parallelism, and layout.sequence_parallel is false",
        "set layout.sequence_parallel to true, or stack.overlaps_tensor_gemms to false");
  }

  void offloading() {
    if (!layout_.cpu_offloading) return;
    if (layout_.pp > 1) {
      add("layout.cpu_offloading", "true", "activations cannot be offloaded to the host with a pipeline: layout.pp is " +
              text(layout_.pp),
          "set it to false and recompute instead (layout.recompute), or set layout.pp to 1");
    } else {
      add("layout.cpu_offloading", "true", "offloading activations to the host is not in the engine",
          "set it to false and recompute instead (layout.recompute)");
    }
  }

  void schedule() {
    if (!sound({"layout.pp", "layout.vpp", "layout.dp", "layout.micro_batch", "layout.global_batch",
                "layout.microbatch_group"})) {
      return;
    }
    const bool interleaved = layout_.schedule == ScheduleKind::interleaved;
    if (!interleaved && layout_.microbatch_group != 0) {
      add("layout.microbatch_group", text(layout_.microbatch_group), "only the interleaved schedule has groups",
          "set it to 0 or layout.schedule to \"interleaved\"");
    }
    ScheduleShape shape{layout_.schedule, layout_.pp, layout_.vpp, 1, layout_.group()};
    // With a remainder in the batch the number of micro-batches is not known; judge the rest with one that fits.
    const bool known = layout_.global_batch % (layout_.micro_batch * layout_.dp) == 0;
    shape.micro_batches = known ? layout_.micro_batches() : std::max(shape.pipeline, shape.group);
    for (Violation& problem : schedule_violations(shape)) {
      problem.file = file_;
      if (problem.key == "layout.global_batch") problem.value = text(layout_.global_batch);
      problems_.push_back(std::move(problem));
    }
  }

  void recompute() {
    const RecomputeConfig& recompute = layout_.recompute;
    if (recompute.granularity == RecomputeGranularity::selective && recompute.modules.empty()) {
      add("layout.recompute.modules", "[]", "selective recompute of nothing",
          "name at least one of core_attn, layernorm, mlp, or set granularity to \"none\"");
    }
    if (recompute.granularity != RecomputeGranularity::full) return;
    if (stack_.cuda_graphs && !stack_.cuda_graph_scope.full_iteration) {
      add("layout.recompute.granularity", "\"full\"",
          "whole layers cannot be recomputed when CUDA graphs capture parts of a layer (stack.cuda_graph_scope)",
          "recompute modules (granularity \"selective\"), set stack.cuda_graphs to false, or capture whole steps "
          "(stack.cuda_graph_scope \"full_iteration\")");
    }
    distributed_activations();
    if (!sound({"model.layers", "layout.pp", "layout.vpp"}) || !sound_split_) return;
    const std::int64_t layers = most_layers_of_a_chunk();
    if (recompute.num_layers >= 1 && recompute.num_layers <= std::max<std::int64_t>(layers, 1)) return;
    add("layout.recompute.num_layers", text(recompute.num_layers),
        "must lie between 1 and the " + text(layers) + " layers of a model chunk",
        "set it to 1 to keep the input of every layer (uniform) or to recompute one layer (block)");
  }

  void distributed_activations() {
    if (!layout_.recompute.distribute_saved_activations || !sound({"layout.tp"})) return;
    const char* key = "layout.recompute.distribute_saved_activations";
    if (layout_.sequence_parallel) {
      add(key, "true", "under sequence parallelism every kept input is split over the tensor ranks already",
          "set it to false, or layout.sequence_parallel to false");
    } else if (layout_.tp == 1) {
      add(key, "true", "kept inputs are split over the tensor ranks, and layout.tp is 1",
          "set it to false or layout.tp to 2 or more");
    }
  }

  /// 0 where the layers cannot be divided, which another rule says.
  std::int64_t most_layers_of_a_chunk() const {
    if (layout_.layer_split.even()) return model_.layers / (layout_.pp * layout_.vpp);
    std::int64_t most = 0;
    for (std::int64_t chunk = 0; chunk < layout_.vpp; ++chunk) {
      for (std::int64_t stage = 0; stage < layout_.pp; ++stage) {
        most = std::max(most, layers_of(model_.layers, layout_, stage, chunk).count);
      }
    }
    return most;
  }

  void placement() {
    if (layout_.placement != TensorPlacement::across_nodes || !sound({"layout.tp"}) || layout_.tp > 1) return;
    add("layout.placement", "\"across_nodes\"", "there is no tensor group to spread: layout.tp is 1",
        "set it to \"packed\" or layout.tp to 2 or more");
  }

  const ModelConfig& model_;
  const Layout& layout_;
  const Stack& stack_;
  const std::string& file_;
  const Wanted wanted_;
  std::vector<Violation> problems_;
  std::set<std::string, std::less<>> out_of_range_;
  bool sound_split_ = true;
};

}  // namespace

std::vector<Violation> validate(const TrainConfig& config, const std::string& file, Wanted wanted) {
  return Validator(config, file, wanted).run();
}

}  // namespace benchsuite
