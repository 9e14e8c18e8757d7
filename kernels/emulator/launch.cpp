// A launch: blocks shared out to threads of the operating system, and their reports put together. What comes
// out depends on the arguments and the seed alone, never on which block ran where.
#include <atomic>
#include <thread>

#include "block.h"

namespace emulator {

struct LaunchResult {
  std::string json;
  std::vector<AccessRecord> accesses;
};

namespace {

void on_crash(int signal_number, void* address) {
  if (running_block)
    running_block->crash(signal_number, address);
}

std::string name_of(const CallSite& site) { return site.file ? site.file : ""; }

auto key_of(const CallSite& site) {
  return std::make_tuple(name_of(site), site.line, site.operation, site.bytes);
}
using SiteKey = decltype(key_of(std::declval<CallSite>()));

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (static_cast<unsigned char>(c) < ' ')
      continue;
    result += c;
  }
  return result + "\"";
}
std::string list(const std::vector<std::string>& items) {
  std::string result;
  for (const std::string& item : items)
    result += (result.empty() ? "" : ",") + item;
  return "[" + result + "]";
}

std::string faults_json(const std::vector<BlockReport>& reports) {
  std::vector<Fault> faults;
  std::map<std::tuple<std::string, SiteKey, SiteKey>, std::size_t> places;
  for (const BlockReport& report : reports) {
    for (const Fault& fault : report.faults) {
      const auto [place, is_new] =
          places.emplace(std::make_tuple(fault.kind, key_of(fault.site), key_of(fault.other)), faults.size());
      if (is_new) {
        faults.push_back(fault);
      } else {
        faults[place->second].count += fault.count;
      }
    }
  }
  std::vector<std::string> items;
  for (const Fault& fault : faults) {
    items.push_back("[" + quoted(fault.kind) + "," + quoted(fault.message) + "," +
                    quoted(name_of(fault.site)) + "," + std::to_string(fault.site.line) + "," +
                    std::to_string(fault.count) + "]");
  }
  return list(items);
}

std::string counts_json(const std::vector<BlockReport>& reports) {
  std::map<SiteKey, Count> counts;
  for (const BlockReport& report : reports) {
    for (const auto& [site, count] : report.counts) {
      Count& sum = counts[key_of(site)];
      sum.instructions += count.instructions;
      sum.bytes += count.bytes;
      sum.sectors += count.sectors;
    }
  }
  std::vector<std::string> items;
  for (const auto& [site, count] : counts) {
    const auto& [file, line, operation, bytes] = site;
    items.push_back("[" + quoted(file) + "," + std::to_string(line) + "," +
                    std::to_string(static_cast<int>(operation)) + "," + std::to_string(count.instructions) +
                    "," + std::to_string(count.bytes) + "," + std::to_string(count.sectors) + "]");
  }
  return list(items);
}

// All accesses in the order of blocks, with files numbered in the order of their names.
std::vector<AccessRecord> join_accesses(std::vector<BlockReport>& reports,
                                        const std::vector<std::string>& found,
                                        const std::vector<std::string>& sorted) {
  std::vector<AccessRecord> all;
  for (BlockReport& report : reports) {
    for (AccessRecord& record : report.accesses) {
      const auto place = std::find(sorted.begin(), sorted.end(), found[record.file]);
      record.file = static_cast<unsigned char>(place - sorted.begin());
    }
    all.insert(all.end(), report.accesses.begin(), report.accesses.end());
    report.accesses = {};
  }
  return all;
}

}  // namespace

LaunchResult* launch(const LaunchConfig& config, void (*thread_body)(void*), void* context) {
  const dim3 grid = config.grid;
  const u32 block_count = grid.x * grid.y * grid.z;
  std::vector<BlockReport> reports(block_count);
  FileNames files;
  std::atomic<u32> next{0};
  const auto work = [&] {
    const CrashHandler crash_handler(on_crash);
    Block block(config, files, thread_body, context);
    for (u32 i; (i = next++) < block_count;) {
      reports[i] = block.run(i, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
    }
  };
  std::vector<std::thread> workers;
  for (u32 i = 0; i < std::min(config.os_threads, block_count); i++)
    workers.emplace_back(work);
  for (std::thread& worker : workers)
    worker.join();

  std::vector<std::string> names = files.all();
  std::sort(names.begin(), names.end());
  LaunchResult* const result = new LaunchResult;
  result->accesses = join_accesses(reports, files.all(), names);
  std::vector<std::string> quoted_names;
  for (const std::string& name : names)
    quoted_names.push_back(quoted(name));
  result->json = "{\"files\":" + list(quoted_names) + ",\"faults\":" + faults_json(reports) +
                 ",\"counts\":" + counts_json(reports) + "}";
  return result;
}

}  // namespace emulator

// ---- for kda_learn/emulator.py ----
#pragma GCC visibility push(default)
extern "C" {
const char* emulator_operation_names() {
  static const std::string names = emulator::operation_names();
  return names.c_str();
}
const char* emulator_result_json(const emulator::LaunchResult* result) { return result->json.c_str(); }
const void* emulator_result_accesses(const emulator::LaunchResult* result, u64* count) {
  *count = result->accesses.size();
  return result->accesses.data();
}
void emulator_result_free(emulator::LaunchResult* result) { delete result; }
}
#pragma GCC visibility pop
