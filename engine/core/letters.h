// The one table of dimension letters, used the same way in code, comments and reports.
//
//   s  sequence length (tokens)            b  micro-batch size (samples)
//   h  hidden size                         f  feed-forward hidden size (4h for GPT)
//   a  attention heads                     d  head size, h / a (data-parallel size where no head is near)
//   u  key-value heads, each serving a/u query heads (a where every head has its own)
//   L  transformer layers                  V  vocabulary rows, padded to a multiple of 128 t
//   p  pipeline-parallel size              r  pipeline rank (stage), 0 .. p-1
//   v  model chunks per pipeline rank      c  chunk, 0 .. v-1
//   m  micro-batches per step and replica  i  micro-batch, 0 .. m-1
//   g  micro-batch group of the interleaved schedule
//   t  tensor-parallel size                X  elements of one activation tensor, s b h
//   N  parameters held by one rank
//
// Activations are [s, b, h] with s outermost, so that a sequence-parallel shard is contiguous
// and an all-gather along s is a concatenation. Times are int64 picoseconds, sizes are bytes.
#pragma once

#include <cstdint>

namespace benchsuite {

/// Virtual or measured time in picoseconds (int64 reaches 106 days).
using Picoseconds = std::int64_t;

inline constexpr double kSecondsPerPicosecond = 1e-12;

}  // namespace benchsuite
