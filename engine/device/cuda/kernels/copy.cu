// Filling and moving: fill, pack and unpack. Several tensors go in one launch.
#include "engine/device/cuda/kernels/chunks.h"
#include "engine/device/cuda/kernels/dtypes.h"
#include "engine/device/cuda/kernels/kernels.h"
#include "engine/device/cuda/kernels/pack_grid.h"
#include "engine/device/cuda/launch.h"

namespace benchsuite::cuda {
namespace {

template <class T>
__global__ void fill_with(PackGrid grid, float value, T* y) {
  const PackPlace at = grid.place();
  if (at.left <= 0) return;
  Eight out;
#pragma unroll
  for (int i = 0; i < kPack; ++i) out.v[i] = value;
  store8(y + at.offset, out, at.left, grid.wide);
}

template <class T>
struct Copy {
  const T* from = nullptr;
  T* to = nullptr;
  std::int64_t count = 0;
  bool wide = false;
};

template <class T>
__global__ void copy_chunks(const ChunkTable<Copy<T>> table) {
  const ChunkPlace at = table.place(blockIdx.x);
  const Copy<T>& copy = table.items[at.item];
  for_each_pack_of_chunk(at.first, copy.count, [&](std::int64_t offset, std::int64_t left) {
    // Not by way of fp32: bits stay what they are.
    if (copy.wide && left >= kPack) {
      Raw8<T>::from_memory(copy.from + offset).to_memory(copy.to + offset);
      return;
    }
#pragma unroll
    for (int i = 0; i < kPack; ++i) {
      if (i < left) copy.to[offset + i] = copy.from[offset + i];
    }
  });
}

/// Copies between `whole` (an operand of dims n) and the `parts`, operands first .. first + parts - 1 in order.
template <class T, class MakeCopy>
void copy_parts(const KernelCall& call, std::size_t first, std::size_t parts, MakeCopy make) {
  ChunkLauncher<Copy<T>> launcher([&](const ChunkTable<Copy<T>>& table, unsigned chunks) {
    launch(copy_chunks<T>, chunks, kChunkThreads, call.stream, table);
  });
  std::int64_t at = 0;
  for (std::size_t part = first; part < first + parts; ++part) {
    const std::int64_t count = call.elements(part, call.shape.dtype);
    CHECK(at + count <= call.dim(0)) << name_of(call.shape.kind) << ": parts exceed " << call.dim(0) << " elements";
    Copy<T> copy = make(call.operand<T>(part, count), at);
    copy.count = count;
    copy.wide = wide_access(1, count, {copy.from, copy.to});
    launcher.add(copy, count);
    at += count;
  }
  CHECK(at == call.dim(0)) << name_of(call.shape.kind) << ": parts have " << at << " elements, the whole "
                           << call.dim(0);
  launcher.finish();
}

}  // namespace

void fill(const KernelCall& call) {
  call.expect_operands(1);
  with_type(call.shape.out_dtype, [&](auto type) {
    using T = decltype(type);
    T* y = call.operand<T>(0, call.dim(0));
    const PackGrid grid(1, call.dim(0), wide_access(1, call.dim(0), {y}));
    if (grid.empty()) return;
    launch(fill_with<T>, grid.blocks(), grid.threads(), call.stream, grid, call.scalar(0), y);
  });
}

void pack(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "pack takes at least one input and an output";
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const std::size_t inputs = call.operands.size() - 1;
    T* y = call.operand<T>(inputs, call.dim(0));
    copy_parts<T>(call, 0, inputs, [&](T* part, std::int64_t at) { return Copy<T>{.from = part, .to = y + at}; });
  });
}

void unpack(const KernelCall& call) {
  CHECK(call.operands.size() >= 2) << "unpack takes an input and at least one output";
  with_one_type(call, [&](auto type) {
    using T = decltype(type);
    const T* x = call.operand<const T>(0, call.dim(0));
    copy_parts<T>(call, 1, call.operands.size() - 1,
                  [&](T* part, std::int64_t at) { return Copy<T>{.from = x + at, .to = part}; });
  });
}

}  // namespace benchsuite::cuda
