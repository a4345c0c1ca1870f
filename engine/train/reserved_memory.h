// What a PyTorch process reserves of the device over the first steps of a training: the Program's buffers, in the order in which the
// process allocates and frees them, through the caching allocator's rules (engine/program/caching_allocator.h).
//
// Parameters and master weights are there from the start. Adam's moments are allocated when the optimizer first runs
// (torch/optim/adamw.py), so the first step and the second differ. Gradients that autograd makes (Stack::gradients_of_autograd)
// are the products of a step's first micro-batch, kept until the optimizer has taken them; later ones are added and dropped.
#pragma once

#include <cstdint>

#include "engine/parallel/stack.h"
#include "engine/program/program.h"

namespace benchsuite {

struct ReservedMemory {
  std::uint64_t allocated_bytes = 0;  ///< most at once, in whole blocks (torch.cuda.max_memory_allocated)
  std::uint64_t reserved_bytes = 0;   ///< most at once (torch.cuda.max_memory_reserved); until memory ran out
  bool fits = true;                   ///< memory never ran out, not even after what was cached had gone back
};

/// `capacity`: bytes of the device that the allocator can have.
ReservedMemory reserve_memory(const Program& program, const Stack& stack, std::uint64_t capacity);

}  // namespace benchsuite
