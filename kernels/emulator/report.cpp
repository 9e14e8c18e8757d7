#include "report.h"

#include <algorithm>
#include <iterator>

namespace emulator {

static const char* const OPERATION_NAMES[] = {
    "lds",
    "sts",
    "ldg",
    "stg",
    "ldmatrix.x1",
    "ldmatrix.x1.trans",
    "ldmatrix.x2",
    "ldmatrix.x2.trans",
    "ldmatrix.x4",
    "ldmatrix.x4.trans",
    "stmatrix.x1",
    "stmatrix.x1.trans",
    "stmatrix.x2",
    "stmatrix.x2.trans",
    "stmatrix.x4",
    "stmatrix.x4.trans",
    "movmatrix",
    "mma",
    "shfl",
    "syncwarp",
    "syncthreads",
    "cp.async.cg",
    "cp.async.ca",
    "cp.async.bulk",
    "mbarrier.init",
    "mbarrier.inval",
    "mbarrier.arrive",
    "mbarrier.wait",
    "cp.async.commit",
    "cp.async.wait",
};
static_assert(std::size(OPERATION_NAMES) == static_cast<std::size_t>(Operation::COUNT));

static std::string place(const Site& at) {
  const char* slash = std::strrchr(at.file_name(), '/');
  return std::string(slash ? slash + 1 : at.file_name()) + ":" + std::to_string(at.line());
}

std::string describe(const CallSite& site) {
  if (!site.at.line())
    return "the kernel";
  std::string text = place(site.at) + " (" + OPERATION_NAMES[static_cast<int>(site.operation)];
  if (site.callers) {
    for (const Site& caller : *site.callers)
      text += ", called at " + place(caller);
  }
  return text + ")";
}

std::string operation_names() {
  std::string names;
  for (const char* name : OPERATION_NAMES)
    names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}

unsigned char FileNames::number(const char* name) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found != names_.end())
    return static_cast<unsigned char>(found - names_.begin());
  if (names_.size() == 255)
    return 255;  // no kernel is spread over so many files
  names_.emplace_back(name);
  return static_cast<unsigned char>(names_.size() - 1);
}

u32 Recorder::site(const Call& call) {
  const u64 way = call.frame ? call.way() : 0;
  const u32 line = call.at.line(), column = call.at.column();
  const char* const file = call.at.file_name();
  const u32 slot = (line + static_cast<u32>(call.operation) * 61 + static_cast<u32>(way >> 40)) %
                   std::size(cache_);  // few collisions
  CachedSite& cached = cache_[slot];
  if (cached.line != line || cached.column != column || cached.file != file ||
      cached.operation != call.operation || cached.bytes != call.bytes || cached.way != way)
    cached = {call.operation, call.bytes, find_or_add(call), file, line, column, way};
  return cached.number;
}
// Where a kernel has more sites than are counted, those that come last are told apart by their place alone.
u32 Recorder::find_or_add(const Call& call) {
  CallSite wanted{call.operation, call.at, call.bytes, call.way(), nullptr};
  for (int attempt = 0; attempt < 2; attempt++) {
    const auto found = std::find(sites_.begin(), sites_.end(), wanted);
    if (found != sites_.end())
      return static_cast<u32>(found - sites_.begin());
    if (sites_.size() < MAX_SITES - (wanted.way ? SITES_WITHOUT_WAY : 0))
      break;
    wanted.way = 0;
  }
  if (sites_.size() == MAX_SITES)
    return MAX_SITES - 1;
  if (wanted.way) {
    std::vector<Site> callers;
    for (const Frame* frame = call.frame; frame; frame = frame->outer)
      callers.push_back(frame->called_at);
    wanted.callers = std::make_shared<const std::vector<Site>>(std::move(callers));
  }
  sites_.push_back(wanted);
  file_numbers_.push_back(wanted.at.line() ? files_.number(wanted.at.file_name()) : 0);
  counts_.emplace_back();
  return static_cast<u32>(sites_.size() - 1);
}

void Recorder::count(u32 site, u64 bytes, u64 sectors) {
  counts_[site].instructions++;
  counts_[site].bytes += bytes;
  counts_[site].sectors += sectors;
}

AccessRecord& Recorder::record_access(u32 site, u32 warp, u32 order) {
  const CallSite& at = sites_[site];
  AccessRecord record{};
  record.line = at.at.line();
  record.site = site;
  record.file = file_numbers_[site];
  record.operation = static_cast<unsigned char>(at.operation);
  record.bytes = static_cast<unsigned char>(at.bytes);
  record.warp = static_cast<unsigned char>(warp);
  record.block = block_;
  record.order = order;
  std::fill(std::begin(record.address), std::end(record.address), -1);
  report_.accesses.push_back(record);
  return report_.accesses.back();
}

void Recorder::record_event(const Happening& x, u32 warp, u32 mask, u32 bytes, u32 order) {
  const CallSite& at = sites_[x.site];
  report_.events.push_back({at.at.line(), x.site, file_numbers_[x.site],
                            static_cast<unsigned char>(at.operation), static_cast<unsigned char>(x.what),
                            static_cast<unsigned char>(warp), block_, order, mask, x.address, x.phase,
                            bytes});
}

BlockReport Recorder::end_block() {
  const auto earlier = [](const auto& a, const auto& b) { return a.order < b.order; };
  std::stable_sort(report_.accesses.begin(), report_.accesses.end(), earlier);
  std::stable_sort(report_.events.begin(), report_.events.end(), earlier);
  return std::move(report_);
}

std::string Recorder::who(u32 warp, u32 lane) const {
  const std::string block =
      std::to_string(index_.x) + " " + std::to_string(index_.y) + " " + std::to_string(index_.z);
  return "block " + block + " warp " + std::to_string(warp) + " lane " + std::to_string(lane) + " (thread " +
         std::to_string(warp * LANES + lane) + ")";
}

void Recorder::begin_block(u32 number, dim3 index) {
  block_ = number;
  order_ = 0;
  index_ = index;
  report_ = {};
}

bool Recorder::takes_part_in_a_fault(u32 site) const {
  const CallSite& at = sites_[site];
  return std::any_of(report_.faults.begin(), report_.faults.end(),
                     [&](const Fault& fault) { return fault.site == at || fault.other == at; });
}

u32 Recorder::count_fault(const char* kind, u32 site, u32 other) {
  const CallSite at = sites_[site], with = other == NO_SITE ? CallSite{} : sites_[other];
  const u32 known = static_cast<u32>(report_.faults.size());
  for (u32 i = 0; i < known; i++) {
    Fault& fault = report_.faults[i];
    if (fault.kind != kind || !(fault.site == at) || !(fault.other == with))
      continue;
    fault.count++;
    return i;
  }
  report_.faults.push_back({kind, at, with, "", 1, block_, known, {}, {}, {}});
  report_.faults.back().blocks.add(block_);
  return known;
}

// ---- faults of all blocks ----
void Bits::add(const Bits& other) {
  words_.resize(std::max(words_.size(), other.words_.size()));
  for (std::size_t i = 0; i < other.words_.size(); i++)
    words_[i] |= other.words_[i];
}
std::string Bits::hexadecimal() const {
  std::string digits = "0";
  for (std::size_t i = words_.size(); i-- > 0;) {
    for (int shift = 60; shift >= 0; shift -= 4)
      digits += "0123456789abcdef"[words_[i] >> shift & 15];
  }
  return digits;
}

void Faults::add(Fault fault) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Fault& known : faults_) {
    if (known.kind != fault.kind || !(known.site == fault.site) || !(known.other == fault.other))
      continue;
    if (fault.block < known.block)
      std::swap(known, fault);
    known.count += fault.count;
    known.blocks.add(fault.blocks);
    known.granules.add(fault.granules);
    known.threads.add(fault.threads);
    return;
  }
  faults_.push_back(std::move(fault));
}
std::vector<Fault> Faults::in_order() {
  std::sort(faults_.begin(), faults_.end(), [](const Fault& a, const Fault& b) {
    return a.block < b.block || (a.block == b.block && a.ordinal < b.ordinal);
  });
  return faults_;
}

}  // namespace emulator
