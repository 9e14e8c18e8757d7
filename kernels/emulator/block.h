// One block of threads, run by one thread of the operating system.
//
// A warp runs until all its lanes wait; then the next warp runs. What a warp does as one (ldmatrix, mma, a
// barrier) is carried out by the last lane to come, for all. A seed permutes warps and lanes: no order of
// theirs is promised on a GPU either, and the checks do not depend on it.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "fiber.h"
#include "report.h"
#include "shadow.h"
#include "warp_trace.h"

namespace emulator {

struct Copy {
  u32 offset;  // in shared memory
  const void* from;  // null: zeros
  u32 bytes, site;
};

struct Thread {
  Indices indices;
  Context context;
  u32 warp, lane;
  bool done;
  u32 time;  // see clock.h
  std::unique_ptr<Knowledge>
      beyond;  // what it knows and its warp does not, from an mbarrier or a fence; or null
  Call waits_at;
  std::vector<Copy> copies;  // under way or not committed, oldest first
  std::vector<u32> groups;  // for each committed group the number of copies up to its end
};

struct Warp {
  u32 live;  // lanes that have not returned
  u32 ready;  // lanes that can go on, as bits of their place in the order
  u32 arrived;  // lanes that wait for the others, at:
  Call call;
  void* arguments[LANES];
  u32 operations;  // that it has made as one
  bool at_barrier;  // all have arrived at __syncthreads
  Knowledge knowledge;  // of all lanes
  WarpTrace trace;
};

// A thread's wait for the end of an mbarrier's phase.
struct Wait {
  u32 warp, lane, time, site;
};

struct Phase {
  std::vector<Wait>
      waits_before;  // for the phase before this one: they must not be overtaken by the end of this
  Clock behind;  // what came before the bulk copies whose bytes count here
  Knowledge arrivals;  // what those of this phase, and of the phases before, hand on
  long long expected_bytes = 0, copied_bytes = 0;
  u32 expected_at = Recorder::NO_SITE, copied_at = Recorder::NO_SITE;  // sites
};

struct Mbarrier {
  u32 address;
  u32 agent;  // behind the warps, in the order of initialisation: see clock.h
  u32 count, missing_arrivals;
  Access made;  // mbar_init; its `knowledge` is of no use later
  std::vector<Phase> phases;  // the last but one is under way, and the last one has not begun
  std::vector<Thread*> waiting;

  u32 phase() const { return static_cast<u32>(phases.size()) - 2; }
  Phase& now() { return phases[phase()]; }
  const Phase& now() const { return phases[phase()]; }
  long long missing_bytes() const { return now().expected_bytes - now().copied_bytes; }
  int offset() const;  // in shared memory
};

struct BulkCopy {
  Copy copy;
  Clock behind;  // what the thread knew that started it
  u32 barrier;  // its address
};

class Block {
 public:
  // `pulse` changes as long as the threads get on.
  Block(const LaunchConfig&, FileNames&, std::atomic<u32>& pulse, void (*thread_body)(void*), void* context);
  BlockReport run(u32 number, dim3 index);
  const Recorder& recorder() const { return recorder_; }

  // ---- what the running thread asks for: runtime.h ----
  void load(u32 from, void* value, u32 bytes, Site);
  void store(u32 to, const void* value, u32 bytes, Site);
  void load_global(const void* from, void* value, u32 bytes, Site);
  void store_global(void* to, const void* value, u32 bytes, Site);
  void copy_async(Operation, u32 to, const void* from, u32 bytes, bool valid, Site);
  void copy_commit(Site);
  void copy_wait(u32 groups_under_way, Site);
  void mbarrier_init(u32 address, u32 count, Site);
  void mbarrier_inval(u32 address, Site);
  void mbarrier_arrive(u32 address, u32 expected_bytes, Site);  // expected_bytes 0: none are announced
  void mbarrier_wait(u32 address, u32 parity, Site);
  void fence_proxy_async();
  void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, Site);
  void collective(Operation, void* arguments, Site);
  void refuse_partial_mask(Operation, u32 mask, Site);

  // The threads' code, on their stacks.
  [[noreturn]] void run_thread();
  // A wild pointer, a full stack, a division by zero, or an interrupt because the pulse stands still; returns if no
  // thread is running.
  void crash(int signal_number, void* address, void* instruction);

  static constexpr u32 SHARED_START = 1024;  // as on sm_90: a kernel that forgets smem_base() is found out

 private:
  const LaunchConfig& config_;
  std::atomic<u32>& pulse_;
  void (*thread_body_)(void*);
  void* context_;
  Recorder recorder_;
  std::vector<char> shared_;
  Shadow shadow_;
  Stacks stacks_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::map<u32, Mbarrier> mbarriers_;  // live ones, by address
  u32 mbarriers_made_ = 0;
  struct {
    u32 site = Recorder::NO_SITE, other;
    std::string message;
  } overrun_;  // the first; a race that it leads to says more
  std::deque<BulkCopy> bulk_copies_;

  // ---- scheduling: block.cpp ----
  Context scheduler_;
  Thread* current_ = nullptr;
  std::vector<u32> order_, place_;  // of warps: which comes i-th, and the inverse
  u32 lane_flip_ = 0;  // lanes take their turns in the order of lane ^ lane_flip_
  u32 ready_places_ = 0, place_now_ = 0;
  bool stopped_ = false;

  void begin(u32 number, dim3 index);
  void beat() { pulse_.store(pulse_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void permute(u32 block);
  void make_ready(u32 warp, u32 lanes);
  Thread* next_thread();
  void wait_here();
  [[noreturn]] void stop();
  void finish_thread();
  bool all_have_returned() const;
  void report_stuck();
  std::string who() const { return recorder_.who(current_->warp, current_->lane); }

  // ---- warps: warp.cpp ----
  void complete(u32 warp);
  [[noreturn]] void stop_endless_warp(u32 warp);
  void execute(u32 warp);
  void count_calls(u32 warp, u32 site);
  void move_matrices(u32 warp, u32 site, bool load, u32 count, bool turned);
  void even_times(u32 warp);
  void join_lanes(u32 warp);
  bool barrier_is_full() const;
  void release_barrier();

  // ---- memory: memory.cpp ----
  Knowledge& knowledge_of(const Thread& t) { return t.beyond ? *t.beyond : warps_[t.warp].knowledge; }
  Knowledge& knowledge_of_its_own(Thread&);
  u32 last_buffer_ = 0;  // where the last access to global memory was
  u32 operations_in_a_row_ = 0;  // of the running thread
  u32 begin_operation(Operation, Site, u32 bytes);  // its site's number
  // Of the running thread, if the launch is traced.
  void note(Event what, u32 site, int address = -1, u32 phase = 0, u32 bytes = 0) {
    if (config_.trace)
      warps_[current_->warp].trace.add({site, what, address, phase}, recorder_, current_->lane, 0, bytes);
  }
  Access access(u32 site);
  bool check_shared(u32 address, u32 bytes, u32 alignment, u32 site, const Thread&);
  static constexpr std::uintptr_t NEAR_NULL = 1 << 20;
  char* find_global(const void* address, u32 bytes, u32 alignment, u32 site);
  std::string place_of(const char* address) const;
  bool is_global(const void* address) const;
  const Buffer* find_buffer(const char* start, u32 bytes);
  char* shared(u32 address) { return shared_.data() + (address - SHARED_START); }

  // ---- copies and mbarriers: async.cpp ----
  void land(const Copy&, u32 agent, u32 lane, u32 time);
  // False, and reported, if bytes of a live mbarrier are among these.
  bool spares_mbarriers(u32 address, u32 bytes, u32 site, const Thread& thread) {
    return mbarriers_.empty() || spares_any_mbarrier(address, bytes, site, thread);
  }
  bool spares_any_mbarrier(u32 address, u32 bytes, u32 site, const Thread&);
  Mbarrier* find_mbarrier(u32 address, u32 site);
  void end_phase_if_complete(Mbarrier&, u32 site);
  void report_overrun(u32 site, const Wait&, u32 phase);
  void learn(Thread&, const Knowledge&);
  u32 phases_known(Thread&, const Mbarrier&);
  bool deliver_bulk_copy();
  void report_abandoned_copies();
  void report_abandoned_bulk_copies();
  void report_copies_not_waited_for(const Mbarrier&);
  bool report_unbalanced_mbarriers();
  void report_unbalanced(const Mbarrier&);
  std::string state_of(u32 address, const Mbarrier&) const;
  void misuse(u32 site, u32 other, const std::string& what);
};

inline int Mbarrier::offset() const { return static_cast<int>(address - Block::SHARED_START); }

extern thread_local Block* running_block EMULATOR_FAST_TLS;

}  // namespace emulator
