// From the dtypes of an op's shape to the element types of a kernel.
#pragma once

#include <cuda_bf16.h>

#include "engine/core/error.h"
#include "engine/device/cuda/kernels/kernel_call.h"

namespace benchsuite::cuda {

/// body(T{}) where T is the element type of `type`.
template <class Body>
void with_type(DType type, Body body) {
  CHECK(type == DType::fp32 || type == DType::bf16)
      << "device cuda computes in fp32 and bf16, not in " << name_of(type);
  if (type == DType::bf16) {
    body(__nv_bfloat16{});
  } else {
    body(float{});
  }
}

/// The same for an op whose inputs and output have one type.
template <class Body>
void with_one_type(const KernelCall& call, Body body) {
  CHECK(call.shape.dtype == call.shape.out_dtype)
      << name_of(call.shape.kind) << " on device cuda from " << name_of(call.shape.dtype) << " to "
      << name_of(call.shape.out_dtype);
  with_type(call.shape.dtype, body);
}

/// The type of a gradient accumulator of `elements`, told by its size.
inline DType accumulator_type(const KernelCall& call, std::size_t index, std::int64_t elements) {
  return call.bytes(index) == static_cast<std::uint64_t>(elements) * sizeof(__nv_bfloat16) ? DType::bf16 : DType::fp32;
}

}  // namespace benchsuite::cuda
