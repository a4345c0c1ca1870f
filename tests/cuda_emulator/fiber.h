// A stack that can be left in the middle of a function and entered again. Switching costs a few nanoseconds on x86-64 (no
// system call); elsewhere it is ucontext.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace cuda_emulator {

class Fiber {
 public:
  Fiber() = default;  ///< of the calling thread's own stack
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next switch to this fiber calls `entry`, which must never return.
  void begin(void (*entry)());
  /// Leaves `from`, whose stack we are on, and goes on in `to`.
  static void change(Fiber& from, Fiber& to);

 private:
  void* stack_ = nullptr;
  std::size_t bytes_ = 0;
  void* shadow_ = nullptr;  // AddressSanitizer's
#if defined(__x86_64__)
  void* pointer_ = nullptr;
#else
  ucontext_t context_{};
#endif
};

/// The first thing an entry function does.
void arrived_on_fiber();

}  // namespace cuda_emulator
