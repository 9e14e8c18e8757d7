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

// A fault is one kind of mistake at one site, in which another site may take part.
struct Fault {
  const char* kind;
  CallSite site, other;  // other: without a file if there is none
  std::string message;  // of the first time
  u64 count;
  u64 instruction = 0;  // of a crash: where in the kernel's library, for the caller to find the line
};

struct BlockReport {
  std::vector<Fault> faults;
  std::vector<AccessRecord> accesses;
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
  BlockReport end_block() { return std::move(report_); }
  std::string who(u32 warp, u32 lane) const;  // "block 0 0 0 warp 1 lane 5 (thread 37)"

  u32 site(const Call&);
  const CallSite& call_site(u32 site) const { return sites_[site]; }

  // `message` is called for the first fault of its kind and sites.
  template <class Message> void fault(const char* kind, u32 site, u32 other, Message&& message) {
    if (!is_known_fault(kind, site, other))
      report_.faults.back().message = message();
  }

  void name_instruction(u64 instruction) { report_.faults.back().instruction = instruction; }
  bool any_fault() const { return !report_.faults.empty(); }
  bool takes_part_in_a_fault(u32 site) const;

  void count(u32 site, u64 bytes = 0, u64 sectors = 0);
  const std::vector<Count>& counts() const { return counts_; }  // by site, of all blocks
  AccessRecord& record_access(u32 site, u32 warp);  // the caller fills in mask and addresses

 private:
  struct CachedSite {
    Operation operation = Operation::COUNT;
    u32 bytes = 0, number = 0;
    const char* file = nullptr;
    u32 line = 0, column = 0;
    u64 way = 0;
  };
  FileNames& files_;
  u32 block_ = 0;
  dim3 index_;
  std::vector<CallSite> sites_;
  std::vector<unsigned char> file_numbers_;
  std::vector<Count> counts_;
  CachedSite cache_[1024];
  BlockReport report_;

  u32 find_or_add(const Call&);
  bool is_known_fault(const char* kind, u32 site, u32 other);  // counts it if so, else adds it
};

}  // namespace emulator
