#include "engine/parallel/stack.h"

namespace benchsuite {

Stack read_stack(const Json& json, const std::string& file, const std::string& path, std::vector<Violation>& problems) {
  Stack stack;
  ObjectReader reader(json, file, path, problems);
  reader.required("name", stack.name);
  reader.required("title", stack.title);
  reader.required("source", stack.source);
  reader.required("fused_bias_gelu", stack.fused_bias_gelu);
  reader.required("fused_bias_dropout_add", stack.fused_bias_dropout_add);
  reader.required("stores_dropout_masks", stack.stores_dropout_masks);
  reader.choice("gradient_dtype", stack.gradient_dtype, {{"fp32", DType::fp32}, {"bf16", DType::bf16}}, true);
  reader.required("overlaps_tensor_backward", stack.overlaps_tensor_backward);
  reader.required("overlaps_pipeline", stack.overlaps_pipeline);
  reader.required("overlaps_pipeline_interleaved", stack.overlaps_pipeline_interleaved);
  reader.required("overlaps_gradient_reduction", stack.overlaps_gradient_reduction);
  reader.optional("bucket_elements", stack.bucket_elements);
  reader.optional("memory_source", stack.memory_source);
  reader.optional("context_bytes", stack.context_bytes);
  reader.optional("communicator_bytes", stack.communicator_bytes);
  reader.optional("workspace_bytes", stack.workspace_bytes);

  if (stack.bucket_elements < 1) {
    reader.problem("bucket_elements", "must be at least 1", "write the least elements of a gradient bucket");
  }
  const std::pair<const char*, std::int64_t> sizes[] = {{"context_bytes", stack.context_bytes},
                                                        {"communicator_bytes", stack.communicator_bytes},
                                                        {"workspace_bytes", stack.workspace_bytes}};
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
  json["stores_dropout_masks"] = stack.stores_dropout_masks;
  json["gradient_dtype"] = name_of(stack.gradient_dtype);
  json["overlaps_tensor_backward"] = stack.overlaps_tensor_backward;
  json["overlaps_pipeline"] = stack.overlaps_pipeline;
  json["overlaps_pipeline_interleaved"] = stack.overlaps_pipeline_interleaved;
  json["overlaps_gradient_reduction"] = stack.overlaps_gradient_reduction;
  json["bucket_elements"] = stack.bucket_elements;
  json["memory_source"] = stack.memory_source;
  json["context_bytes"] = stack.context_bytes;
  json["communicator_bytes"] = stack.communicator_bytes;
  json["workspace_bytes"] = stack.workspace_bytes;
  return json;
}

}  // namespace benchsuite
