#include "warp_trace.h"

namespace emulator {

void WarpTrace::add(u32 site, u32 lane, u64 address) {
  const u32 bit = 1u << lane;
  const auto belongs = [&](const Instruction& x) { return x.site == site && !(x.mask & bit); };
  std::size_t i = next_[lane];
  if (i >= open_.size() || !belongs(open_[i])) {
    i = std::find_if(open_.begin(), open_.end(), belongs) - open_.begin();
    if (i == open_.size()) {
      // Lanes that came before have passed it by: it belongs in front of what they did next.
      i = std::min<std::size_t>(next_[lane], open_.size());
      open_.insert(open_.begin() + i, {site, 0, {}});
      for (u32& next : next_)
        next += next > i;
    }
  }
  open_[i].mask |= bit;
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

void WarpTrace::finish(Recorder& recorder, u32 warp, u32 shared_start) {
  for (const Instruction& x : open_) {
    const CallSite& at = recorder.call_site(x.site);
    if (at.operation == Operation::LDG || at.operation == Operation::STG) {
      recorder.count(x.site, u64(__builtin_popcount(x.mask)) * at.bytes, count_sectors(x.address, x.mask));
      continue;
    }
    recorder.count(x.site);
    AccessRecord& record = recorder.record_access(x.site, warp);
    record.mask = x.mask;
    for (u32 lane = 0; lane < LANES; lane++) {
      if (x.mask >> lane & 1)
        record.address[lane] = static_cast<int>(x.address[lane] - shared_start);
    }
  }
  open_.clear();
  std::fill(std::begin(next_), std::end(next_), 0);
}

}  // namespace emulator
