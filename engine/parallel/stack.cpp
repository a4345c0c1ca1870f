#include "engine/parallel/stack.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace benchsuite {

namespace {

using Unit = ShardedParameterConfig::Unit;

void read_sharded_parameters(const Json& json, ObjectReader& parent, ShardedParameterConfig& config) {
  ObjectReader reader(json, parent.file(), parent.dotted("sharded_parameters"), parent.problems());
  reader.choice("unit", config.unit, {{"parameter", Unit::parameter}, {"block", Unit::block}, {"layer", Unit::layer}});
  reader.optional("synchronous", config.synchronous);
  reader.optional("by_lists", config.by_lists);
  const std::pair<const char*, std::int64_t*> sizes[] = {{"prefetch_elements", &config.prefetch_elements},
                                                         {"max_live_elements", &config.max_live_elements},
                                                         {"max_reuse_distance", &config.max_reuse_distance},
                                                         {"persistence_threshold", &config.persistence_threshold}};
  for (const auto& [key, size] : sizes) {
    reader.optional(key, *size);
    if (*size < 0) reader.problem(key, "must not be negative", "write a number of elements");
  }
  reader.finish();
}

Json sharded_parameters_json(const ShardedParameterConfig& config) {
  Json json;
  json["unit"] = config.unit == Unit::parameter ? "parameter" : config.unit == Unit::block ? "block" : "layer";
  json["synchronous"] = config.synchronous;
  json["by_lists"] = config.by_lists;
  json["prefetch_elements"] = config.prefetch_elements;
  json["max_live_elements"] = config.max_live_elements;
  json["max_reuse_distance"] = config.max_reuse_distance;
  json["persistence_threshold"] = config.persistence_threshold;
  return json;
}

constexpr const char* kScopeRemedy = "write \"full_iteration\", or a list of the layer parts captured: [\"attn\", \"mlp\"]";

void read_graph_scope(const Json& json, ObjectReader& reader, bool cuda_graphs, GraphScope& scope) {
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    reader.problem("cuda_graph_scope", what, remedy);
  };
  if (!cuda_graphs) return refuse("means nothing without CUDA graphs", "remove it or set cuda_graphs to true");
  if (json.is_string() && json.get_ref<const std::string&>() == "full_iteration") return;
  const Json words = json.is_string() ? Json::array({json}) : json;  // one part may stand alone: "mlp"
  if (!words.is_array() || words.empty()) return refuse("names no scope", kScopeRemedy);
  scope = {.full_iteration = false};
  for (const Json& word : words) {
    const std::string name = word.is_string() ? word.get<std::string>() : word.dump();
    if (name == "attn") {
      scope.attention = true;
    } else if (name == "mlp") {
      scope.mlp = true;
    } else if (name.starts_with("moe") || name == "mamba") {
      refuse("\"" + name + "\" is a part of models the engine does not have: its layers are dense", kScopeRemedy);
    } else {
      refuse("\"" + name + "\" is not a part of a layer that can be captured", kScopeRemedy);
    }
  }
}

Json graph_scope_json(const GraphScope& scope) {
  if (scope.full_iteration) return "full_iteration";
  Json words = Json::array();
  if (scope.attention) words.push_back("attn");
  if (scope.mlp) words.push_back("mlp");
  return words;
}

constexpr std::pair<const char*, bool HostWaits::*> kHostWaits[] = {
    {"inputs", &HostWaits::inputs},
    {"exchanges", &HostWaits::exchanges},
    {"pieces", &HostWaits::pieces},
    {"objects", &HostWaits::objects},
    {"sequence_lengths", &HostWaits::sequence_lengths}};

void read_host_waits(const Json& json, ObjectReader& reader, HostWaits& waits) {
  const auto refuse = [&](const std::string& what) {
    reader.problem("host_waits_for", what,
                   R"(write a list of "inputs", "exchanges", "pieces", "objects", "sequence_lengths"; [] where the host never waits)");
  };
  if (!json.is_array()) return refuse("is not a list");
  for (const Json& word : json) {
    const std::string name = word.is_string() ? word.get<std::string>() : word.dump();
    const auto found = std::find_if(std::begin(kHostWaits), std::end(kHostWaits), [&](const auto& known) { return known.first == name; });
    if (found == std::end(kHostWaits)) {
      refuse("\"" + name + "\" is nothing that the host waits for");
    } else {
      waits.*found->second = true;
    }
  }
}

Json host_waits_json(const HostWaits& waits) {
  Json words = Json::array();
  for (const auto& [name, set] : kHostWaits) {
    if (waits.*set) words.push_back(name);
  }
  return words;
}

}  // namespace

HostWaits host_waits_of(const Stack& stack) {
  return stack.cuda_graphs && stack.cuda_graph_scope.full_iteration ? HostWaits{} : stack.host_waits;
}

Stack read_stack(const Json& json, const std::string& file, const std::string& path, std::vector<Violation>& problems) {
  Stack stack;
  ObjectReader reader(json, file, path, problems);
  reader.required("name", stack.name);
  reader.required("title", stack.title);
  reader.required("source", stack.source);
  reader.required("fused_bias_gelu", stack.fused_bias_gelu);
  reader.required("fused_bias_dropout_add", stack.fused_bias_dropout_add);
  reader.optional("fused_norm", stack.fused_norm);
  reader.optional("fused_softmax", stack.fused_softmax);
  reader.optional("fused_softmax_batches", stack.fused_softmax_batches);
  if (stack.fused_softmax_batches < 1) {
    reader.problem("fused_softmax_batches", "must be at least 1", "write 1 where the kernel takes any number of heads");
  }
  reader.optional("adds_scores_bias", stack.adds_scores_bias);
  reader.optional("strided_attention", stack.strided_attention);
  reader.optional("fused_rope", stack.fused_rope);
  reader.optional("fused_swiglu", stack.fused_swiglu);
  reader.optional("fused_cross_entropy", stack.fused_cross_entropy);
  reader.required("stores_dropout_masks", stack.stores_dropout_masks);
  reader.choice("fused_attention", stack.fused_attention,
                {{"usual", FusedAttention::usual},
                 {"flash-attention-1", FusedAttention::flash_1},
                 {"flash-attention-2", FusedAttention::flash_2},
                 {"flash-attention-triton", FusedAttention::triton}});
  reader.choice("fp8_scaling", stack.fp8_scaling, {{"delayed", Fp8Scaling::delayed}, {"current", Fp8Scaling::current}});
  reader.optional("transposes_fp8", stack.transposes_fp8);
  reader.choice("gradient_dtype", stack.gradient_dtype, {{"fp32", DType::fp32}, {"bf16", DType::bf16}}, true);
  reader.optional("fused_gradient_accumulation", stack.fused_gradient_accumulation);
  reader.optional("gradients_of_autograd", stack.gradients_of_autograd);
  reader.optional("casts_added_gradients", stack.casts_added_gradients);
  reader.required("overlaps_tensor_backward", stack.overlaps_tensor_backward);
  reader.optional("overlaps_tensor_gemms", stack.overlaps_tensor_gemms);
  reader.optional("framework_loss", stack.framework_loss);
  reader.optional("separate_gate_linear", stack.separate_gate_linear);
  reader.optional("keeps_gathered_inputs", stack.keeps_gathered_inputs);
  reader.optional("recomputes_head", stack.recomputes_head);
  reader.optional("keeps_stage_outputs", stack.keeps_stage_outputs);
  reader.optional("scatters_pipeline_activations", stack.scatters_pipeline_activations);
  reader.required("overlaps_pipeline", stack.overlaps_pipeline);
  reader.required("overlaps_pipeline_interleaved", stack.overlaps_pipeline_interleaved);
  reader.required("overlaps_gradient_reduction", stack.overlaps_gradient_reduction);
  reader.optional("all_reduces_in_fp32", stack.all_reduces_in_fp32);
  reader.optional("overlaps_parameter_gather", stack.overlaps_parameter_gather);
  reader.optional("bucket_elements", stack.bucket_elements);
  if (const Json* sharded = reader.raw("sharded_parameters")) {
    read_sharded_parameters(*sharded, reader, stack.sharded_parameters);
  }
  reader.optional("cuda_graphs", stack.cuda_graphs);
  if (const Json* scope = reader.raw("cuda_graph_scope")) {
    read_graph_scope(*scope, reader, stack.cuda_graphs, stack.cuda_graph_scope);
  }
  if (const Json* waits = reader.raw("host_waits_for")) read_host_waits(*waits, reader, stack.host_waits);
  if (stack.host_waits.sequence_lengths && stack.cuda_graphs && stack.cuda_graph_scope.attention) {
    reader.problem("host_waits_for", "\"sequence_lengths\" stops the host inside attention, which cuda_graph_scope captures",
                   "leave \"attn\" out of cuda_graph_scope, or \"sequence_lengths\" out of host_waits_for");
  }
  reader.optional("launch_blocking", stack.launch_blocking);
  reader.optional("step_fixed_s", stack.step_fixed_s);
  reader.optional("host_source", stack.host_source);
  if (stack.step_fixed_s < 0) reader.problem("step_fixed_s", "must not be negative", "write seconds, 0 if undocumented");
  if (stack.step_fixed_s > 0 && stack.host_source.empty())
    reader.problem("step_fixed_s", "has no source", "say in host_source where the figure is documented");
  reader.optional("memory_source", stack.memory_source);
  reader.optional("context_bytes", stack.context_bytes);
  reader.optional("communicator_bytes", stack.communicator_bytes);
  reader.optional("node_communicator_bytes", stack.node_communicator_bytes);
  reader.optional("workspace_bytes", stack.workspace_bytes);
  reader.optional("segment_bytes", stack.segment_bytes);
  reader.optional("caching_allocator", stack.caching_allocator);

  reader.raw("alternatives");  // not of the software that runs: what a published row may leave open (suite/accuracy)

  if (stack.bucket_elements < 1) {
    reader.problem("bucket_elements", "must be at least 1", "write the least elements of a gradient bucket");
  }
  const std::pair<const char*, std::int64_t> sizes[] = {{"context_bytes", stack.context_bytes},
                                                        {"communicator_bytes", stack.communicator_bytes},
                                                        {"node_communicator_bytes", stack.node_communicator_bytes},
                                                        {"workspace_bytes", stack.workspace_bytes},
                                                        {"segment_bytes", stack.segment_bytes}};
  for (const auto& [key, bytes] : sizes) {
    if (bytes < 0) reader.problem(key, "must not be negative", "write a size in bytes, 0 if none is documented");
    if (bytes > 0 && stack.memory_source.empty()) {
      reader.problem(key, "has no source", "say in memory_source where the figure is documented");
    }
  }
  reader.finish();
  return stack;
}

Json to_json(const Stack& stack) {
  Json json;
  json["name"] = stack.name;
  json["title"] = stack.title;
  json["source"] = stack.source;
  json["fused_bias_gelu"] = stack.fused_bias_gelu;
  json["fused_bias_dropout_add"] = stack.fused_bias_dropout_add;
  json["fused_norm"] = stack.fused_norm;
  json["fused_softmax"] = stack.fused_softmax;
  json["fused_softmax_batches"] = stack.fused_softmax_batches;
  json["adds_scores_bias"] = stack.adds_scores_bias;
  json["strided_attention"] = stack.strided_attention;
  json["fused_rope"] = stack.fused_rope;
  json["fused_swiglu"] = stack.fused_swiglu;
  json["fused_cross_entropy"] = stack.fused_cross_entropy;
  json["stores_dropout_masks"] = stack.stores_dropout_masks;
  json["fused_attention"] = name_of(stack.fused_attention);
  json["fp8_scaling"] = stack.fp8_scaling == Fp8Scaling::delayed ? "delayed" : "current";
  json["transposes_fp8"] = stack.transposes_fp8;
  json["gradient_dtype"] = name_of(stack.gradient_dtype);
  json["fused_gradient_accumulation"] = stack.fused_gradient_accumulation;
  json["gradients_of_autograd"] = stack.gradients_of_autograd;
  json["casts_added_gradients"] = stack.casts_added_gradients;
  json["overlaps_tensor_backward"] = stack.overlaps_tensor_backward;
  json["overlaps_tensor_gemms"] = stack.overlaps_tensor_gemms;
  json["framework_loss"] = stack.framework_loss;
  json["separate_gate_linear"] = stack.separate_gate_linear;
  json["keeps_gathered_inputs"] = stack.keeps_gathered_inputs;
  json["recomputes_head"] = stack.recomputes_head;
  json["keeps_stage_outputs"] = stack.keeps_stage_outputs;
  json["scatters_pipeline_activations"] = stack.scatters_pipeline_activations;
  json["overlaps_pipeline"] = stack.overlaps_pipeline;
  json["overlaps_pipeline_interleaved"] = stack.overlaps_pipeline_interleaved;
  json["overlaps_gradient_reduction"] = stack.overlaps_gradient_reduction;
  json["all_reduces_in_fp32"] = stack.all_reduces_in_fp32;
  json["overlaps_parameter_gather"] = stack.overlaps_parameter_gather;
  json["bucket_elements"] = stack.bucket_elements;
  json["sharded_parameters"] = sharded_parameters_json(stack.sharded_parameters);
  json["cuda_graphs"] = stack.cuda_graphs;
  if (stack.cuda_graphs) json["cuda_graph_scope"] = graph_scope_json(stack.cuda_graph_scope);
  json["host_waits_for"] = host_waits_json(stack.host_waits);
  json["launch_blocking"] = stack.launch_blocking;
  json["step_fixed_s"] = stack.step_fixed_s;
  json["host_source"] = stack.host_source;
  json["memory_source"] = stack.memory_source;
  json["context_bytes"] = stack.context_bytes;
  json["communicator_bytes"] = stack.communicator_bytes;
  json["node_communicator_bytes"] = stack.node_communicator_bytes;
  json["workspace_bytes"] = stack.workspace_bytes;
  json["segment_bytes"] = stack.segment_bytes;
  json["caching_allocator"] = stack.caching_allocator;
  return json;
}

}  // namespace benchsuite
