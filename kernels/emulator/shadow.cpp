#include "shadow.h"

#include <cstring>

namespace emulator {

Shadow::Shadow(Recorder& recorder, u32 bytes, u32 warps)
    : recorder_(recorder),
      warps_(warps),
      writes_((bytes + GRANULE - 1) / GRANULE),
      readers_(writes_.size()),
      reads_(warps, std::vector<Reads>(writes_.size())),
      other_readers_(writes_.size()),
      other_reads_(static_cast<OtherReads*>(std::calloc(warps * writes_.size() + 1, sizeof(OtherReads))),
                   &std::free) {}

void Shadow::begin_block() {
  std::fill(writes_.begin(), writes_.end(), Write{});
  std::fill(readers_.begin(), readers_.end(), 0);
  std::fill(other_readers_.begin(), other_readers_.end(), 0);
}

// ---- what is ordered ----
// Lanes in a mask and their time, against an access made now: program order or knowledge.
bool Shadow::happened_before(u32 agent, u32 lanes, u32 time, const Access& now) {
  if (time <= now.knowledge->seen.all_lanes(agent))
    return true;
  if (agent == now.warp && !now.collective)
    lanes &= ~(1u << now.lane);
  return now.knowledge->seen.knows(agent, lanes, time);
}

// What a warp does as one (ldmatrix, stmatrix) counts as done by every lane of it: PTX promises no order between
// it and what another lane does on its own afterwards. Only a write that the same warp makes as one cannot
// overtake it. To read what stmatrix wrote takes more: writes become visible to other lanes at __syncwarp or a
// barrier.
bool Shadow::happened_before(const Write& write, const Access& now, bool now_writes) {
  const bool both_as_one = write.collective && now.collective && write.agent == now.warp;
  if (both_as_one && now_writes)
    return true;
  return happened_before(write.agent, lanes_of(write), write.time, now);
}
bool Shadow::happened_before(u32 warp, const Reads& reads, const Access& now) {
  const bool both_as_one = reads.collective && now.collective && warp == now.warp;
  const u32 lanes = reads.collective && !both_as_one ? ~0u : reads.lanes;
  return happened_before(warp, lanes, reads.time, now);
}

// ---- accesses ----
void Shadow::read(u32 offset, u32 bytes, const Access& now) {
  Write checked{};
  bool any_checked = false;
  for (u32 granule = offset / GRANULE; granule < (offset + bytes) / GRANULE; granule++) {
    const Write& write = writes_[granule];
    if (!any_checked || write != checked) {
      if (!write.written || write.under_way || !happened_before(write, now, false)) {
        report_read_of(write, granule * GRANULE, now);
      }
      checked = write;
      any_checked = true;
    }
    remember_read(granule, now);
  }
}

void Shadow::remember_read(u32 granule, const Access& now) {
  Reads& last = reads_[now.warp][granule];
  const u32 warp = 1u << now.warp, lane = now.collective ? 0 : 1u << now.lane;
  const bool counts = readers_[granule] & warp;
  readers_[granule] |= warp;
  if (!counts || last.time <= now.knowledge->seen.all_lanes(now.warp)) {
    last = {lane, now.time, now.site, now.collective};
    other_readers_[granule] &= ~warp;
    return;
  }
  const auto belongs = [&](const Reads& reads) { return reads.site == now.site && reads.time == now.time; };
  Reads* place = &last;
  if (!belongs(last)) {
    OtherReads& others = other_reads(now.warp, granule);
    if (!(other_readers_[granule] & warp))
      others.count = 0;
    Reads* const end = others.reads + others.count;
    Reads* const found = std::find_if(others.reads, end, belongs);
    if (found != end) {
      place = found;
    } else if (others.count < std::size(others.reads)) {
      others.reads[others.count++] = last;
      other_readers_[granule] |= warp;
      last = {lane, now.time, now.site, now.collective};
      return;
    } else {  // more than are kept apart
      last.site = now.site;
      last.time = std::max<u32>(last.time, now.time);
    }
  }
  place->lanes |= lane;
  place->collective |= now.collective;
}

void Shadow::write(u32 offset, u32 bytes, const Access& now, const void* value, const void* memory) {
  put_write(offset, bytes, now, false, value && std::memcmp(value, memory, bytes) == 0);
}
void Shadow::begin_copy(u32 offset, u32 bytes, const Access& now) {
  put_write(offset, bytes, now, true, false);
}

void Shadow::put_write(u32 offset, u32 bytes, const Access& now, bool under_way, bool same_value) {
  Write mark;
  mark.time = now.time;
  mark.site = now.site;
  mark.agent = now.warp;
  mark.lane = now.lane;
  mark.collective = now.collective;
  mark.under_way = under_way;
  mark.written = 1;
  Write checked{};
  Reads reported{};  // an access is reported once, not for every granule of it
  for (u32 granule = offset / GRANULE; granule < (offset + bytes) / GRANULE; granule++) {
    const Write& write = writes_[granule];
    if (write.written && write != checked) {
      // Lanes of one store that agree on the value: whichever comes last, the same stays.
      const bool agree = same_value && write.agent == now.warp && write.site == now.site;
      if (write.under_way) {
        report_under_way(write, granule * GRANULE, now, "writes over");
      } else if (!agree && !happened_before(write, now, true)) {
        report_race(write.agent, write.lane, write.site, granule * GRANULE, now, "wrote", "writes");
      } else if (write.agent < warps_ &&
                 !reaches_copy_engine(write.agent, lanes_of(write), write.time, now)) {
        report_unfenced(write.site, granule * GRANULE, now, "wrote");
      }
      checked = write;
    }
    for (u32 readers = readers_[granule]; readers; readers &= readers - 1) {
      const u32 warp = __builtin_ctz(readers);
      check_reads(reads_[warp][granule], warp, granule, now, reported);
      if (!(other_readers_[granule] >> warp & 1))
        continue;
      const OtherReads& others = other_reads(warp, granule);
      for (u32 i = 0; i < others.count; i++)
        check_reads(others.reads[i], warp, granule, now, reported);
    }
    other_readers_[granule] = 0;
    readers_[granule] = 0;
    writes_[granule] = mark;
  }
}

void Shadow::check_reads(const Reads& reads, u32 warp, u32 granule, const Access& now, Reads& reported) {
  if (reads == reported)
    return;
  const bool known = reads.time <= now.knowledge->seen.all_lanes(warp) || happened_before(warp, reads, now);
  if (known && reaches_copy_engine(warp, reads.collective ? ~0u : reads.lanes, reads.time, now))
    return;
  reported = reads;
  if (known)
    return report_unfenced(reads.site, granule * GRANULE, now, "read");
  u32 lanes = warp == now.warp ? reads.lanes & ~(1u << now.lane) : reads.lanes;
  while (lanes & (lanes - 1) && now.knowledge->seen.knows(warp, lanes & -lanes, reads.time))
    lanes &= lanes - 1;  // this one is in order
  report_race(warp, lanes ? __builtin_ctz(lanes) : LANES, reads.site, granule * GRANULE, now, "read",
              "writes");
}

// The copy engine reaches memory by another way (PTX: the async proxy) than threads do. What threads did to these
// bytes before must lie behind a proxy fence on the way to the copy, whoever makes it.
bool Shadow::reaches_copy_engine(u32 warp, u32 lanes, u32 time, const Access& now) const {
  return !now.by_copy_engine || now.knowledge->fenced.knows(warp, lanes, time);
}

void Shadow::end_copy(u32 offset, u32 bytes, u32 site, u32 agent, u32 lane, u32 time) {
  Write mark;
  mark.time = time;
  mark.site = site;
  mark.agent = agent;
  mark.lane = lane;
  mark.written = 1;
  std::fill_n(writes_.begin() + offset / GRANULE, bytes / GRANULE, mark);
}

// ---- reports ----
void Shadow::report_read_of(const Write& write, u32 offset, const Access& now) {
  if (write.under_way)
    return report_under_way(write, offset, now, "reads");
  if (write.written)
    return report_race(write.agent, write.lane, write.site, offset, now, "wrote", "reads");
  recorder_.fault("uninitialised read", now.site, Recorder::NO_SITE, [&] {
    return describe(recorder_.call_site(now.site)) + ": " + recorder_.who(now.warp, now.lane) +
           " reads byte " + std::to_string(offset) + " of shared memory, which nobody has written";
  });
}

void Shadow::report_unfenced(u32 site, u32 offset, const Access& now, const char* did) {
  recorder_.fault("missing fence", now.site, site, [&] {
    const bool read_only = *did == 'r';
    return describe(recorder_.call_site(now.site)) + ": " + recorder_.who(now.warp, now.lane) +
           " starts a bulk copy over byte " + std::to_string(offset) + " of shared memory, which threads " +
           did + " at " + describe(recorder_.call_site(site)) +
           ": put fence_proxy_async() between them, after the barrier and before the copy" +
           (read_only ? " (PTX asks for it, and here the CPU machine is stricter than today's GPUs, on which "
                        "a barrier "
                        "behind the reads has sufficed)"
                      : "");
  });
}

void Shadow::report_under_way(const Write& write, u32 offset, const Access& now, const char* does) {
  recorder_.fault("copy not waited for", now.site, write.site, [&] {
    return describe(recorder_.call_site(now.site)) + ": " + recorder_.who(now.warp, now.lane) + " " + does +
           " byte " + std::to_string(offset) + " of shared memory while a copy issued by warp " +
           std::to_string(write.agent) + " lane " + std::to_string(write.lane) + " at " +
           describe(recorder_.call_site(write.site)) + " is under way: " +
           (recorder_.call_site(write.site).operation == Operation::CP_ASYNC_BULK
                ? "wait on its mbarrier first"
                : "commit its group and wait for it first (cp_async_commit, cp_async_wait)");
  });
}

void Shadow::report_race(u32 agent, u32 lane, u32 site, u32 offset, const Access& now, const char* did,
                         const char* does) {
  const bool same_warp = agent == now.warp;
  const bool one_instruction = same_warp && site == now.site && lane < LANES && !now.collective;
  const char* kind = same_warp ? "race within a warp" : agent < warps_ ? "race" : "copy not waited for";
  recorder_.fault(kind, now.site, site, [&] {
    std::string before = "a bulk copy";
    if (agent < warps_)
      before = "warp " + std::to_string(agent) + (lane < LANES ? " lane " + std::to_string(lane) : "");
    const char* cure = same_warp        ? "put __syncwarp() between them"
                       : agent < warps_ ? "put __syncthreads() between them"
                                        : "wait on its mbarrier first";
    const std::string now_does = describe(recorder_.call_site(now.site)) + ": " +
                                 recorder_.who(now.warp, now.lane) + " " + does + " byte " +
                                 std::to_string(offset) + " of shared memory";
    if (one_instruction && *did == 'w') {
      return now_does + ", as lane " + std::to_string(lane) +
             " does by the same instruction, with another value: which one stays is not defined, and no "
             "barrier "
             "helps; let one lane store, or give each lane an address of its own";
    }
    return now_does + ", which " + before + " " + did + " at " + describe(recorder_.call_site(site)) +
           ", in no certain order: " + cure;
  });
}

}  // namespace emulator
