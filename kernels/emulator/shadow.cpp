#include "shadow.h"

#include <cstring>

namespace emulator {

constexpr u32 NO_FAULT = ~0u;

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
  u32 fault = NO_FAULT;  // of what was checked last: an access is reported once, not for every granule of it
  for (u32 granule = offset / GRANULE; granule < (offset + bytes) / GRANULE; granule++) {
    const Write& write = writes_[granule];
    if (!any_checked || write != checked) {
      fault = NO_FAULT;
      if (!write.written || write.under_way || !happened_before(write, now, false))
        fault = report_read_of(write, granule * GRANULE, now);
      checked = write;
      any_checked = true;
    }
    if (fault != NO_FAULT)
      mark_bytes(fault, granule, now, write.agent, write.written ? lanes_of(write) : 0);
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
  u32 fault = NO_FAULT;
  Reported reported;
  for (u32 granule = offset / GRANULE; granule < (offset + bytes) / GRANULE; granule++) {
    const Write& write = writes_[granule];
    if (write.written && write != checked) {
      // Lanes of one store that agree on the value: whichever comes last, the same stays.
      const bool agree = same_value && write.agent == now.warp && write.site == now.site;
      fault = NO_FAULT;
      if (write.under_way) {
        fault = report_under_way(write, granule * GRANULE, now, "writes over");
      } else if (!agree && !happened_before(write, now, true)) {
        fault = report_race(write.agent, write.lane, write.site, granule * GRANULE, now, "wrote", "writes");
      } else if (write.agent < warps_ &&
                 !reaches_copy_engine(write.agent, lanes_of(write), write.time, now)) {
        fault = report_unfenced(write.site, granule * GRANULE, now, "wrote");
      }
      checked = write;
    }
    if (write.written && fault != NO_FAULT)
      mark_bytes(fault, granule, now, write.agent, lanes_of(write));
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

void Shadow::check_reads(const Reads& reads, u32 warp, u32 granule, const Access& now, Reported& reported) {
  if (!(reads == reported.reads)) {
    const bool known = reads.time <= now.knowledge->seen.all_lanes(warp) || happened_before(warp, reads, now);
    if (known && reaches_copy_engine(warp, reads.collective ? ~0u : reads.lanes, reads.time, now))
      return;
    const u32 lanes = racing_lanes(warp, reads, now) & reads.lanes;
    const u32 lane = lanes ? __builtin_ctz(lanes) : LANES;
    reported.reads = reads;
    reported.fault = known ? report_unfenced(reads.site, granule * GRANULE, now, "read")
                           : report_race(warp, lane, reads.site, granule * GRANULE, now, "read", "writes");
  }
  mark_bytes(reported.fault, granule, now, warp, racing_lanes(warp, reads, now));
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
// A fault in the order of accesses is put together with others of the same cause, and told in one sentence, by
// kda_learn/machines/causes.py: what is said here is who came first.
void Shadow::mark_bytes(u32 number, u32 granule, const Access& now, u32 agent, u32 lanes) {
  Fault& fault = recorder_.fault_at(number);
  fault.granules.add(granule);
  for (u32 left = now.collective ? ~0u : 1u << now.lane; left; left &= left - 1)
    fault.threads.add(now.warp * LANES + __builtin_ctz(left));
  if (agent >= warps_)
    return;  // a bulk copy
  for (; lanes; lanes &= lanes - 1)
    fault.threads.add(agent * LANES + __builtin_ctz(lanes));
}

u32 Shadow::racing_lanes(u32 warp, const Reads& reads, const Access& now) const {
  u32 result = 0;
  for (u32 lane = 0; lane < LANES; lane++) {
    const u32 bit = 1u << lane;
    const bool reads_it = reads.collective || (reads.lanes & bit);
    const bool itself = warp == now.warp && lane == now.lane && !now.collective;
    if (reads_it && !itself && !now.knowledge->seen.knows(warp, bit, reads.time))
      result |= bit;
  }
  return result;
}

static std::string shared_byte(u32 offset) { return "byte " + std::to_string(offset) + " of shared memory"; }
static std::string warp_of(u32 warp, u32 lane) {
  return "warp " + std::to_string(warp) + (lane < LANES ? " lane " + std::to_string(lane) : "");
}

u32 Shadow::report_read_of(const Write& write, u32 offset, const Access& now) {
  if (write.under_way)
    return report_under_way(write, offset, now, "reads");
  if (write.written)
    return report_race(write.agent, write.lane, write.site, offset, now, "wrote", "reads");
  return recorder_.fault("uninitialised read", now.site, Recorder::NO_SITE,
                         [&] { return recorder_.who(now.warp, now.lane) + " reads " + shared_byte(offset); });
}

u32 Shadow::report_unfenced(u32 site, u32 offset, const Access& now, const char* did) {
  return recorder_.fault("missing fence", now.site, site, [&] {
    const bool read_only = *did == 'r';
    return describe(recorder_.call_site(now.site)) + ": " + recorder_.who(now.warp, now.lane) +
           " starts a bulk copy over " + shared_byte(offset) + ", which threads " + did + " at " +
           describe(recorder_.call_site(site)) +
           ": put fence_proxy_async() between them, after the barrier and before the copy" +
           (read_only ? " (PTX asks for it, and here the CPU machine is stricter than today's GPUs, on which "
                        "a barrier behind the reads has sufficed)"
                      : "");
  });
}

u32 Shadow::report_under_way(const Write& write, u32 offset, const Access& now, const char* does) {
  return recorder_.fault("copy not waited for", now.site, write.site, [&] {
    return recorder_.who(now.warp, now.lane) + " " + does + " " + shared_byte(offset) + ", where a copy of " +
           warp_of(write.agent, write.lane) + " is under way";
  });
}

u32 Shadow::report_race(u32 agent, u32 lane, u32 site, u32 offset, const Access& now, const char* did,
                        const char* does) {
  const bool same_warp = agent == now.warp;
  const char* kind = same_warp ? "race within a warp" : agent < warps_ ? "race" : "copy not waited for";
  return recorder_.fault(kind, now.site, site, [&] {
    return recorder_.who(now.warp, now.lane) + " " + does + " " + shared_byte(offset) + ", which " +
           (agent < warps_ ? warp_of(agent, lane) : std::string("a bulk copy")) + " " + did;
  });
}

}  // namespace emulator
