// Puts warp instructions together again: the lanes of a warp run one after the other, but what they do at one
// place is one instruction of the hardware.
#pragma once
#include <vector>

#include "report.h"

namespace emulator {

// A lane's k-th visit to a call site between two collectives belongs to the site's k-th instruction. So do lanes
// that arrive at a barrier, or wait there, or go on, at one place.
class WarpTrace {
 public:
  // address: of an access; bytes: of an event, added up over the lanes.
  void add(const Happening&, Recorder&, u32 lane, u64 address, u32 bytes = 0);
  // Hands over all instructions since the last call. Shared-memory addresses count from `shared_start`.
  void finish(Recorder&, u32 warp, u32 shared_start);

 private:
  struct Instruction {
    Happening is;
    u32 order;  // when its first lane came
    u32 mask, bytes;
    u64 address[LANES];
  };
  std::vector<Instruction> open_;
  u32 next_[LANES] = {};  // where in open_ the lane's next visit most likely belongs

  void put_in_order();
};

}  // namespace emulator
