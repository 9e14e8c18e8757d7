#include "fiber.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <new>

namespace emulator {

// ---- switching ----
#if defined(EMULATOR_UCONTEXT)

void prepare_context(Context& context, char* lowest, std::size_t bytes, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = lowest;
  context.state.uc_stack.ss_size = bytes;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}
void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#else

// A switch is a function call: the caller expects only these registers to be as they were. They wait on the
// stack that is left, below them the address to return to.
asm(R"(
  .text
  .globl emulator_switch_stack
  .hidden emulator_switch_stack
  .type emulator_switch_stack, @function
emulator_switch_stack:
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
  popq %rcx
  jmp *%rcx
  .size emulator_switch_stack, . - emulator_switch_stack
)");
extern "C" void emulator_switch_stack(void** leave, void* go_on);

void prepare_context(Context& context, char* lowest, std::size_t bytes, void (*entry)()) {
  const std::uintptr_t top = (reinterpret_cast<std::uintptr_t>(lowest) + bytes) & ~std::uintptr_t(15);
  std::uintptr_t* stack = reinterpret_cast<std::uintptr_t*>(top);
  *--stack = 0;  // where a return address would lie: keeps the alignment that a called function expects
  *--stack = reinterpret_cast<std::uintptr_t>(entry);
  for (int saved_register = 0; saved_register < 6; saved_register++)
    *--stack = 0;
  context.stack_pointer = stack;
}
void switch_context(Context& from, Context& to) {
  emulator_switch_stack(&from.stack_pointer, to.stack_pointer);
}

#endif

// ---- stacks ----
Stacks::Stacks(std::size_t count) : guard_(sysconf(_SC_PAGESIZE)), total_(count * (guard_ + BYTES)) {
  void* memory =
      mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    throw std::bad_alloc();
  memory_ = static_cast<char*>(memory);
  for (std::size_t i = 0; i < count; i++)
    mprotect(lowest(i) - guard_, guard_, PROT_NONE);
}
Stacks::~Stacks() { munmap(memory_, total_); }

bool Stacks::is_guard(const void* address) const {
  const std::size_t offset = static_cast<const char*>(address) - memory_;
  return offset < total_ && offset % (guard_ + BYTES) < guard_;
}

// ---- crashes ----
namespace {

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE};
constexpr std::size_t SIGNAL_STACK_BYTES = 64 << 10;

thread_local void (*crash_of_this_thread)(int, void*) = nullptr;
std::mutex handlers_mutex;
int handlers_in_use = 0;
struct sigaction handlers_before[std::size(SIGNALS)];

void handle_signal(int number, siginfo_t* info, void*) {
  if (crash_of_this_thread)
    crash_of_this_thread(number, info->si_addr);
  // Not ours. With the former handler in place again, the instruction is repeated and crashes once more.
  for (std::size_t i = 0; i < std::size(SIGNALS); i++) {
    if (SIGNALS[i] == number)
      sigaction(number, &handlers_before[i], nullptr);
  }
}

}  // namespace

CrashHandler::CrashHandler(void (*on_crash)(int, void*)) : signal_stack_(new char[SIGNAL_STACK_BYTES]) {
  crash_of_this_thread = on_crash;
  stack_t stack{};
  stack.ss_sp = signal_stack_;
  stack.ss_size = SIGNAL_STACK_BYTES;
  sigaltstack(&stack, nullptr);
  const std::lock_guard<std::mutex> lock(handlers_mutex);
  if (handlers_in_use++)
    return;
  struct sigaction handler{};
  handler.sa_sigaction = handle_signal;
  handler.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // NODEFER: on_crash may switch to another stack
  for (std::size_t i = 0; i < std::size(SIGNALS); i++)
    sigaction(SIGNALS[i], &handler, &handlers_before[i]);
}
CrashHandler::~CrashHandler() {
  {
    const std::lock_guard<std::mutex> lock(handlers_mutex);
    if (--handlers_in_use == 0) {
      for (std::size_t i = 0; i < std::size(SIGNALS); i++)
        sigaction(SIGNALS[i], &handlers_before[i], nullptr);
    }
  }
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
  crash_of_this_thread = nullptr;
  delete[] static_cast<char*>(signal_stack_);
}

}  // namespace emulator
