// The gathers and scatters of sequence parallelism in t pieces, so that a product in t tiles can run beside them (Wang et al.,
// ASPLOS 2023; Transformer Engine's userbuffers, method ring_exchange).
//
// Gather: pieces travel round the ring. Rank r has its own at once; the piece of rank r - i is there after i steps, and its tile
// of the product needs nothing else.
// Scatter: rank r computes the tile that rank r + i needs and sends it there while it computes the next, its own last; what it
// receives it adds in rank order, as a reduce-scatter does.
//
// Every piece is a part of one buffer, with waits of its own (Recorder::allocate_in_parts). The exchanges are copies between
// GPUs that occupy no SM.
#pragma once

#include "engine/parallel/context.h"

namespace benchsuite {

class GatherInTiles {
 public:
  /// x [s/t, b, h]: this rank's piece, which stays with the caller. Posts all exchanges. With `keeps_whole` the own piece is
  /// copied beside the others, so that whole() can be read.
  GatherInTiles(ParallelContext& context, const Tensor& x, std::uint32_t term, bool keeps_whole);

  /// The piece that arrives in `step` of t steps, and whose it is.
  Tensor piece(std::int64_t step) const;
  std::int64_t owner(std::int64_t step) const;

  /// [s, b, h]; only with `keeps_whole`.
  const Tensor& whole() const { return whole_; }
  void release();

 private:
  Tensor slot(std::int64_t owner) const;

  ParallelContext& context_;
  Tensor own_, whole_;
};

class ScatterInTiles {
 public:
  /// Of tiles [s/t, b, width].
  ScatterInTiles(ParallelContext& context, const std::array<std::int64_t, 4>& tile, DType dtype, std::uint32_t sent,
                 std::uint32_t received, std::uint32_t result);

  /// The rank within the tensor group whose tile is computed in `step` of t steps.
  std::int64_t destination(std::int64_t step) const;
  /// Where that tile goes.
  Tensor tile(std::int64_t step) const;
  /// The tile of `step` is recorded: sends it, unless it is the last, this rank's own.
  void send(std::int64_t step);
  /// All tiles are recorded: their sum over ranks [s/t, b, width].
  Tensor finish();

 private:
  ParallelContext& context_;
  std::array<std::int64_t, 4> shape_;
  std::uint32_t result_;
  Tensor sent_;      // [t - 1, tile] by step
  Tensor received_;  // [t, tile] by source
};

/// `count` equal pieces of x along its second dimension: piece `index`.
Tensor piece_along_sequence(const Tensor& x, std::int64_t count, std::int64_t index);

}  // namespace benchsuite
