// Beside every 2 bytes of shared memory: who wrote them last, and who has read them since.
#pragma once
#include <cstdlib>
#include <memory>
#include <vector>

#include "clock.h"
#include "report.h"

namespace emulator {

// An access that a thread makes now, or that a warp makes as one (ldmatrix, stmatrix): then `lane` is the one
// whose address is used.
struct Access {
  u32 site;
  u32 warp, lane;
  bool collective;
  u32 time;
  const Knowledge* knowledge;  // what the thread knows of the others
  bool by_copy_engine = false;  // a bulk copy: what came before must lie behind a proxy fence, too
};

class Shadow {
 public:
  static constexpr u32 GRANULE = 2;  // bytes: no access is narrower
  static constexpr u32 MAX_TIME = (1 << 20) - 1;

  Shadow(Recorder& recorder, u32 bytes, u32 warps);
  void begin_block();

  // Offsets count from the start of shared memory.
  void read(u32 offset, u32 bytes, const Access&);
  // value, memory: what is stored, and what is there now.
  void write(u32 offset, u32 bytes, const Access&, const void* value = nullptr, const void* memory = nullptr);
  // The two ends of an asynchronous copy; between them the bytes belong to nobody. `agent` and `time` say when
  // it landed: a warp's time, or the phase of the mbarrier that counts it.
  void begin_copy(u32 offset, u32 bytes, const Access&);
  void end_copy(u32 offset, u32 bytes, u32 site, u32 agent, u32 lane, u32 time);

 private:
  struct Write {
    u64 time : 20 = 0, site : 11 = 0, agent : 16 = 0, lane : 5 = 0;
    u64 collective : 1 = 0;
    u64 under_way : 1 = 0;  // by a copy that has not landed
    u64 written : 1 = 0;
    bool operator==(const Write&) const = default;
  };
  // The reads of one warp at one site and time. Older ones that the warp knows need not be kept: who knows of these
  // knows of those.
  struct Reads {
    u32 lanes;  // that read on their own
    u32 time : 20, site : 11;
    u32 collective : 1;  // read by the warp as one, too
    bool operator==(const Reads&) const = default;
  };
  // Reads of the same warp at other sites or times, in no order with the last.
  struct OtherReads {
    u32 count;
    Reads reads[3];
  };

  // What an access has been found to race with: reported once, not for every granule of it.
  struct Reported {
    Reads reads{};
    u32 fault = 0;
  };

  Recorder& recorder_;
  u32 warps_;
  std::vector<Write> writes_;
  std::vector<u32> readers_;  // warps whose entry in reads_ counts
  std::vector<std::vector<Reads>> reads_;  // [warp][granule]: the last ones
  std::vector<u32> other_readers_;  // warps whose entry in other_reads_ counts
  std::unique_ptr<OtherReads[], decltype(&std::free)> other_reads_;  // [warp][granule], touched where needed

  void put_write(u32 offset, u32 bytes, const Access&, bool under_way, bool same_value);
  bool reaches_copy_engine(u32 warp, u32 lanes, u32 time, const Access& now) const;
  void remember_read(u32 granule, const Access&);
  OtherReads& other_reads(u32 warp, u32 granule) { return other_reads_[warp * writes_.size() + granule]; }
  void check_reads(const Reads&, u32 warp, u32 granule, const Access& now, Reported& reported);
  static bool happened_before(u32 agent, u32 lanes, u32 time, const Access& now);
  static u32 lanes_of(const Write& write) { return write.collective ? ~0u : 1u << write.lane; }
  static bool happened_before(const Write&, const Access& now, bool now_writes);
  static bool happened_before(u32 warp, const Reads&, const Access& now);

  // All return the fault's number.
  u32 report_read_of(const Write&, u32 offset, const Access& now);
  u32 report_unfenced(u32 site, u32 offset, const Access& now, const char* did);
  u32 report_under_way(const Write&, u32 offset, const Access& now, const char* does);
  // lane: LANES if the warp read as one.
  u32 report_race(u32 agent, u32 lane, u32 site, u32 offset, const Access& now, const char* did,
                  const char* does);
  // This pair of bytes, and the threads at both ends, take part in a fault. lanes: of the agent that came before.
  void mark_bytes(u32 fault, u32 granule, const Access& now, u32 agent, u32 lanes);
  u32 racing_lanes(u32 warp, const Reads&, const Access& now) const;
};

}  // namespace emulator
