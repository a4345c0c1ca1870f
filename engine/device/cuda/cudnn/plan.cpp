#include "engine/device/cuda/cudnn/plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/letters.h"

namespace benchsuite::cuda {

namespace {

constexpr std::size_t kProposals = 8;
constexpr std::int64_t kAlignment = 256;  // bytes, of the parts of the workspace

bool is_deterministic(const Descriptor& configuration) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  configuration.get(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::size_t count = engine.get<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes);
  return std::find(notes.begin(), notes.begin() + static_cast<std::ptrdiff_t>(count),
                   CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == notes.begin() + static_cast<std::ptrdiff_t>(count);
}

}  // namespace

Descriptor current_gpu() {
  std::int32_t device = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  Descriptor gpu(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  gpu.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, device);
  gpu.finalize();
  return gpu;
}

std::vector<Descriptor> deterministic_configurations(const Descriptor& graph, const Descriptor& gpu) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu);
  heuristic.finalize_or_answer();
  std::vector<Descriptor> configurations;
  for (std::size_t i = 0; i < kProposals; ++i) configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const std::size_t found = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, std::span(configurations));
  configurations.erase(configurations.begin() + static_cast<std::ptrdiff_t>(found), configurations.end());
  std::erase_if(configurations, [](const Descriptor& each) { return !is_deterministic(each); });
  return configurations;
}

Descriptor build(const Descriptor& configuration, const Descriptor& gpu) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu);
  plan.finalize_or_answer();
  return plan;
}

AttentionPlan::AttentionPlan(const AttentionKey& key, Descriptor plan) : plan_(std::move(plan)), key_(key) {
  std::int64_t bytes = 0;
  plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, std::span(&bytes, 1));
  library_bytes_ = static_cast<std::uint64_t>(bytes);
  if (key.backward) {
    row_sums_bytes_ =
        static_cast<std::uint64_t>(round_up(key.b * key.a * key.s * std::int64_t{sizeof(float)}, kAlignment));
  }
}

std::optional<AttentionPlan> AttentionPlan::make(const AttentionKey& key, const Descriptor& gpu, std::string& why) {
  why = "no deterministic engine takes it";
  try {
    OperationGraph operations;
    write_attention(operations, key);
    const Descriptor graph = operations.finish();
    for (const Descriptor& configuration : deterministic_configurations(graph, gpu)) {
      try {
        return AttentionPlan(key, build(configuration, gpu));
      } catch (const NotSupported& answer) {
        why = answer.why;  // the next one may be
      }
    }
  } catch (const NotSupported& answer) {
    why = answer.why;
  }
  return {};
}

void AttentionPlan::run(cudnnHandle_t handle, Addresses addresses, float scale, std::span<std::byte> workspace) const {
  float minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  addresses[AttentionTensor::scale] = &scale;
  if (key_.causal) addresses[AttentionTensor::minus_infinity] = &minus_infinity;
  if (key_.backward) {
    addresses[AttentionTensor::one] = &one;
    addresses[AttentionTensor::row_sums] = workspace.data();
  }
  std::vector<std::int64_t> uids;
  std::vector<void*> pointers;
  for (const auto& [tensor, address] : addresses) {
    uids.push_back(static_cast<std::int64_t>(tensor));
    pointers.push_back(address);
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(uids));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, static_cast<void*>(workspace.data() + row_sums_bytes_));
  pack.finalize();
  CUDNN_CHECK(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

}  // namespace benchsuite::cuda
