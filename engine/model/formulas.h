// Closed formulas for what a rank saves, holds and sends in one step: the yardstick of the recorded Programs.
//
// They are written from the papers, not from the recorder, and share no code with it, nor with the schedules.
//   saved activations   Korthikanti et al. 2022 (arXiv:2205.05198), sections 4 and 5, tables 2 and 3
//   model states        Rajbhandari et al. 2020 (ZeRO), section 3; Megatron-core's distributed optimizer
//   communication       ring algorithms; Megatron-core's tensor, sequence, pipeline and data parallelism
// All sizes are bytes per rank of the stage, all counts per step and rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/parallel/layout.h"
#include "engine/parallel/stack.h"
#include "engine/program/program.h"

namespace benchsuite {

struct BytesTerm {
  std::string name;
  double bytes = 0;
  std::string formula;
};

/// Activations kept from forward to backward.
struct SavedActivations {
  std::vector<BytesTerm> layer;       ///< of one layer that is not fully recomputed, one micro-batch
  double layer_bytes = 0;             ///< their sum
  double input_bytes = 0;             ///< one layer input: what full recompute keeps in place of a layer
  double chunk_bytes = 0;             ///< of one model chunk, one micro-batch, under the recompute policy
  std::int64_t chunks_in_flight = 0;  ///< chunk-forwards awaiting their backward, at the most
  double transient_bytes = 0;      ///< made again while backward runs: the layers recomputed at once, less their input
  double layers_total = 0;         ///< chunk_bytes x chunks_in_flight: what figure 1 of the paper plots. Of a stage with several
                                   ///< chunks of which one is lighter, at their peak: with outside_bytes an upper bound
  std::vector<BytesTerm> outside;  ///< embedding and head, of all micro-batches in flight
  double outside_bytes = 0;
};

/// The paper's formula generalised to any ffn_hidden, element size e (2 for 16 bit), mask storage, no dropout, and to Llama's
/// layer: keys and values of u heads, gate and up in place of the GELU input. In-place rotation keeps nothing. With flash
/// attention the matrices [b, a, s, s] do not exist; its row statistics are not part of the formula. Layernorm
/// statistics, which the paper neglects, are not either.
///
/// Fails (internal) when the layout is not valid for the model.
SavedActivations saved_activations(const ModelConfig& model, const Layout& layout, const Stack& stack,
                                   std::int64_t stage);

/// Bytes of parameter, gradient, master copy and Adam moments for each parameter: 18 for 16-bit parameters with fp32
/// gradients, 6 + 12/d when the optimizer state is sharded (ZeRO-1); 16 and 8 + 8/d in fp32, which needs no master
/// copy.
double state_bytes_per_parameter(const Layout& layout, const Stack& stack);

/// What one rank sends by one kind of op at one place.
struct Volume {
  GroupKind group{};
  OpKind op{};
  Site site{};
  bool recomputed = false;
  double bytes = 0;         ///< sent per step on a ring; -1: no closed formula
  std::int64_t calls = -1;  ///< -1: depends on the buckets
  std::string formula;      ///< in letters; bytes of an element: e of activations, o of products' operands where they are cast, w of gradients
};

/// Every volume that is not zero. The scalars of loss, norm and clipping are left out.
std::vector<Volume> communication_volumes(const ModelConfig& model, const Layout& layout, const Stack& stack,
                                          std::int64_t stage);

/// Sum of the bytes that match.
double sum_bytes(const std::vector<Volume>& volumes, GroupKind group, OpKind op, bool recomputed);

}  // namespace benchsuite
