// cuDNN's engines for fused attention: what they take, in which order they are proposed, and how a plan runs on a
// stream.
//
// Three are proposed for what is taken: one that is marked as nondeterministic, and is; one that cannot be built; one
// that computes.
#include <set>

#include "cudnn_descriptors.h"
#include "machine.h"
#include "tasks.h"

namespace cuda_emulator {

namespace {

constexpr int kNondeterministic = 0, kUnbuildable = 1, kEngines = 3;
constexpr std::int64_t kWorkspace = 640;

/// All tensors of a graph, each once.
std::vector<TensorView> tensors_of(const Content& graph) {
  std::vector<TensorView> out;
  std::set<std::int64_t> seen;
  const auto add = [&](const Content& tensor) {
    const TensorView view(tensor);
    if (seen.insert(view.uid).second) out.push_back(view);
  };
  for (const Held& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    for (const Content* input : inputs_of(*operation)) add(*input);
    add(output_of(*operation));
  }
  return out;
}

/// As the fused kernels of cuDNN 9.19: from compute capability 8.0 on; two products forward, five backward; bf16
/// tensors in memory whose channels, a multiple of 8 and one behind the other, are at most 256, backward 128.
bool taken(const Content& graph) {
  if (Machine::get().settings.compute_major < 8) return false;
  int products = 0;
  for (const Held& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    products += operation->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR;
  }
  if (products != 2 && products != 5) return false;
  const std::int64_t most = products == 2 ? 256 : 128;
  for (const TensorView& tensor : tensors_of(graph)) {
    if (tensor.is_virtual || tensor.by_value || tensor.type != CUDNN_DATA_BFLOAT16) continue;
    const std::int64_t channels = tensor.strides[3] == 1 ? tensor.dims[3] : tensor.dims[2];
    if ((tensor.strides[3] != 1 && tensor.strides[2] != 1) || channels % 8 != 0 || channels > most) return false;
  }
  return true;
}

const Content& engine_of(const Content& plan) {
  return plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).child(CUDNN_ATTR_ENGINECFG_ENGINE);
}

std::size_t bytes_of(const TensorView& tensor) {
  return static_cast<std::size_t>(tensor.extent()) * (tensor.type == CUDNN_DATA_BFLOAT16 ? 2 : 4);
}

}  // namespace

std::vector<std::shared_ptr<Content>> propose(const Held& graph, const Content&) {
  std::vector<std::shared_ptr<Content>> out;
  for (int i = 0; i < kEngines && taken(*graph); ++i) {
    auto engine = std::make_shared<Content>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->finalized = true;
    engine->engine = i;
    engine->graph = graph;
    auto configuration = std::make_shared<Content>();
    configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    configuration->finalized = true;
    configuration->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {1, {}, {std::move(engine)}};
    out.push_back(std::move(configuration));
  }
  return out;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(const Content& engine) {
  if (engine.engine == kNondeterministic)
    return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
}

cudnnStatus_t build_plan(const Content& plan) {
  if (engine_of(plan).engine == kUnbuildable)
    return refused(CUDNN_STATUS_NOT_SUPPORTED, "an engine that takes the graph, but not today");
  return CUDNN_STATUS_SUCCESS;
}

std::int64_t workspace_of(const Content&) { return kWorkspace; }

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan_descriptor,
                                  cudnnBackendDescriptor_t pack_descriptor) {
  Machine& machine = Machine::get();
  if (machine.injected("cudnnBackendExecute") != cudaSuccess)
    return refused(CUDNN_STATUS_EXECUTION_FAILED, "cudnnBackendExecute fails");
  const Held plan = static_cast<CudnnDescriptor*>(plan_descriptor)->content,
             pack = static_cast<CudnnDescriptor*>(pack_descriptor)->content;
  if (!plan->finalized || !pack->finalized)
    return refused(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a plan or a pack that is not finalized");
  if (plan->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR || pack->type != CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) {
    return refused(CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "no plan, or no pack");
  }
  if (plan->child(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP).value<std::int32_t>(CUDNN_ATTR_DEVICEPROP_DEVICE_ID) !=
      handle->device) {
    return refused(CUDNN_STATUS_EXECUTION_FAILED, "a plan for another GPU");
  }
  const Content& engine = engine_of(*plan);
  const auto uids = pack->values<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack->values<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  Addresses addresses;
  for (std::size_t i = 0; i < uids.size(); ++i) addresses[uids[i]] = pointers[i];
  // Numbers of the host are taken in now, the rest when the stream comes to it.
  auto numbers = std::make_shared<std::map<std::int64_t, float>>();
  for (const TensorView& tensor : tensors_of(*engine.graph)) {
    if (tensor.is_virtual) continue;
    const auto given = addresses.find(tensor.uid);
    if (given == addresses.end() || !given->second) {
      return refused(CUDNN_STATUS_BAD_PARAM, "the pack lacks uid " + std::to_string(tensor.uid));
    }
    if (tensor.by_value) {
      const float number = *static_cast<const float*>(given->second);
      given->second = &((*numbers)[tensor.uid] = number);
    } else if (reinterpret_cast<std::uintptr_t>(given->second) % static_cast<std::uintptr_t>(tensor.alignment) != 0) {
      return refused(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
                     "uid " + std::to_string(tensor.uid) + " is not aligned");
    } else if (!on_device(given->second, bytes_of(tensor))) {
      return refused(CUDNN_STATUS_BAD_PARAM, "uid " + std::to_string(tensor.uid) + " does not lie in device memory");
    }
  }
  void* const workspace =
      pack->has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) ? pack->value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE) : nullptr;
  if (!on_device(workspace, kWorkspace))
    return refused(CUDNN_STATUS_BAD_PARAM, "the workspace does not lie in device memory");
  const cudaError_t error = queue_work(handle->stream, [plan, addresses, numbers, workspace, &machine] {
    float disturbance = 0;
    if (engine_of(*plan).engine == kNondeterministic) {
      const std::unique_lock lock(machine.mutex);
      disturbance = static_cast<float>(machine.random() % 1000) * 1e-4f;
    }
    run_operations(*engine_of(*plan).graph, addresses, {static_cast<std::byte*>(workspace), kWorkspace}, disturbance);
  });
  return error == cudaSuccess ? CUDNN_STATUS_SUCCESS
                              : refused(CUDNN_STATUS_EXECUTION_FAILED, "the stream can't take it");
}
