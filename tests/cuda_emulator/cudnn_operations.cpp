// Runs a graph of cuDNN's operations on the CPU, one after another, in fp32; what lies between operations is rounded to
// its type.
#include <cuda_bf16.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cudnn_descriptors.h"

namespace cuda_emulator {

namespace {

using Place = std::array<std::int64_t, 4>;

float rounded(float value, cudnnDataType_t type) {
  return type == CUDNN_DATA_BFLOAT16 ? __bfloat162float(__float2bfloat16_rn(value)) : value;
}

/// Calls `body` with every place of a tensor, last dimension fastest.
template <class Body>
void each_place(const std::array<std::int64_t, 4>& dims, Body body) {
  Place at{};
  for (at[0] = 0; at[0] < dims[0]; ++at[0])
    for (at[1] = 0; at[1] < dims[1]; ++at[1])
      for (at[2] = 0; at[2] < dims[2]; ++at[2])
        for (at[3] = 0; at[3] < dims[3]; ++at[3]) body(at);
}

class Run {
 public:
  Run(const Addresses& addresses, float disturbance) : addresses_(addresses), disturbance_(disturbance) {}

  void operation(const Content& operation) {
    switch (operation.type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        return matmul(operation);
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        return reduction(operation);
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        return reshape(operation);
      default:
        return pointwise(operation);
    }
  }

 private:
  /// A tensor's values: where it lies, or, of one between operations, here.
  class Values {
   public:
    Values(const TensorView& view, Run& run) : view_(view) {
      if (view.is_virtual) {
        between_ = &run.between_[view.uid];
        between_->resize(static_cast<std::size_t>(view.extent()));
      } else {
        memory_ = run.addresses_.at(view.uid);
        disturbance_ = run.disturbance_;
      }
    }
    /// Dimensions of 1 stand for any index.
    float at(Place place) const {
      for (std::size_t i = 0; i < place.size(); ++i) place[i] = view_.dims[i] == 1 ? 0 : place[i];
      const std::int64_t offset = view_.offset(place);
      if (between_) return (*between_)[static_cast<std::size_t>(offset)];
      return view_.type == CUDNN_DATA_BFLOAT16 ? __bfloat162float(static_cast<const __nv_bfloat16*>(memory_)[offset])
                                               : static_cast<const float*>(memory_)[offset];
    }
    void set(const Place& place, float value) {
      const std::int64_t offset = view_.offset(place);
      if (between_) {
        (*between_)[static_cast<std::size_t>(offset)] = rounded(value, view_.type);
      } else if (view_.type == CUDNN_DATA_BFLOAT16) {
        static_cast<__nv_bfloat16*>(memory_)[offset] = __float2bfloat16_rn(value + disturbance_);
      } else {
        static_cast<float*>(memory_)[offset] = value + disturbance_;
      }
    }
    const TensorView& view() const { return view_; }

   private:
    const TensorView view_;
    std::vector<float>* between_ = nullptr;
    void* memory_ = nullptr;
    float disturbance_ = 0;
  };
  Values values(const Content& tensor) { return {TensorView(tensor), *this}; }

  void matmul(const Content& operation) {
    const Values a = values(operation.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                 b = values(operation.child(CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    Values c = values(operation.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC));
    // The tensor cores multiply what is stored: a factor that was computed in fp32 is rounded to the other's type.
    const cudnnDataType_t factors = b.view().type;
    const std::int64_t shared = a.view().dims[1] / b.view().dims[1];
    each_place(c.view().dims, [&](const Place& at) {
      float sum = 0;
      for (std::int64_t k = 0; k < a.view().dims[3]; ++k) {
        sum += rounded(a.at({at[0], at[1], at[2], k}), factors) * b.at({at[0], at[1] / shared, k, at[3]});
      }
      c.set(at, sum);
    });
  }

  void pointwise(const Content& operation) {
    const Content& how = operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = how.value<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    std::vector<Values> in;
    for (const Content* input : inputs_of(operation)) in.push_back(values(*input));
    Values y = values(output_of(operation));
    each_place(y.view().dims, [&](const Place& at) {
      const float x = mode == CUDNN_POINTWISE_GEN_INDEX ? 0 : in[0].at(at);
      switch (mode) {
        case CUDNN_POINTWISE_ADD:
          return y.set(at, x + in[1].at(at));
        case CUDNN_POINTWISE_SUB:
          return y.set(at, x - in[1].at(at));
        case CUDNN_POINTWISE_MUL:
          return y.set(at, x * in[1].at(at));
        case CUDNN_POINTWISE_DIV:
          return y.set(at, x / in[1].at(at));
        case CUDNN_POINTWISE_EXP:
          return y.set(at, std::exp(x));
        case CUDNN_POINTWISE_LOG:
          return y.set(at, std::log(x));
        case CUDNN_POINTWISE_CMP_GT:
          return y.set(at, x > in[1].at(at) ? 1.0f : 0.0f);
        case CUDNN_POINTWISE_CMP_GE:
          return y.set(at, x >= in[1].at(at) ? 1.0f : 0.0f);
        case CUDNN_POINTWISE_BINARY_SELECT:
          return y.set(at, in[2].at(at) != 0 ? x : in[1].at(at));
        case CUDNN_POINTWISE_GEN_INDEX:
          return y.set(
              at, static_cast<float>(at[static_cast<std::size_t>(how.value<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS))]));
      }
    });
  }

  void reduction(const Content& operation) {
    const auto how = operation.child(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                         .value<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    const Values x = values(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_XDESC));
    Values y = values(operation.child(CUDNN_ATTR_OPERATION_REDUCTION_YDESC));
    std::array<std::int64_t, 4> over{};
    for (std::size_t i = 0; i < over.size(); ++i) over[i] = y.view().dims[i] == 1 ? x.view().dims[i] : 1;
    each_place(y.view().dims, [&](const Place& at) {
      float result = how == CUDNN_REDUCE_TENSOR_MAX ? -std::numeric_limits<float>::infinity() : 0;
      each_place(over, [&](const Place& step) {
        const float value = x.at({at[0] + step[0], at[1] + step[1], at[2] + step[2], at[3] + step[3]});
        result = how == CUDNN_REDUCE_TENSOR_MAX ? std::fmax(result, value) : result + value;
      });
      y.set(at, result);
    });
  }

  /// The same elements under other dimensions: those that lie at the same place of the strided tensor. All our reshapes
  /// exchange rows and columns.
  void reshape(const Content& operation) {
    const Values x = values(operation.child(CUDNN_ATTR_OPERATION_RESHAPE_XDESC));
    Values y = values(operation.child(CUDNN_ATTR_OPERATION_RESHAPE_YDESC));
    each_place(y.view().dims, [&](const Place& at) { y.set(at, x.at({at[0], at[1], at[3], at[2]})); });
  }

  const Addresses& addresses_;
  const float disturbance_;
  std::map<std::int64_t, std::vector<float>> between_;
};

}  // namespace

void run_operations(const Content& graph, const Addresses& addresses, std::span<std::byte> workspace,
                    float disturbance) {
  Run run(addresses, disturbance);
  for (const Held& operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).descriptors) {
    std::memset(workspace.data(), 0xA5, workspace.size());
    run.operation(*operation);
  }
}

}  // namespace cuda_emulator
