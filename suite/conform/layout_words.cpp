#include "suite/conform/layout_words.h"

#include <charconv>
#include <optional>

namespace benchsuite {

namespace {

using Number = std::int64_t;
using Unit = ShardedParameterConfig::Unit;

void select(Layout& layout, RecomputeModule module) {
  RecomputeConfig& recompute = layout.recompute;
  if (recompute.granularity != RecomputeGranularity::selective) recompute.modules.clear();
  recompute.granularity = RecomputeGranularity::selective;
  recompute.modules.push_back(module);
}

constexpr LayoutWord kWords[] = {
    {"tp", true, "tensor-parallel ranks", [](TrainConfig& c, Number n) { c.layout.tp = n; }},
    {"sp", false, "sequence parallelism: norms and dropout work on a part of the sequence",
     [](TrainConfig& c, Number) { c.layout.sequence_parallel = true; }},
    {"pp", true, "pipeline stages, schedule 1F1B", [](TrainConfig& c, Number n) { c.layout.pp = n; }},
    {"gpipe", false, "schedule GPipe", [](TrainConfig& c, Number) { c.layout.schedule = ScheduleKind::gpipe; }},
    {"v", true, "interleaved schedule, chunks a stage",
     [](TrainConfig& c, Number n) { c.layout.vpp = n, c.layout.schedule = ScheduleKind::interleaved; }},
    {"g", true, "micro-batches a group of the interleaved schedule",
     [](TrainConfig& c, Number n) { c.layout.microbatch_group = n; }},
    {"short-ends", false, "one layer each on the first and the last stage",
     [](TrainConfig& c, Number) { c.layout.layer_split = {.first_stage = 1, .last_stage = 1}; }},
    {"long-start", false, "six layers on the first stage",
     [](TrainConfig& c, Number) { c.layout.layer_split.first_stage = 6; }},
    {"dp", true, "replicas", [](TrainConfig& c, Number n) { c.layout.dp = n; }},
    {"b", true, "samples a micro-batch", [](TrainConfig& c, Number n) { c.layout.micro_batch = n; }},
    {"zero", true, "ZeRO stage", [](TrainConfig& c, Number n) { c.layout.zero_stage = static_cast<int>(n); }},
    {"by-layer", false, "ZeRO-3 gathers whole layers",
     [](TrainConfig& c, Number) { c.stack.sharded_parameters.unit = Unit::layer; }},
    {"by-parameter", false, "ZeRO-3 gathers parameter by parameter, through lists, the host waiting (DeepSpeed in 2021)",
     [](TrainConfig& c, Number) {
       c.stack.sharded_parameters.unit = Unit::parameter;
       c.stack.sharded_parameters.synchronous = c.stack.sharded_parameters.by_lists = true;
     }},
    {"nothing-kept", false, "ZeRO-3 without prefetch, reuse or persistent parameters",
     [](TrainConfig& c, Number) {
       c.stack.sharded_parameters = {
           .prefetch_elements = 0, .max_live_elements = 0, .max_reuse_distance = 0, .persistence_threshold = 0};
     }},
    {"everything-kept", false, "ZeRO-3 with DeepSpeed's limits, in which this model fits whole",
     [](TrainConfig& c, Number) { c.stack.sharded_parameters = {}; }},
    {"fsdp2", false, "FSDP2: whole layers, the next one prefetched, resharded after forward",  // as cases/stacks/fsdp2.json
     [](TrainConfig& c, Number) {
       c.stack.overlaps_gradient_reduction = true;
       c.stack.sharded_parameters = {.unit = Unit::layer,
                                     .prefetch_elements = 1,
                                     .max_live_elements = 1'000'000'000'000,
                                     .max_reuse_distance = 0,
                                     .persistence_threshold = 0};
     }},
    {"full", true, "full recompute, uniform, layers a group",
     [](TrainConfig& c, Number n) {
       c.layout.recompute = {.granularity = RecomputeGranularity::full, .num_layers = n};
     }},
    {"block", true, "full recompute of the first layers of each chunk",
     [](TrainConfig& c, Number n) {
       c.layout.recompute = {
           .granularity = RecomputeGranularity::full, .method = RecomputeMethod::block, .num_layers = n};
     }},
    {"core", false, "selective recompute of core attention",
     [](TrainConfig& c, Number) { select(c.layout, RecomputeModule::core_attn); }},
    {"norm", false, "selective recompute of norms",
     [](TrainConfig& c, Number) { select(c.layout, RecomputeModule::layernorm); }},
    {"mlp", false, "selective recompute of MLPs",
     [](TrainConfig& c, Number) { select(c.layout, RecomputeModule::mlp); }},
    {"distributed", false, "what recompute keeps is split over the tensor ranks",
     [](TrainConfig& c, Number) { c.layout.recompute.distribute_saved_activations = true; }},
    {"flash", false, "flash attention", [](TrainConfig& c, Number) { c.layout.attention = AttentionKernel::flash; }},
    {"separate", false, "separate instead of fused kernels",
     [](TrainConfig& c, Number) { c.stack.fused_bias_gelu = c.stack.fused_bias_dropout_add = false; }},
    {"regenerated", false, "dropout masks drawn again in backward instead of stored",
     [](TrainConfig& c, Number) { c.stack.stores_dropout_masks = false; }},
    {"tiles", false, "tensor-parallel products in tiles, their gathers and scatters beside them",
     [](TrainConfig& c, Number) { c.stack.overlaps_tensor_gemms = true; }},
    {"scattered", false, "stages send each tensor rank's part of an activation",
     [](TrainConfig& c, Number) { c.stack.scatters_pipeline_activations = true; }},
    {"overlap-pp", false, "transfers between stages beside compute",
     [](TrainConfig& c, Number) { c.stack.overlaps_pipeline = true; }},
    {"blocking-pp", false, "an interleaved schedule waits for its transfers",
     [](TrainConfig& c, Number) { c.stack.overlaps_pipeline_interleaved = false; }},
    {"blocking-tp", false, "tensor-parallel backward waits for its collectives",
     [](TrainConfig& c, Number) { c.stack.overlaps_tensor_backward = false; }},
    {"overlap-dp", false, "gradients reduced beside the last backward passes",
     [](TrainConfig& c, Number) { c.stack.overlaps_gradient_reduction = true; }},
    {"late-gather", false, "overlap-dp, and updated parameters gathered beside the next forward passes",
     [](TrainConfig& c, Number) { c.stack.overlaps_gradient_reduction = c.stack.overlaps_parameter_gather = true; }},
};

/// The number that `text` is, if it is one above 0.
std::optional<Number> positive(std::string_view text) {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end || number <= 0) return std::nullopt;
  return number;
}

}  // namespace

std::span<const LayoutWord> layout_words() { return kWords; }

const LayoutWord* find_layout_word(std::string_view text) {
  for (const LayoutWord& word : kWords) {
    if (!text.starts_with(word.name)) continue;
    const std::string_view rest = text.substr(word.name.size());
    if (word.numbered ? positive(rest).has_value() : rest.empty()) return &word;
  }
  return nullptr;
}

void apply_layout_word(std::string_view text, TrainConfig& config) {
  const LayoutWord* word = find_layout_word(text);
  CHECK(word) << "the table of layouts has no word " << text;
  word->apply(config, word->numbered ? *positive(text.substr(word->name.size())) : 0);
}

}  // namespace benchsuite
