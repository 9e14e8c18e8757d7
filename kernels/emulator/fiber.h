// A CUDA thread as a fiber: a stack of its own and a place to go on from. Switching costs some 5 ns in
// assembly on x86-64 and AArch64, and 250 ns through ucontext elsewhere (or with EMULATOR_UCONTEXT defined).
#pragma once
#include <cstddef>
#include <thread>

#if !defined(__x86_64__) && !defined(__aarch64__) && !defined(EMULATOR_UCONTEXT)
#define EMULATOR_UCONTEXT
#endif
#if defined(EMULATOR_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulator {

#if defined(EMULATOR_UCONTEXT)
struct Context {
  ucontext_t state;
};
#else
struct Context {
  void* stack_pointer;
};
#endif

// Makes a context that starts `entry` on the stack of `bytes` bytes from `lowest` up. `entry` never returns.
void prepare_context(Context&, char* lowest, std::size_t bytes, void (*entry)());
// Keeps the running context in `from` and goes on with `to`.
void switch_context(Context& from, Context& to);

// Stacks for a block's threads. Below each lies a page that must not be touched, so that a stack that grows
// too far is found out.
class Stacks {
 public:
  explicit Stacks(std::size_t count);
  ~Stacks();
  Stacks(const Stacks&) = delete;

  char* lowest(std::size_t i) const { return memory_ + i * (guard_ + BYTES) + guard_; }
  bool is_guard(const void* address) const;

  static constexpr std::size_t BYTES = 64 << 10;

 private:
  std::size_t guard_, total_;
  char* memory_;
};

// While one lives, a crash of the code that this OS thread runs (a wild pointer, a full stack, a division by
// zero) calls `on_crash` with the signal's number, the address touched and that of the instruction. If that returns, the crash takes
// its usual course. Another OS thread may interrupt it: `on_crash` is called with INTERRUPT; if that returns, the
// code goes on.
class CrashHandler {
 public:
  CrashHandler(void (*on_crash)(int signal_number, void* address, void* instruction));
  ~CrashHandler();
  CrashHandler(const CrashHandler&) = delete;

  static void interrupt(std::thread&);
  static const int INTERRUPT;

 private:
  void* signal_stack_;  // a handler cannot run on a stack that is full
};

}  // namespace emulator
