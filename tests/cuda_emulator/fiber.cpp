#include "fiber.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace cuda_emulator {

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kStack = std::size_t{512} << 10;  // instrumented frames are larger
// AddressSanitizer wants the bounds of the stack it goes to: those of the thread's own stack are known once it has been left.
thread_local const void* own_bottom = nullptr;
thread_local std::size_t own_bytes = 0;
thread_local bool leaves_own = false;
#else
constexpr std::size_t kStack = std::size_t{128} << 10;
#endif

#if defined(__x86_64__)
extern "C" void cuda_emulator_switch(void** save, void* load);
// Saves what the System V ABI lets a callee keep, changes stacks, restores.
asm(R"(
.text
.globl cuda_emulator_switch
.type cuda_emulator_switch, @function
cuda_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_emulator_switch, .-cuda_emulator_switch
.section .note.GNU-stack,"",@progbits
.text
)");
#endif

}  // namespace

Fiber::~Fiber() {
  if (stack_) munmap(stack_, bytes_);
}

void Fiber::begin(void (*entry)()) {
  if (!stack_) {
    bytes_ = kStack;
    stack_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) throw std::bad_alloc();
  }
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(stack_, bytes_);  // frames of a kernel that was given up
  shadow_ = nullptr;
#endif
#if defined(__x86_64__)
  // Six registers and the function to return to; as after a call, the stack is then 8 bytes off a multiple of 16, with no
  // caller above.
  auto* top = reinterpret_cast<void**>(static_cast<char*>(stack_) + bytes_ - 72);
  *top = nullptr;
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  pointer_ = top;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_;
  context_.uc_stack.ss_size = bytes_;
  context_.uc_link = nullptr;
  makecontext(&context_, entry, 0);
#endif
}

void Fiber::change(Fiber& from, Fiber& to) {
#if defined(__SANITIZE_ADDRESS__)
  leaves_own = !from.stack_;
  const void* bottom = to.stack_ ? to.stack_ : own_bottom;
  const std::size_t bytes = to.stack_ ? to.bytes_ : own_bytes;
  __sanitizer_start_switch_fiber(&from.shadow_, bottom, bytes);
#endif
#if defined(__x86_64__)
  cuda_emulator_switch(&from.pointer_, to.pointer_);
#else
  swapcontext(&from.context_, &to.context_);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.shadow_, nullptr, nullptr);
#endif
}

void arrived_on_fiber() {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (leaves_own) {
    own_bottom = bottom;
    own_bytes = bytes;
  }
#endif
}

}  // namespace cuda_emulator
