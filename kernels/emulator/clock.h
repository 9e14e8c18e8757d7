// Who knows what has happened: vector clocks.
//
// Every thread counts its own time; a warp-wide synchronisation moves all lanes of a warp on together. A
// thread knows, for each warp, up to which time everything its lanes did happened before what the thread does
// now. Barriers hand this knowledge on. Two accesses race if neither is known to the other: it does not matter
// which one happened to run first.
#pragma once
#include <algorithm>
#include <vector>

#include "cuda.h"

namespace emulator {

constexpr u32 LANES = 32;

class Clock {
 public:
  // An agent is a warp, or, behind the warps, the copies that an mbarrier counts.
  u32 all_lanes(u32 agent) const { return agent < agents_.size() ? agents_[agent] : 0; }
  void learn_all_lanes(u32 agent, u32 time) { raise(agents_, agent, time); }
  void learn_lane(u32 warp, u32 lane, u32 time) { raise(lanes_, warp * LANES + lane, time); }

  // Is what each lane of the mask had done by `time` known?
  bool knows(u32 agent, u32 lane_mask, u32 time) const {
    if (time <= all_lanes(agent))
      return true;
    for (; lane_mask; lane_mask &= lane_mask - 1) {
      if (lane_time(agent, __builtin_ctz(lane_mask)) < time)
        return false;
    }
    return true;
  }
  // Is all of another clock known, but for one agent and one lane?
  bool covers(const Clock& other, u32 agent, u32 warp, u32 lane) const {
    for (u32 i = 0; i < other.agents_.size(); i++) {
      if (i != agent && all_lanes(i) < other.agents_[i])
        return false;
    }
    for (u32 i = 0; i < other.lanes_.size(); i++) {
      const u32 time = other.lanes_[i];
      if (i != warp * LANES + lane && time > all_lanes(i / LANES) && time > lane_time(i / LANES, i % LANES))
        return false;
    }
    return true;
  }
  void join(const Clock& other) {
    raise_all(agents_, other.agents_);
    raise_all(lanes_, other.lanes_);
  }

 private:
  std::vector<u32> agents_;
  std::vector<u32>
      lanes_;  // what is known of single lanes beyond their warp; empty as long as no mbarrier is used

  u32 lane_time(u32 warp, u32 lane) const {
    const u32 i = warp * LANES + lane;
    return i < lanes_.size() ? lanes_[i] : 0;
  }
  static void raise(std::vector<u32>& times, u32 i, u32 time) {
    if (i >= times.size())
      times.resize(i + 1, 0);
    times[i] = std::max(times[i], time);
  }
  static void raise_all(std::vector<u32>& times, const std::vector<u32>& others) {
    if (others.size() > times.size())
      times.resize(others.size(), 0);
    for (std::size_t i = 0; i < others.size(); i++)
      times[i] = std::max(times[i], others[i]);
  }
};

// What a thread, a warp or a barrier knows to have happened; and what of it lies behind a proxy fence, so that the
// copy engine sees it, too.
struct Knowledge {
  Clock seen, fenced;

  void join(const Knowledge& other) {
    seen.join(other.seen);
    fenced.join(other.fenced);
  }
};

}  // namespace emulator
