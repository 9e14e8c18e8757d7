// Bulk copies, which the copy engine makes and an mbarrier counts.
#include "block.h"

namespace emulator {

void Block::bulk_load(u32 to, const void* from, u32 bytes, u32 address, Site at) {
  constexpr u32 ALIGNMENT = 16;
  const u32 site = begin_operation(Operation::CP_ASYNC_BULK, at, 0);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier || !check_shared(to, bytes, ALIGNMENT, site, *current_))
    return;
  const char* const home = find_global(from, bytes, ALIGNMENT, site);
  if (!home || !spares_mbarriers(to, bytes, site, *current_))
    return;
  if (bytes % ALIGNMENT || !bytes) {
    recorder_.fault("misaligned", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() + " copies " + std::to_string(bytes) +
             " bytes in bulk; the number must be a multiple of " + std::to_string(ALIGNMENT) + ", and not 0";
    });
    return;
  }
  Access now = access(site);
  now.by_copy_engine = true;
  const Access& made = barrier->made;
  const Knowledge& known = *now.knowledge;
  if (config_.check && !known.fenced.knows(made.warp, 1u << made.lane, made.time)) {
    recorder_.fault("missing fence", site, made.site, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() +
             " starts a bulk copy whose mbarrier was made at " + describe(recorder_.call_site(made.site)) +
             ", without a fence on the way: put fence_proxy_async() between them";
    });
  }
  if (config_.check)
    shadow_.begin_copy(to - SHARED_START, bytes, now);
  const int offset = static_cast<int>(to - SHARED_START);
  if (config_.trace) {
    recorder_.count(site, bytes, bytes / 32);
    recorder_.record_event({site, Event::ISSUE, offset, barrier->phase()}, current_->warp,
                           1u << current_->lane, bytes);
  }
  std::memset(shared(to), 0xff, bytes);
  Thread& thread = *current_;
  Clock behind = now.knowledge->seen;
  behind.learn_lane(thread.warp, thread.lane, thread.time);
  thread.time++;
  bulk_copies_.push_back({{to - SHARED_START, home, bytes, site}, std::move(behind), address});
}

// Called when no thread can go on without it: copies land as late as they may.
bool Block::deliver_bulk_copy() {
  if (bulk_copies_.empty())
    return false;
  const BulkCopy bulk = bulk_copies_.front();
  bulk_copies_.pop_front();
  const auto found = mbarriers_.find(bulk.barrier);
  if (found == mbarriers_.end())
    return true;  // ended too early, and reported
  Mbarrier& barrier = found->second;
  land(bulk.copy, barrier.agent, 0, barrier.phase() + 1);
  if (config_.trace) {
    recorder_.record_event({bulk.copy.site, Event::LAND, static_cast<int>(bulk.copy.offset), barrier.phase()},
                           NO_WARP, 0, bulk.copy.bytes);
  }
  Phase& phase = barrier.now();
  phase.copied_bytes += bulk.copy.bytes;
  phase.copied_at = bulk.copy.site;
  phase.behind.join(bulk.behind);
  end_phase_if_complete(barrier, bulk.copy.site);
  return true;
}

// A block must not end, nor an mbarrier, before it is known that its copies have landed.
void Block::report_copies_not_waited_for(const Mbarrier& barrier) {
  if (barrier.now().copied_at != Recorder::NO_SITE && barrier.missing_bytes())
    return report_unbalanced(barrier);
  const auto never_waited_for = [&](u32 site) {
    if (recorder_.takes_part_in_a_fault(site))
      return;  // a read too early has the same cause
    recorder_.fault("copy never waited for", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) +
             ": nobody waits for this bulk copy: call mbar_wait on its mbarrier before the block ends";
    });
  };
  for (u32 i = barrier.phase() + 1; i-- > 0 && barrier.phases[i + 1].waits_before.empty();) {
    if (barrier.phases[i].copied_at != Recorder::NO_SITE)
      never_waited_for(barrier.phases[i].copied_at);
  }
  for (const BulkCopy& bulk : bulk_copies_) {
    const auto found = mbarriers_.find(bulk.barrier);
    if (found != mbarriers_.end() && &found->second == &barrier)
      never_waited_for(bulk.copy.site);
  }
}
void Block::report_abandoned_bulk_copies() {
  while (deliver_bulk_copy()) {
  }
  for (const auto& [address, barrier] : mbarriers_)
    report_copies_not_waited_for(barrier);
}

// Where threads wait for bytes that will never come, or too many came.
bool Block::report_unbalanced_mbarriers() {
  bool any = false;
  for (const auto& [address, barrier] : mbarriers_) {
    if (barrier.waiting.empty() || barrier.missing_arrivals || !barrier.missing_bytes())
      continue;
    any = true;
    report_unbalanced(barrier);
  }
  return any;
}
void Block::report_unbalanced(const Mbarrier& barrier) {
  const Phase& phase = barrier.now();
  const bool expected = phase.expected_at != Recorder::NO_SITE, copied = phase.copied_at != Recorder::NO_SITE;
  const u32 site = expected ? phase.expected_at : phase.copied_at;
  recorder_.fault("mbarrier misused", site, expected && copied ? phase.copied_at : Recorder::NO_SITE, [&] {
    return describe(recorder_.call_site(site)) + ": " + std::to_string(phase.expected_bytes) +
           " bytes expected, " + std::to_string(phase.copied_bytes) + " copied" +
           (copied ? " by " + describe(recorder_.call_site(phase.copied_at)) : "") + " in phase " +
           std::to_string(barrier.phase()) +
           " of an mbarrier, so the phase never ends: let mbar_arrive_expect_tx name the bytes that are "
           "copied";
  });
}

void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, Site site) {
  running_block->bulk_load(to, from, bytes, barrier, site);
}

}  // namespace emulator
