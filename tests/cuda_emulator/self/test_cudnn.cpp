// The emulated cuDNN refuses what the library refuses.
#include <cuda_runtime.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <vector>

#include "tests/cuda_emulator/emulator.h"

namespace {

/// A descriptor, with what most tests set.
class Owned {
 public:
  explicit Owned(cudnnBackendDescriptorType_t type) { cudnnBackendCreateDescriptor(type, &handle_); }
  ~Owned() { cudnnBackendDestroyDescriptor(handle_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  template <class T>
  cudnnStatus_t set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const std::vector<T>& values) {
    return cudnnBackendSetAttribute(handle_, name, type, static_cast<std::int64_t>(values.size()), values.data());
  }
  cudnnStatus_t set(cudnnBackendAttributeName_t name, const Owned& other) {
    return cudnnBackendSetAttribute(handle_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.handle_);
  }
  cudnnStatus_t finalize() { return cudnnBackendFinalize(handle_); }
  cudnnBackendDescriptor_t get() const { return handle_; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

using Four = std::vector<std::int64_t>;

class Tensor : public Owned {
 public:
  Tensor(std::int64_t uid, const Four& dims, cudnnDataType_t type = CUDNN_DATA_FLOAT, bool is_virtual = false)
      : Owned(CUDNN_BACKEND_TENSOR_DESCRIPTOR) {
    const std::int64_t alignment = 16;
    set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Four{uid});
    set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
    set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
    set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, Four{dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1});
    set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Four{alignment});
    cudnnBackendSetAttribute(get(), CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  }
};

class Pointwise : public Owned {
 public:
  Pointwise(cudnnPointwiseMode_t mode, const Owned& x, const Owned* b, const Owned& y)
      : Owned(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) {
    how_.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
    how_.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    how_.finalize();
    set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how_);
    set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  }

 private:
  Owned how_{CUDNN_BACKEND_POINTWISE_DESCRIPTOR};
};

TEST(EmulatedCudnn, AttributesOfAnotherTypeCountOrDescriptorAreRefused) {
  Owned tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT}),
            CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, Four{1, 2, 3}),
            CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A}),
            CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(cudnnBackendSetAttribute(tensor.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, nullptr),
            CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  char words[8] = {};
  cudnnGetLastErrorString(words, sizeof words);
  EXPECT_STREQ(words, "attribu") << "cut to what fits";
}

TEST(EmulatedCudnn, WhatIsNotFinalizedCannotBeUsed) {
  Owned unfinished(CUDNN_BACKEND_TENSOR_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  EXPECT_EQ(operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, unfinished), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(operation.finalize(), CUDNN_STATUS_BAD_PARAM) << "without its tensors";
  Tensor tensor(1, {1, 1, 2, 2});
  EXPECT_EQ(tensor.finalize(), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Four{2}), CUDNN_STATUS_NOT_INITIALIZED)
      << "it is finalized";
  Owned plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, tensor), CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  std::int64_t bytes = 0, count = 0;
  EXPECT_EQ(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                     &bytes),
            CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(cudnnBackendExecute(nullptr, plan.get(), plan.get()), CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
}

TEST(EmulatedCudnn, PlansBelongToAGpu) {
  cuda_emulator::reset({.devices = 2});
  Owned gpu(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  gpu.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::vector{2});
  EXPECT_EQ(gpu.finalize(), CUDNN_STATUS_BAD_PARAM) << "there are two";
}

TEST(EmulatedCudnn, ShapesThatDoNotFitAreRefused) {
  EXPECT_EQ(Tensor(1, {1, 1, 0, 2}).finalize(), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  Tensor a(1, {2, 2, 3, 4}), b(2, {2, 1, 4, 5}), c(3, {2, 2, 3, 5}), wrong(4, {2, 2, 4, 5});
  for (Owned* each :
       {static_cast<Owned*>(&a), static_cast<Owned*>(&b), static_cast<Owned*>(&c), static_cast<Owned*>(&wrong)})
    each->finalize();
  Owned how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
  how.finalize();
  for (const auto& [to, status] :
       {std::pair{&c, CUDNN_STATUS_SUCCESS}, {&wrong, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH}}) {
    Owned product(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    product.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    product.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    product.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    product.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, *to);
    EXPECT_EQ(product.finalize(), status);
  }
  EXPECT_EQ(Pointwise(CUDNN_POINTWISE_ADD, a, &c, c).finalize(), CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
  EXPECT_EQ(Pointwise(CUDNN_POINTWISE_ADD, a, nullptr, a).finalize(), CUDNN_STATUS_BAD_PARAM) << "an addition of one";
  EXPECT_EQ(Pointwise(CUDNN_POINTWISE_EXP, a, &a, a).finalize(), CUDNN_STATUS_BAD_PARAM) << "an exponential of two";
  EXPECT_EQ(Pointwise(CUDNN_POINTWISE_CMP_GE, a, &a, a).finalize(), CUDNN_STATUS_BAD_PARAM)
      << "a comparison that gives numbers";
  EXPECT_EQ(Pointwise(CUDNN_POINTWISE_EXP, a, nullptr, a).finalize(), CUDNN_STATUS_SUCCESS);
}

TEST(EmulatedCudnn, GraphsWithHolesAreRefused) {
  Tensor x(1, {1, 1, 2, 2}), between(2, {1, 1, 2, 2}, CUDNN_DATA_FLOAT, true), y(3, {1, 1, 2, 2}),
      twin(1, {1, 1, 2, 2});
  for (Owned* each :
       {static_cast<Owned*>(&x), static_cast<Owned*>(&between), static_cast<Owned*>(&y), static_cast<Owned*>(&twin)})
    each->finalize();
  Pointwise first(CUDNN_POINTWISE_EXP, x, nullptr, between), second(CUDNN_POINTWISE_LOG, between, nullptr, y),
      third(CUDNN_POINTWISE_EXP, twin, nullptr, y);
  for (Owned* each : {static_cast<Owned*>(&first), static_cast<Owned*>(&second), static_cast<Owned*>(&third)})
    ASSERT_EQ(each->finalize(), CUDNN_STATUS_SUCCESS);
  const auto graph_of = [](const std::vector<cudnnBackendDescriptor_t>& operations) {
    Owned graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
    return graph.finalize();
  };
  EXPECT_EQ(graph_of({first.get(), second.get()}), CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(graph_of({second.get()}), CUDNN_STATUS_BAD_PARAM) << "reads what nothing has written";
  EXPECT_EQ(graph_of({first.get(), second.get(), second.get()}), CUDNN_STATUS_BAD_PARAM) << "writes twice";
  EXPECT_EQ(graph_of({first.get(), third.get()}), CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES)
      << "two tensors of one uid";
}

/// Q [1, 1, 4, 8] times K^T, exponentials in bf16 times V: as little as an engine takes. Uids 1 (q), 2 (k), 3 (v), 4
/// (out).
class TwoProducts {
 public:
  TwoProducts() {
    cudnnCreate(&handle_);
    keys_.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, Four{32, 32, 1, 8});
    for (Owned* each : {static_cast<Owned*>(&q_), static_cast<Owned*>(&keys_), static_cast<Owned*>(&v_),
                        static_cast<Owned*>(&out_), static_cast<Owned*>(&scores_), static_cast<Owned*>(&powers_)}) {
      each->finalize();
    }
    how_.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
    how_.finalize();
    product(first_, q_, keys_, scores_);
    product(second_, powers_, v_, out_);
    power_.emplace(CUDNN_POINTWISE_EXP, scores_, nullptr, powers_);
    EXPECT_EQ(power_->finalize(), CUDNN_STATUS_SUCCESS);
    graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
               std::vector{first_.get(), power_->get(), second_.get()});
    graph_.finalize();
    gpu_.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::vector{0});
    gpu_.finalize();
    heuristic_.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
    heuristic_.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{CUDNN_HEUR_MODE_A});
    heuristic_.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, gpu_);
    heuristic_.finalize();
    cudnnBackendDescriptor_t found[] = {configurations_[0].get(), configurations_[1].get(), configurations_[2].get()};
    std::int64_t count = 0;
    EXPECT_EQ(cudnnBackendGetAttribute(heuristic_.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       3, &count, found),
              CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(count, 3);
  }
  ~TwoProducts() { cudnnDestroy(handle_); }

  cudnnStatus_t build(Owned& plan, std::size_t which) {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations_[which]);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu_);
    return plan.finalize();
  }
  cudnnStatus_t run(const Owned& plan, const Four& uids, const std::vector<void*>& addresses, void* workspace) {
    Owned pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses);
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
    const cudnnStatus_t status = pack.finalize();
    return status == CUDNN_STATUS_SUCCESS ? cudnnBackendExecute(handle_, plan.get(), pack.get()) : status;
  }
  cudnnHandle_t handle() const { return handle_; }

 private:
  void product(Owned& operation, const Owned& a, const Owned& b, const Owned& c) {
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how_);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    EXPECT_EQ(operation.finalize(), CUDNN_STATUS_SUCCESS);
  }

  cudnnHandle_t handle_ = nullptr;
  Tensor q_{1, {1, 1, 4, 8}, CUDNN_DATA_BFLOAT16}, keys_{2, {1, 1, 8, 4}, CUDNN_DATA_BFLOAT16},
      v_{3, {1, 1, 4, 8}, CUDNN_DATA_BFLOAT16}, out_{4, {1, 1, 4, 8}, CUDNN_DATA_BFLOAT16},
      scores_{5, {1, 1, 4, 4}, CUDNN_DATA_FLOAT, true}, powers_{6, {1, 1, 4, 4}, CUDNN_DATA_BFLOAT16, true};
  Owned how_{CUDNN_BACKEND_MATMUL_DESCRIPTOR}, first_{CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR},
      second_{CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR};
  std::optional<Pointwise> power_;
  Owned graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR}, gpu_{CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR},
      heuristic_{CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR};
  std::array<Owned, 3> configurations_{Owned(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                       Owned(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                                       Owned(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)};
};

TEST(EmulatedCudnn, PacksThatDoNotFitTheirPlanAreRefused) {
  cuda_emulator::reset({.pace = cuda_emulator::Pace::late});
  TwoProducts two;
  Owned unbuildable(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  EXPECT_EQ(two.build(unbuildable, 1), CUDNN_STATUS_NOT_SUPPORTED);
  ASSERT_EQ(two.build(plan, 2), CUDNN_STATUS_SUCCESS);
  void* memory = nullptr;
  cudaMalloc(&memory, 4096);
  cudaMemset(memory, 0, 4096);
  char* const at = static_cast<char*>(memory);
  void* const workspace = at + 1024;
  EXPECT_EQ(two.run(plan, {1, 2, 3}, {at, at, at}, workspace), CUDNN_STATUS_BAD_PARAM) << "uid 4 is missing";
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at, at}, workspace), CUDNN_STATUS_BAD_PARAM) << "an address is missing";
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at, at + 2, at + 64}, workspace),
            CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at, at, at + 4096 - 32}, workspace), CUDNN_STATUS_BAD_PARAM)
      << "ends behind its allocation";
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at, at, at + 64}, nullptr), CUDNN_STATUS_BAD_PARAM) << "no workspace";
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at, at, at + 512}, workspace), CUDNN_STATUS_SUCCESS);
  cudaStreamSynchronize(nullptr);
  cudaFree(memory);
}

TEST(EmulatedCudnn, PlansRunWhenTheirStreamComesToThem) {
  cuda_emulator::reset({.pace = cuda_emulator::Pace::late});
  TwoProducts two;
  Owned plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  ASSERT_EQ(two.build(plan, 2), CUDNN_STATUS_SUCCESS);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  cudnnSetStream(two.handle(), stream);
  void* memory = nullptr;
  cudaMalloc(&memory, 4096);
  char* const at = static_cast<char*>(memory);
  // Scores of 0, so that exponentials are 1: each output is the sum of V's four rows of 1.5.
  cudaMemsetAsync(at, 0, 1024, stream);
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at + 64, at + 128, at + 192}, at + 2048), CUDNN_STATUS_SUCCESS);
  std::vector<std::uint16_t> values(32, 0x3FC0);
  cudaMemcpyAsync(at + 128, values.data(), 64, cudaMemcpyHostToDevice, stream);
  EXPECT_EQ(two.run(plan, {1, 2, 3, 4}, {at, at + 64, at + 128, at + 256}, at + 2048), CUDNN_STATUS_SUCCESS);
  std::vector<std::uint16_t> before(32), after(32);
  cudaMemcpyAsync(before.data(), at + 192, 64, cudaMemcpyDeviceToHost, stream);
  cudaMemcpyAsync(after.data(), at + 256, 64, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(before, std::vector<std::uint16_t>(32, 0));
  EXPECT_EQ(after, std::vector<std::uint16_t>(32, 0x40C0)) << "6";
  cudaStreamDestroy(stream);
  cudaFree(memory);
}

}  // namespace
