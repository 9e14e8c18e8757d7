// Puts warp instructions together again: the lanes of a warp run one after the other, but what they do at one
// place is one instruction of the hardware.
#pragma once
#include <vector>

#include "report.h"

namespace emulator {

// A lane's k-th visit to a call site between two collectives belongs to the site's k-th instruction.
class WarpTrace {
 public:
  void add(u32 site, u32 lane, u64 address);
  // Hands over all instructions since the last call. Shared-memory addresses count from `shared_start`.
  void finish(Recorder&, u32 warp, u32 shared_start);

 private:
  struct Instruction {
    u32 site, mask;
    u64 address[LANES];
  };
  std::vector<Instruction> open_;
  u32 next_[LANES] = {};  // where in open_ the lane's next visit most likely belongs
};

}  // namespace emulator
