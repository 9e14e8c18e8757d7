// Copies that run on while threads go on, and the mbarriers that count them.
#include "block.h"

namespace emulator {

// ---- cp.async ----
// From the issue on the destination holds rubbish that nobody may touch; it lands at the issuing thread's wait,
// as late as the hardware may be. Where a kernel waits too little the rubbish shows in its results, too.
void Block::copy_async(Operation operation, u32 to, const void* from, u32 bytes, bool valid, Site at) {
  const u32 site = begin_operation(operation, at, bytes);
  const char* const home = valid ? find_global(from, bytes, bytes, site) : nullptr;
  const bool source_ok = !valid || home;
  if (!check_shared(to, bytes, bytes, site, *current_) || !source_ok ||
      !spares_mbarriers(to, bytes, site, *current_)) {
    return;
  }
  if (config_.check)
    shadow_.begin_copy(to - SHARED_START, bytes, access(site));
  if (config_.trace)
    warps_[current_->warp].trace.add({site}, recorder_, current_->lane, to);
  std::memset(shared(to), 0xff, bytes);
  current_->copies.push_back({to - SHARED_START, home, bytes, site});
}

void Block::copy_commit(Site at) {
  Thread& thread = *current_;
  if (config_.trace)
    note(Event::COMMIT, begin_operation(Operation::CP_ASYNC_COMMIT, at, 0));
  thread.groups.push_back(static_cast<u32>(thread.copies.size()));
}

void Block::copy_wait(u32 groups_under_way, Site at) {
  Thread& thread = *current_;
  const u32 site = config_.trace ? begin_operation(Operation::CP_ASYNC_WAIT, at, 0) : Recorder::NO_SITE;
  note(Event::WAIT, site, -1, groups_under_way);
  if (thread.groups.size() <= groups_under_way)
    return;
  const std::size_t groups = thread.groups.size() - groups_under_way;
  const u32 copies = thread.groups[groups - 1];
  u32 bytes = 0;
  for (u32 i = 0; i < copies; i++) {
    land(thread.copies[i], thread.warp, thread.lane, thread.time);
    bytes += thread.copies[i].bytes;
  }
  if (copies)
    note(Event::LAND, site, -1, groups_under_way, bytes);
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

// ---- runtime.h ----
void copy_async(Operation operation, u32 to, const void* from, u32 bytes, bool valid, Site site) {
  running_block->copy_async(operation, to, from, bytes, valid, site);
}
void copy_commit(Site site) { running_block->copy_commit(site); }
void copy_wait(u32 groups_under_way, Site site) { running_block->copy_wait(groups_under_way, site); }

}  // namespace emulator
