// A launch: blocks shared out to threads of the operating system, and their reports put together. What comes
// out depends on the arguments and the seed alone, never on which block ran where.
#include <map>

#include "block.h"
#include "workers.h"

namespace emulator {

struct LaunchResult {
  std::string json;  // {"files": [name], "faults": [[...]], "sites": [[...]], "counts": [[...]]}
  std::vector<AccessRecord> accesses;
  std::vector<EventRecord> events;
};

namespace {

void on_crash(int signal_number, void* address, void* instruction) {
  if (running_block)
    running_block->crash(signal_number, address, instruction);
}

// ---- JSON ----
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return result + "\"";
}
// "file",line
std::string place_of(const Site& at) { return quoted(at.file_name()) + "," + std::to_string(at.line()); }
void append(std::string& items, const std::string& item) { items += (items.empty() ? "" : ",\n") + item; }

// [file, line, column, operation, bytes of a lane, [file, line and column of each call]]
std::string to_json(const CallSite& site) {
  std::string callers;
  if (site.callers) {
    for (const Site& caller : *site.callers)
      append(callers, "[" + place_of(caller) + "," + std::to_string(caller.column()) + "]");
  }
  return "[" + place_of(site.at) + "," + std::to_string(site.at.column()) + "," +
         std::to_string(static_cast<int>(site.operation)) + "," + std::to_string(site.bytes) + ",[" +
         callers + "]]";
}
// [site, instructions, bytes, sectors]
std::string to_json(u32 site, const Count& count) {
  return "[" + std::to_string(site) + "," + std::to_string(count.instructions) + "," +
         std::to_string(count.bytes) + "," + std::to_string(count.sectors) + "]";
}
// [kind, message, site, other site, count, first block, blocks, pairs of bytes, threads, instruction]
std::string to_json(const Fault& fault) {
  return "[" + quoted(fault.kind) + "," + quoted(fault.message) + "," + to_json(fault.site) + "," +
         to_json(fault.other) + "," + std::to_string(fault.count) + "," + std::to_string(fault.block) + "," +
         quoted(fault.blocks.hexadecimal()) + "," + quoted(fault.granules.hexadecimal()) + "," +
         quoted(fault.threads.hexadecimal()) + "," + std::to_string(fault.instruction) + "]";
}
std::string to_json(const std::vector<std::string>& names) {
  std::string items;
  for (const std::string& name : names)
    append(items, quoted(name));
  return items;
}

// The call sites of all threads of the operating system, each of which has numbered its own.
struct Sites {
  std::map<std::string, u32> found;  // a site's JSON and its number, in the order in which they come up
  std::vector<std::pair<u32, Count>> counts;

  u32 number(const std::string& site) {
    return found.emplace(site, static_cast<u32>(found.size())).first->second;
  }
  // For each number the place among all in the order of their JSON, which does not depend on who came first.
  std::vector<u32> places() const {
    std::vector<u32> result(found.size());
    u32 place = 0;
    for (const auto& [site, number] : found)
      result[number] = place++;
    return result;
  }
};

// Appends a block's accesses or events, with files numbered in the order of `sorted`.
template <class Record>
void append(std::vector<Record>& all, std::vector<Record>& records, const std::vector<u32>& places,
            const std::vector<std::string>& found, const std::vector<std::string>& sorted) {
  for (Record& record : records) {
    record.site = places[record.site];
    const auto place = std::find(sorted.begin(), sorted.end(), found[record.file]);
    record.file = static_cast<unsigned char>(place - sorted.begin());
  }
  all.insert(all.end(), records.begin(), records.end());
  records = {};
}

}  // namespace

LaunchResult* launch(const LaunchConfig& config, void (*thread_body)(void*), void* context) {
  const dim3 grid = config.grid;
  const u32 block_count = grid.x * grid.y * grid.z;
  std::vector<BlockReport> reports(block_count);
  Sites sites;
  std::mutex sites_mutex;
  FileNames files;
  Faults all_faults;
  const bool only_one = config.only_block != ALL_BLOCKS;
  const u32 end = only_one ? config.only_block + 1 : block_count;
  std::atomic<u32> next{only_one ? config.only_block : 0};
  const auto work = [&](std::atomic<u32>& pulse) {
    const CrashHandler crash_handler(on_crash);
    Block block(config, files, pulse, thread_body, context);
    std::vector<u32> mine;
    for (u32 i; (i = next++) < end;) {
      reports[i] = block.run(i, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
      for (Fault& fault : reports[i].faults)
        all_faults.add(std::move(fault));
      reports[i].faults = {};
      mine.push_back(i);
    }
    const std::lock_guard<std::mutex> lock(sites_mutex);
    const Recorder& recorder = block.recorder();
    std::vector<u32> numbers(recorder.counts().size());
    for (u32 site = 0; site < numbers.size(); site++) {
      const Count& count = recorder.counts()[site];
      if (!count.instructions && !config.trace)
        continue;
      numbers[site] = sites.number(to_json(recorder.call_site(site)));
      sites.counts.push_back({numbers[site], count});
    }
    for (const u32 i : mine) {
      for (AccessRecord& record : reports[i].accesses)
        record.site = numbers[record.site];
      for (EventRecord& record : reports[i].events)
        record.site = numbers[record.site];
    }
  };
  {
    Workers workers(std::min(config.os_threads, only_one ? 1 : block_count), work);
    workers.wait(config.patience, [&] { next = block_count; });
  }

  std::vector<std::string> names = files.all();
  std::sort(names.begin(), names.end());
  LaunchResult* const result = new LaunchResult;
  const std::vector<u32> places = sites.places();
  std::string faults, site_list, counts;
  for (const auto& [site, number] : sites.found)
    append(site_list, site);
  for (const auto& [number, count] : sites.counts)
    append(counts, to_json(places[number], count));
  for (const Fault& fault : all_faults.in_order())
    append(faults, to_json(fault));
  for (BlockReport& report : reports) {
    append(result->accesses, report.accesses, places, files.all(), names);
    append(result->events, report.events, places, files.all(), names);
  }
  result->json = "{\"files\":[" + to_json(names) + "],\"faults\":[" + faults + "],\"sites\":[" + site_list +
                 "],\"counts\":[" + counts + "]}";
  return result;
}

}  // namespace emulator

// ---- for kda_learn/machines/emulator.py ----
#pragma GCC visibility push(default)
extern "C" {
const char* emulator_operation_names() {
  static const std::string names = emulator::operation_names();
  return names.c_str();
}
const char* emulator_result_json(const emulator::LaunchResult* result) { return result->json.c_str(); }
const void* emulator_result_accesses(const emulator::LaunchResult* result, u64* count) {
  *count = result->accesses.size() * sizeof(emulator::AccessRecord);
  return result->accesses.data();
}
const void* emulator_result_events(const emulator::LaunchResult* result, u64* count) {
  *count = result->events.size() * sizeof(emulator::EventRecord);
  return result->events.data();
}
void emulator_result_free(emulator::LaunchResult* result) { delete result; }
}
#pragma GCC visibility pop
