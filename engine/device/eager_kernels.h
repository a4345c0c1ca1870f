// What a framework launches for an op that it has no fused kernel for (OpShape::eager): one kernel an elementary operation,
// each reading and writing its operands in device memory. Which ops are eager is the stack's to say (fused_* of
// engine/parallel/stack.h); the lists of kernels are those of the software named beside each.
#pragma once

#include "engine/program/op.h"

namespace benchsuite {

struct EagerKernels {
  int kernels = 1;
  double bytes = 0;      ///< of all of them together: every operand of every kernel once, one that repeats over others not at all
  double broadcast = 0;  ///< of these, by 16-bit elementwise kernels with an operand that repeats or isn't contiguous
  double softmax = 0;    ///< of these, by softmax and its gradient
};

/// Of an op marked eager; for any other one kernel and bytes_of(shape).
EagerKernels eager_kernels(const OpShape& shape);

/// Kernels that the host launches for the op one by one, OpShape::extra_kernels included. 1 for communication.
int launches_of(const OpShape& shape);

}  // namespace benchsuite
