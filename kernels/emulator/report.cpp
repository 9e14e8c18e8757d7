#include "report.h"

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

AccessRecord& Recorder::record_access(u32 site, u32 warp) {
  const CallSite& at = sites_[site];
  AccessRecord record{};
  record.line = at.at.line();
  record.site = site;
  record.file = file_numbers_[site];
  record.operation = static_cast<unsigned char>(at.operation);
  record.bytes = static_cast<unsigned char>(at.bytes);
  record.warp = static_cast<unsigned char>(warp);
  record.block = block_;
  record.order = static_cast<u32>(report_.accesses.size());
  std::fill(std::begin(record.address), std::end(record.address), -1);
  report_.accesses.push_back(record);
  return report_.accesses.back();
}

std::string Recorder::who(u32 warp, u32 lane) const {
  const std::string block =
      std::to_string(index_.x) + " " + std::to_string(index_.y) + " " + std::to_string(index_.z);
  return "block " + block + " warp " + std::to_string(warp) + " lane " + std::to_string(lane) + " (thread " +
         std::to_string(warp * LANES + lane) + ")";
}

void Recorder::begin_block(u32 number, dim3 index) {
  block_ = number;
  index_ = index;
  report_ = {};
}

bool Recorder::takes_part_in_a_fault(u32 site) const {
  const CallSite& at = sites_[site];
  return std::any_of(report_.faults.begin(), report_.faults.end(),
                     [&](const Fault& fault) { return fault.site == at || fault.other == at; });
}

bool Recorder::is_known_fault(const char* kind, u32 site, u32 other) {
  const CallSite at = sites_[site], with = other == NO_SITE ? CallSite{} : sites_[other];
  for (Fault& fault : report_.faults) {
    if (fault.kind != kind || !(fault.site == at) || !(fault.other == with))
      continue;
    fault.count++;
    return true;
  }
  report_.faults.push_back({kind, at, with, "", 1});
  return false;
}

}  // namespace emulator
