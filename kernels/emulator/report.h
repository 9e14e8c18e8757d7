// What a launch found and counted: faults, instruction counts, shared-memory accesses.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "clock.h"
#include "runtime.h"

namespace emulator {

// An operation that a thread calls now.
struct Call {
  Operation operation;
  Site at;
  u32 bytes;  // per lane
  const Frame* frame;

  // The way to it through functions, as a number; 0: it stands in the kernel itself.
  u64 way() const {
    u64 digest = 0;
    for (const Frame* outer = frame; outer; outer = outer->outer)
      digest = (digest + outer->called_at.line() * 1024 + outer->called_at.column()) * 0x9e3779b97f4a7c15;
    return digest;
  }
  bool same_place(const Call& other) const {
    return emulator::same_place(at, other.at) && (frame == other.frame || way() == other.way());
  }
};

// One operation as it stands in the source, and the way to it: the unit of counting and reporting.
struct CallSite {
  Operation operation;
  Site at;
  u32 bytes;  // per lane
  u64 way;
  std::shared_ptr<const std::vector<Site>> callers;  // from the innermost; null: none

  bool operator==(const CallSite& other) const {
    return operation == other.operation && bytes == other.bytes && way == other.way &&
           same_place(at, other.at);
  }
};
std::string describe(const CallSite&);  // "s12_pad.cu:120 (lds), called at s12_pad.cu:180"
std::string operation_names();  // all, a blank between two

struct Count {
  u64 instructions = 0;  // of whole warps
  u64 bytes = 0, sectors = 0;  // of global memory: asked for by the lanes; 32-byte sectors touched
};

// One warp instruction on shared memory, as kda_learn/machines/emulator.py reads it.
struct AccessRecord {
  u32 line, site;
  unsigned char file, operation, bytes, warp;
  u32 block, order, mask;
  int address[LANES];  // from the start of dynamic shared memory; -1: the lane stands aside
};
static_assert(sizeof(AccessRecord) == 152);

// What happens to threads and copies at a site that moves no bytes of its own.
enum class Event : unsigned char { NONE, ARRIVE, WAIT, RELEASE, COMPLETE, ISSUE, COMMIT, LAND };
constexpr u32 NO_WARP = 255;

struct Happening {
  u32 site;
  Event what = Event::NONE;
  int address = -1;  // of the mbarrier, or of where a bulk copy goes to; -1: of neither
  u32 phase = 0;  // of the mbarrier; of cp_async_wait the groups that may stay under way
  bool operator==(const Happening&) const = default;
};

// As kda_learn/machines/emulator.py reads it.
struct EventRecord {
  u32 line, site;
  unsigned char file, operation, what, warp;
  u32 block, order, mask;
  int address;
  u32 phase, bytes;
};
static_assert(sizeof(EventRecord) == 36);

// Numbers, as bits: of blocks, of threads of a block, or of pairs of bytes.
class Bits {
 public:
  void add(u32 number) {
    if (number / 64 >= words_.size())
      words_.resize(number / 64 + 1);
    words_[number / 64] |= u64(1) << number % 64;
  }
  void add(const Bits& other);
  std::string hexadecimal() const;

 private:
  std::vector<u64> words_;
};

// A fault is one kind of mistake at one site, in which another site may take part.
struct Fault {
  const char* kind;
  CallSite site, other;  // other: without a file if there is none
  std::string message;  // of the first time
  u64 count;
  u32 block, ordinal;  // the first block that has it, and how many it had before
  Bits blocks;  // that have it
  Bits granules, threads;  // of a fault in the order of accesses: see shadow.h
  u64 instruction = 0;  // of a crash: where in the kernel's library, for the caller to find the line
};

// The faults of all blocks, each once. Which block came first in time shows nowhere.
class Faults {
 public:
  void add(Fault);
  std::vector<Fault> in_order();

 private:
  std::mutex mutex_;
  std::vector<Fault> faults_;
};

struct BlockReport {
  std::vector<Fault> faults;
  std::vector<AccessRecord> accesses;
  std::vector<EventRecord> events;
};

// The names of the files that sites are in, numbered in the order in which they come up.
class FileNames {
 public:
  unsigned char number(const char* name);
  const std::vector<std::string>& all() const { return names_; }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_;
};

// Collects what the blocks of one OS thread do. Sites are numbered, so that the shadow memory can keep a number
// per byte pair.
class Recorder {
 public:
  static constexpr u32 MAX_SITES = 1 << 11, SITES_WITHOUT_WAY = 256;
  static constexpr u32 NO_SITE = ~0u;

  explicit Recorder(FileNames& files) : files_(files) {}

  void begin_block(u32 number, dim3 index);
  BlockReport end_block();
  std::string who(u32 warp, u32 lane) const;  // "block 0 0 0 warp 1 lane 5 (thread 37)"

  u32 site(const Call&);
  const CallSite& call_site(u32 site) const { return sites_[site]; }

  // `message` is called for the first fault of its kind and sites.
  // Returns the fault's number in this block.
  template <class Message> u32 fault(const char* kind, u32 site, u32 other, Message&& message) {
    const u32 number = count_fault(kind, site, other);
    if (report_.faults[number].message.empty())
      report_.faults[number].message = message();
    return number;
  }
  Fault& fault_at(u32 number) { return report_.faults[number]; }

  void name_instruction(u64 instruction) { report_.faults.back().instruction = instruction; }
  bool any_fault() const { return !report_.faults.empty(); }
  bool takes_part_in_a_fault(u32 site) const;

  void count(u32 site, u64 bytes = 0, u64 sectors = 0);
  const std::vector<Count>& counts() const { return counts_; }  // by site, of all blocks
  // When something happens in a block, counted in steps that are traced.
  u32 next_order() { return order_++; }
  u32 steps() const { return order_; }
  AccessRecord& record_access(u32 site, u32 warp, u32 order);  // the caller fills in mask and addresses
  void record_event(const Happening&, u32 warp, u32 mask, u32 bytes, u32 order);
  void record_event(const Happening& x, u32 warp, u32 mask, u32 bytes) {
    record_event(x, warp, mask, bytes, next_order());
  }

 private:
  struct CachedSite {
    Operation operation = Operation::COUNT;
    u32 bytes = 0, number = 0;
    const char* file = nullptr;
    u32 line = 0, column = 0;
    u64 way = 0;
  };
  FileNames& files_;
  u32 block_ = 0, order_ = 0;
  dim3 index_;
  std::vector<CallSite> sites_;
  std::vector<unsigned char> file_numbers_;
  std::vector<Count> counts_;
  CachedSite cache_[1024];
  BlockReport report_;

  u32 find_or_add(const Call&);
  u32 count_fault(const char* kind, u32 site, u32 other);
};

}  // namespace emulator
