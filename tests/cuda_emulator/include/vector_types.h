// CUDA's short vectors, with its alignments: a misaligned wide access shows under UndefinedBehaviorSanitizer.
#pragma once

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct uint3 {
  unsigned x, y, z;
};
struct int3 {
  int x, y, z;
};
struct float3 {
  float x, y, z;
};

#define CUDA_EMULATOR_VECTORS(T, name)                                                            \
  struct alignas(2 * sizeof(T)) name##2 {                                                         \
    T x, y;                                                                                       \
  };                                                                                              \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {                               \
    T x, y, z, w;                                                                                 \
  };                                                                                              \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }                                   \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

CUDA_EMULATOR_VECTORS(float, float)
CUDA_EMULATOR_VECTORS(double, double)
CUDA_EMULATOR_VECTORS(int, int)
CUDA_EMULATOR_VECTORS(unsigned, uint)
CUDA_EMULATOR_VECTORS(short, short)
CUDA_EMULATOR_VECTORS(unsigned short, ushort)
CUDA_EMULATOR_VECTORS(signed char, char)
CUDA_EMULATOR_VECTORS(unsigned char, uchar)
CUDA_EMULATOR_VECTORS(long long, longlong)
CUDA_EMULATOR_VECTORS(unsigned long long, ulonglong)
#undef CUDA_EMULATOR_VECTORS

constexpr uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
