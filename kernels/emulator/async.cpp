// Copies that run on while threads go on, and the mbarriers that count them.
#include "block.h"

namespace emulator {

// ---- cp.async ----
// From the issue on the destination holds rubbish that nobody may touch; it lands at the issuing thread's wait,
// as late as the hardware may be. Where a kernel waits too little the rubbish shows in its results, too.
void Block::copy_async(Operation operation, u32 to, const void* from, u32 bytes, bool valid, Site at) {
  const u32 site = begin_operation(operation, at, bytes);
  const bool source_ok = !valid || check_global(from, bytes, bytes, site);
  if (!check_shared(to, bytes, bytes, site, *current_) || !source_ok)
    return;
  if (config_.check)
    shadow_.begin_copy(to - SHARED_START, bytes, access(site));
  if (config_.trace)
    warps_[current_->warp].trace.add(site, current_->lane, to);
  std::memset(shared(to), 0xff, bytes);
  current_->copies.push_back({to - SHARED_START, valid ? from : nullptr, bytes, site});
}

void Block::copy_commit() { current_->groups.push_back(static_cast<u32>(current_->copies.size())); }

void Block::copy_wait(u32 groups_under_way) {
  Thread& thread = *current_;
  if (thread.groups.size() <= groups_under_way)
    return;
  const std::size_t groups = thread.groups.size() - groups_under_way;
  const u32 copies = thread.groups[groups - 1];
  for (u32 i = 0; i < copies; i++)
    land(thread.copies[i], thread.warp, thread.lane, thread.time);
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + copies);
  thread.groups.erase(thread.groups.begin(), thread.groups.begin() + groups);
  for (u32& end : thread.groups)
    end -= copies;
}

void Block::land(const Copy& copy, u32 agent, u32 lane, u32 time) {
  char* const to = shared_.data() + copy.offset;
  if (copy.from) {
    std::memcpy(to, copy.from, copy.bytes);
  } else {
    std::memset(to, 0, copy.bytes);
  }
  if (config_.check)
    shadow_.end_copy(copy.offset, copy.bytes, copy.site, agent, lane, time);
}

void Block::report_abandoned_copies() {
  const Thread& thread = *current_;
  if (thread.copies.empty())
    return;
  const u32 site = thread.copies.front().site;
  const bool committed = !thread.groups.empty() && thread.groups.back() > 0;
  recorder_.fault("copy never waited for", site, Recorder::NO_SITE, [&] {
    return describe(recorder_.call_site(site)) + ": " + who() + " returns while its copy is under way" +
           (committed ? ": cp_async_wait is missing" : ": cp_async_commit is missing");
  });
}

// ---- mbarriers ----
void Block::mbarrier_init(u32 address, u32 count, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_INIT, at, 8);
  if (!check_shared(address, 8, 8, site, *current_))
    return;
  if (config_.check)
    shadow_.write(address - SHARED_START, 8, access(site));
  const u32 number = static_cast<u32>(mbarriers_.size());
  Mbarrier& barrier = mbarriers_[address];
  barrier = Mbarrier{};
  barrier.number = number;
  barrier.count = barrier.missing_arrivals = count;
  barrier.fence_owed_by = current_;
}

// Null, and reported, if there is none.
Mbarrier* Block::find_mbarrier(u32 address, u32 site) {
  if (!check_shared(address, 8, 8, site, *current_))
    return nullptr;
  const auto found = mbarriers_.find(address);
  if (found == mbarriers_.end()) {
    recorder_.fault("mbarrier misused", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() + " uses byte " +
             std::to_string(address - SHARED_START) +
             " of shared memory as an mbarrier, which mbar_init has not made so far";
    });
    return nullptr;
  }
  // Whoever uses it must know that it has been made.
  if (config_.check)
    shadow_.read(address - SHARED_START, 8, access(site));
  return &found->second;
}

void Block::mbarrier_arrive(u32 address, u32 expected_bytes, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_ARRIVE, at, 8);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier)
    return;
  if (barrier->missing_arrivals == 0) {
    return recorder_.fault("mbarrier misused", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() + " is one arrival more than the " +
             std::to_string(barrier->count) + " that the phase counts";
    });
  }
  Thread& thread = *current_;
  barrier->arriving.join(clock_of(thread));
  barrier->arriving.learn_lane(thread.warp, thread.lane, thread.time);
  thread.time++;  // what it does from here on is not handed on
  barrier->missing_bytes += expected_bytes;
  barrier->missing_arrivals--;
  end_phase_if_complete(*barrier);
}

void Block::end_phase_if_complete(Mbarrier& barrier) {
  if (barrier.missing_arrivals || barrier.missing_bytes)
    return;
  barrier.phase++;
  barrier.missing_arrivals = barrier.count;
  barrier.arriving.learn_all_lanes(static_cast<u32>(warps_.size()) + barrier.number, barrier.phase);
  barrier.completed = barrier.arriving;
  for (const Thread* thread : barrier.waiting)
    make_ready(thread->warp, 1u << thread->lane);
  barrier.waiting.clear();
}

void Block::mbarrier_wait(u32 address, u32 parity, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_WAIT, at, 8);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier)
    return;
  Thread& thread = *current_;
  thread.waits_at = recorder_.call_site(site);
  if ((barrier->phase & 1) == (parity & 1)) {
    barrier->waiting.push_back(&thread);
    wait_here();
  }
  if (!thread.clock)
    thread.clock = std::make_unique<Clock>(clock_of(thread));
  thread.clock->join(barrier->completed);
}

void Block::fence_proxy_async() {
  for (auto& [address, barrier] : mbarriers_) {
    if (barrier.fence_owed_by == current_)
      barrier.fence_owed_by = nullptr;
  }
}

// ---- bulk copies ----
void Block::bulk_load(u32 to, const void* from, u32 bytes, u32 address, Site at) {
  constexpr u32 ALIGNMENT = 16;
  const u32 site = begin_operation(Operation::CP_ASYNC_BULK, at, 0);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier || !check_shared(to, bytes, ALIGNMENT, site, *current_))
    return;
  if (!check_global(from, bytes, ALIGNMENT, site))
    return;
  if (bytes % ALIGNMENT) {
    return recorder_.fault("misaligned", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() + " copies " + std::to_string(bytes) +
             " bytes in bulk; the number must be a multiple of " + std::to_string(ALIGNMENT);
    });
  }
  if (barrier->fence_owed_by) {
    recorder_.fault("missing fence", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() +
             " starts a bulk copy, but the thread that made the mbarrier has not called fence_proxy_async() "
             "since";
    });
  }
  if (config_.check)
    shadow_.begin_copy(to - SHARED_START, bytes, access(site));
  if (config_.trace)
    recorder_.count(site, bytes, bytes / 32);
  std::memset(shared(to), 0xff, bytes);
  bulk_copies_.push_back({{to - SHARED_START, from, bytes, site}, address});
}

// Called when no thread can go on without it: copies land as late as they may.
bool Block::deliver_bulk_copy() {
  if (bulk_copies_.empty())
    return false;
  const BulkCopy bulk = bulk_copies_.front();
  bulk_copies_.pop_front();
  Mbarrier& barrier = mbarriers_.at(bulk.barrier);
  land(bulk.copy, static_cast<u32>(warps_.size()) + barrier.number, 0, barrier.phase + 1);
  barrier.missing_bytes -= bulk.copy.bytes;
  end_phase_if_complete(barrier);
  return true;
}

// ---- runtime.h ----
void copy_async(Operation operation, u32 to, const void* from, u32 bytes, bool valid, Site site) {
  running_block->copy_async(operation, to, from, bytes, valid, site);
}
void copy_commit() { running_block->copy_commit(); }
void copy_wait(u32 groups_under_way) { running_block->copy_wait(groups_under_way); }
void mbarrier_init(u32 barrier, u32 count, Site site) { running_block->mbarrier_init(barrier, count, site); }
void mbarrier_arrive(u32 barrier, u32 expected_bytes, Site site) {
  running_block->mbarrier_arrive(barrier, expected_bytes, site);
}
void mbarrier_wait(u32 barrier, u32 parity, Site site) {
  running_block->mbarrier_wait(barrier, parity, site);
}
void fence_proxy_async() { running_block->fence_proxy_async(); }
void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, Site site) {
  running_block->bulk_load(to, from, bytes, barrier, site);
}

}  // namespace emulator
