#include "warp_trace.h"

#include <algorithm>

namespace emulator {

void WarpTrace::add(const Happening& is, Recorder& recorder, u32 lane, u64 address, u32 bytes) {
  const u32 bit = 1u << lane;
  const auto belongs = [&](const Instruction& x) { return x.is == is && !(x.mask & bit); };
  std::size_t i = next_[lane];
  if (i >= open_.size() || !belongs(open_[i])) {
    i = std::find_if(open_.begin(), open_.end(), belongs) - open_.begin();
    if (i == open_.size()) {
      // Lanes that came before have passed it by: it belongs in front of what they did next.
      i = std::min<std::size_t>(next_[lane], open_.size());
      open_.insert(open_.begin() + i, {is, recorder.next_order(), 0, 0, {}});
      for (u32& next : next_)
        next += next > i;
    }
  }
  open_[i].mask |= bit;
  open_[i].bytes += bytes;
  open_[i].address[lane] = address;
  next_[lane] = static_cast<u32>(i + 1);
}

// The 32-byte sectors of global memory that an instruction touches. No lane touches two: all are aligned.
static u64 count_sectors(const u64* address, u32 mask) {
  constexpr u64 SECTOR = 32;
  u64 sectors[LANES];
  u32 count = 0;
  for (u32 lane = 0; lane < LANES; lane++) {
    if (mask >> lane & 1)
      sectors[count++] = address[lane] / SECTOR;
  }
  std::sort(sectors, sectors + count);
  return std::unique(sectors, sectors + count) - sectors;
}

// Instructions get their numbers in the order in which they stand, not in which their lanes happened to come. Only
// what happens at an mbarrier is told as it happens: lanes that wait there do so while others go on.
void WarpTrace::put_in_order() {
  const auto is_fixed = [](const Instruction& x) { return x.is.address >= 0; };
  std::vector<u32> orders;
  for (const Instruction& x : open_) {
    if (!is_fixed(x))
      orders.push_back(x.order);
  }
  std::sort(orders.begin(), orders.end());
  std::size_t i = 0;
  for (Instruction& x : open_) {
    if (!is_fixed(x))
      x.order = orders[i++];
  }
}

void WarpTrace::finish(Recorder& recorder, u32 warp, u32 shared_start) {
  put_in_order();
  for (const Instruction& x : open_) {
    const CallSite& at = recorder.call_site(x.is.site);
    const u32 lanes = __builtin_popcount(x.mask);
    if (x.is.what != Event::NONE) {
      recorder.record_event(x.is, warp, x.mask, x.bytes, x.order);
      continue;
    }
    if (at.operation == Operation::LDG || at.operation == Operation::STG) {
      recorder.count(x.is.site, u64(lanes) * at.bytes, count_sectors(x.address, x.mask));
      continue;
    }
    recorder.count(x.is.site);
    AccessRecord& record = recorder.record_access(x.is.site, warp, x.order);
    record.mask = x.mask;
    for (u32 lane = 0; lane < LANES; lane++) {
      if (x.mask >> lane & 1)
        record.address[lane] = static_cast<int>(x.address[lane] - shared_start);
    }
    if (at.operation == Operation::CP_ASYNC_CG || at.operation == Operation::CP_ASYNC_CA)
      recorder.record_event({x.is.site, Event::ISSUE}, warp, x.mask, lanes * at.bytes, x.order);
  }
  open_.clear();
  std::fill(std::begin(next_), std::end(next_), 0);
}

}  // namespace emulator
