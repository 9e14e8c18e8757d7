#include "fiber.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
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

// emulator_switch_stack(void** leave, void* go_on): a function call, whose caller expects only these registers to
// be as they were. They wait on the stack that is left, with the address to return to.
#if defined(__ELF__)
asm(".hidden emulator_switch_stack");
#else
asm(".private_extern emulator_switch_stack");  // macOS
#endif

#if defined(__x86_64__)

asm(R"(
  .text
  .globl emulator_switch_stack
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
)");
// Words on a waiting stack, from its top down: one where a return address would lie, which keeps the alignment
// that a called function expects; the address to return to; the registers.
constexpr int WAITING_WORDS = 8, RETURN_ADDRESS = 6;

#else  // AArch64

asm(R"(
  .text
  .p2align 2
  .globl emulator_switch_stack
emulator_switch_stack:
  sub sp, sp, #160
  stp x19, x20, [sp]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
constexpr int WAITING_WORDS = 20, RETURN_ADDRESS = 11;  // x30

#endif

extern "C" void switch_stack(void** leave, void* go_on) asm("emulator_switch_stack");

void prepare_context(Context& context, char* lowest, std::size_t bytes, void (*entry)()) {
  const std::uintptr_t top = (reinterpret_cast<std::uintptr_t>(lowest) + bytes) & ~std::uintptr_t(15);
  std::uintptr_t* const stack = reinterpret_cast<std::uintptr_t*>(top) - WAITING_WORDS;
  for (int word = 0; word < WAITING_WORDS; word++)
    stack[word] = 0;
  stack[RETURN_ADDRESS] = reinterpret_cast<std::uintptr_t>(entry);
  context.stack_pointer = stack;
}
void switch_context(Context& from, Context& to) { switch_stack(&from.stack_pointer, to.stack_pointer); }

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

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE,
                           SIGURG};  // SIGURG does nothing unless somebody handles it
constexpr std::size_t SIGNAL_STACK_BYTES = 64 << 10;

thread_local void (*crash_of_this_thread)(int, void*, void*) = nullptr;
std::mutex handlers_mutex;
int handlers_in_use = 0;
struct sigaction handlers_before[std::size(SIGNALS)];

void* instruction_of([[maybe_unused]] void* context) {
#if defined(__linux__) && defined(__x86_64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__linux__) && defined(__aarch64__)
  return reinterpret_cast<void*>(static_cast<ucontext_t*>(context)->uc_mcontext.pc);
#else
  return nullptr;
#endif
}

void handle_signal(int number, siginfo_t* info, void* context) {
  if (crash_of_this_thread)
    crash_of_this_thread(number, info->si_addr, instruction_of(context));
  if (number == CrashHandler::INTERRUPT)
    return;
  // Not ours. With the former handler in place again, the instruction is repeated and crashes once more.
  for (std::size_t i = 0; i < std::size(SIGNALS); i++) {
    if (SIGNALS[i] == number)
      sigaction(number, &handlers_before[i], nullptr);
  }
}

}  // namespace

const int CrashHandler::INTERRUPT = SIGURG;

void CrashHandler::interrupt(std::thread& thread) { pthread_kill(thread.native_handle(), INTERRUPT); }

CrashHandler::CrashHandler(void (*on_crash)(int, void*, void*))
    : signal_stack_(new char[SIGNAL_STACK_BYTES]) {
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
