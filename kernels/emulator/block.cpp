#include "block.h"

#include <dlfcn.h>

#include <csignal>
#include <utility>

namespace emulator {

thread_local Block* running_block EMULATOR_FAST_TLS = nullptr;
thread_local const Indices* indices EMULATOR_FAST_TLS = nullptr;

static u32 thread_count(const LaunchConfig& config) {
  return config.block.x * config.block.y * config.block.z;
}
static u32 warp_count(const LaunchConfig& config) { return (thread_count(config) + LANES - 1) / LANES; }

Block::Block(const LaunchConfig& config, FileNames& files, std::atomic<u32>& pulse,
             void (*thread_body)(void*), void* context)
    : config_(config),
      pulse_(pulse),
      thread_body_(thread_body),
      context_(context),
      recorder_(files),
      shared_(config.shared_bytes),
      shadow_(recorder_, config.check ? config.shared_bytes : 0, warp_count(config)),
      stacks_(warp_count(config) * LANES),
      threads_(warp_count(config) * LANES) {}

// ---- one block from start to end ----
BlockReport Block::run(u32 number, dim3 index) {
  running_block = this;
  begin(number, index);
  for (;;) {
    if (Thread* thread = next_thread()) {
      current_ = thread;
      emulator::indices = &thread->indices;
      switch_context(scheduler_, thread->context);  // comes back when no thread can go on
      current_ = nullptr;
      if (stopped_)
        break;
    } else if (all_have_returned()) {
      report_abandoned_bulk_copies();
      break;
    } else if (!deliver_bulk_copy()) {
      report_stuck();
      break;
    }
  }
  if (overrun_.site != Recorder::NO_SITE && !recorder_.any_fault())
    recorder_.fault("mbarrier misused", overrun_.site, overrun_.other, [&] { return overrun_.message; });
  running_block = nullptr;
  return recorder_.end_block();
}

static void thread_main() { running_block->run_thread(); }

void Block::begin(u32 number, dim3 index) {
  recorder_.begin_block(number, index);
  std::fill(shared_.begin(), shared_.end(), char(0xff));  // NaN, as bf16 and as float
  if (config_.check)
    shadow_.begin_block();
  mbarriers_.clear();
  mbarriers_made_ = 0;
  overrun_ = {};
  bulk_copies_.clear();
  stopped_ = false;
  const u32 threads = thread_count(config_);
  warps_.assign(warp_count(config_), Warp{});
  permute(number);
  for (u32 warp = 0; warp < warps_.size(); warp++) {
    const u32 missing = (warp + 1) * LANES > threads ? (warp + 1) * LANES - threads : 0;
    warps_[warp].live = ~0u >> missing;  // the last warp of a block may have fewer lanes
    make_ready(warp, warps_[warp].live);
  }
  const dim3 size = config_.block;
  for (u32 i = 0; i < threads_.size(); i++) {
    Thread& thread = threads_[i];
    const dim3 place{i % size.x, i / size.x % size.y, i / size.x / size.y};
    thread.indices = {place, index, size, config_.grid, nullptr};
    thread.warp = i / LANES;
    thread.lane = i % LANES;
    thread.done = i >= threads;
    thread.time = 1;
    thread.beyond.reset();
    thread.waits_at = {};
    thread.copies.clear();
    thread.groups.clear();
    // Tops of stacks a power of two apart would share their place in the CPU's cache.
    const std::size_t stagger = i % 61 * 192;
    prepare_context(thread.context, stacks_.lowest(i), Stacks::BYTES - stagger, thread_main);
  }
}

void Block::run_thread() {
  thread_body_(context_);
  finish_thread();
  std::abort();  // a thread that has returned is not run again
}

// ---- whose turn it is ----
void Block::permute(u32 block) {
  order_.resize(warps_.size());
  place_.resize(warps_.size());
  for (u32 i = 0; i < order_.size(); i++)
    order_[i] = i;
  lane_flip_ = 0;
  if (config_.seed) {
    u32 state = config_.seed * 2654435761u ^ (block + 1) * 40503u;
    const auto random = [&state] {  // xorshift: any cheap generator does
      state ^= state << 13;
      state ^= state >> 17;
      state ^= state << 5;
      return state;
    };
    for (u32 i = static_cast<u32>(order_.size()) - 1; i > 0; i--)
      std::swap(order_[i], order_[random() % (i + 1)]);
    lane_flip_ = random() % LANES;
  }
  for (u32 i = 0; i < order_.size(); i++)
    place_[order_[i]] = i;
  ready_places_ = 0;
  place_now_ = 0;
}

void Block::make_ready(u32 warp, u32 lanes) {
  for (; lanes; lanes &= lanes - 1)
    warps_[warp].ready |= 1u << (__builtin_ctz(lanes) ^ lane_flip_);
  if (warps_[warp].ready)
    ready_places_ |= 1u << place_[warp];
}

Thread* Block::next_thread() {
  beat();
  if (!ready_places_)
    return nullptr;
  if (!(ready_places_ >> place_now_ & 1)) {
    const u32 later = place_now_ == 31 ? 0 : ready_places_ & ~0u << (place_now_ + 1);
    place_now_ = __builtin_ctz(later ? later : ready_places_);
  }
  const u32 index = order_[place_now_];
  Warp& warp = warps_[index];
  const u32 lane = __builtin_ctz(warp.ready) ^ lane_flip_;
  operations_in_a_row_ = 0;
  warp.ready &= warp.ready - 1;
  if (!warp.ready)
    ready_places_ &= ~(1u << place_now_);
  return &threads_[index * LANES + lane];
}

// The current thread cannot go on. Returns when it can.
void Block::wait_here() {
  Thread* const from = current_;
  Thread* const to = next_thread();
  if (to == from)
    return;
  if (!to) {
    switch_context(from->context, scheduler_);
    return;
  }
  current_ = to;
  emulator::indices = &to->indices;
  switch_context(from->context, to->context);
}

void Block::stop() {
  stopped_ = true;
  switch_context(current_->context, scheduler_);
  std::abort();
}

// ---- the ends that no block should come to ----
bool Block::all_have_returned() const {
  return std::none_of(warps_.begin(), warps_.end(), [](const Warp& warp) { return warp.live; });
}

void Block::report_stuck() {
  if (report_unbalanced_mbarriers())
    return;
  std::string stuck;
  u32 named = 0, returned = 0;
  const Thread* first = nullptr;
  const u32 threads = thread_count(config_);
  for (const Thread& thread : threads_) {
    if (thread.done) {
      returned += thread.warp * LANES + thread.lane < threads;
      continue;
    }
    if (!first)
      first = &thread;
    const Thread* before = thread.lane ? &thread - 1 : nullptr;
    const bool as_before = before && !before->done && before->waits_at.same_place(thread.waits_at);
    if (as_before || named++ >= 8)
      continue;
    stuck += (stuck.empty() ? "" : "; ") + ("warp " + std::to_string(thread.warp)) + " from lane " +
             std::to_string(thread.lane) + " on at " +
             describe(recorder_.call_site(recorder_.site(thread.waits_at)));
  }
  if (!first)
    return;
  const u32 site = recorder_.site(first->waits_at);
  recorder_.fault("deadlock", site, Recorder::NO_SITE, [&] {
    std::string message = "no thread can go on; waiting: " + stuck + "; " + std::to_string(returned) +
                          " of " + std::to_string(threads) + " threads have returned";
    for (const auto& [address, barrier] : mbarriers_) {
      if (!barrier.waiting.empty())
        message += "; " + state_of(address, barrier);
    }
    return message;
  });
}

// How far from the start of its library an instruction lies; 0: in none.
static u64 place_in_library(void* instruction) {
  Dl_info library;
  if (!instruction || !dladdr(instruction, &library))
    return 0;
  return static_cast<char*>(instruction) - static_cast<char*>(library.dli_fbase);
}

void Block::crash(int signal_number, void* address, void* instruction) {
  if (!current_)
    return;
  const u32 site = recorder_.site(current_->waits_at);
  const bool endless = signal_number == CrashHandler::INTERRUPT;
  const bool stack_full = !endless && signal_number != SIGFPE && stacks_.is_guard(address);
  const CallSite& at = recorder_.call_site(site);
  const std::string last = at.at.line() ? "; the last warp-wide operation it reached is " + describe(at) : "";
  const bool plain = !endless && !stack_full && signal_number != SIGFPE && is_global(address);
  const char* const kind = endless      ? "endless loop"
                           : stack_full ? "stack overflow"
                           : plain      ? "plain access"
                                        : "crash";
  recorder_.fault(kind, site, Recorder::NO_SITE, [&] {
    if (endless) {
      return who() + " has run for " + std::to_string(config_.patience) +
             " seconds without touching memory or meeting another thread: a loop that does not end" + last;
    }
    if (stack_full) {
      return who() + " has more local variables than the emulator's " + std::to_string(Stacks::BYTES / 1024) +
             " KB stack holds" + last;
    }
    if (signal_number == SIGFPE)
      return who() + " divides an integer by zero" + last;
    if (plain) {
      return who() + " reads or writes global memory as plain C++ does, at " +
             place_of(static_cast<char*>(address)) +
             ": write ldg(pointer + i) to read and stg(pointer + i, x) to write; the CPU machine checks and "
             "counts "
             "named operations only";
    }
    return who() + " follows a wild pointer: global memory is read by ldg and written by stg" + last;
  });
  if (!endless)
    recorder_.name_instruction(place_in_library(instruction));
  stop();
}

}  // namespace emulator
