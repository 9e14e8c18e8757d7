// A launch: blocks shared out to threads of the operating system, and their reports put together. What comes
// out depends on the arguments and the seed alone, never on which block ran where.
#include "block.h"
#include "workers.h"

namespace emulator {

struct LaunchResult {
  std::string json;  // {"files": [name], "faults": [[...]], "counts": [[...]]}
  std::vector<AccessRecord> accesses;
};

namespace {

void on_crash(int signal_number, void* address) {
  if (running_block)
    running_block->crash(signal_number, address);
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
std::string place_of(const CallSite& site) {
  return quoted(site.file ? site.file : "") + "," + std::to_string(site.line);
}
void append(std::string& items, const std::string& item) { items += (items.empty() ? "" : ",\n") + item; }

// [kind, message, file, line, count, file of the other site, its line]
std::string to_json(const Fault& fault) {
  return "[" + quoted(fault.kind) + "," + quoted(fault.message) + "," + place_of(fault.site) + "," +
         std::to_string(fault.count) + "," + place_of(fault.other) + "]";
}
// [file, line, operation, instructions, bytes, sectors, bytes of one lane]
std::string to_json(const CallSite& site, const Count& count) {
  return "[" + place_of(site) + "," + std::to_string(static_cast<int>(site.operation)) + "," +
         std::to_string(count.instructions) + "," + std::to_string(count.bytes) + "," +
         std::to_string(count.sectors) + "," + std::to_string(site.bytes) + "]";
}
std::string to_json(const std::vector<std::string>& names) {
  std::string items;
  for (const std::string& name : names)
    append(items, quoted(name));
  return items;
}

// Appends a block's accesses, with files numbered in the order of `sorted`.
void append(std::vector<AccessRecord>& all, std::vector<AccessRecord>& accesses,
            const std::vector<std::string>& found, const std::vector<std::string>& sorted) {
  for (AccessRecord& record : accesses) {
    const auto place = std::find(sorted.begin(), sorted.end(), found[record.file]);
    record.file = static_cast<unsigned char>(place - sorted.begin());
  }
  all.insert(all.end(), accesses.begin(), accesses.end());
}

}  // namespace

LaunchResult* launch(const LaunchConfig& config, void (*thread_body)(void*), void* context) {
  const dim3 grid = config.grid;
  const u32 block_count = grid.x * grid.y * grid.z;
  std::vector<BlockReport> reports(block_count);
  std::string counts;
  std::mutex counts_mutex;
  FileNames files;
  std::atomic<u32> next{0};
  const auto work = [&](std::atomic<u32>& pulse) {
    const CrashHandler crash_handler(on_crash);
    Block block(config, files, pulse, thread_body, context);
    for (u32 i; (i = next++) < block_count;) {
      reports[i] = block.run(i, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y});
    }
    const std::lock_guard<std::mutex> lock(counts_mutex);
    const Recorder& recorder = block.recorder();
    for (u32 site = 0; site < recorder.counts().size(); site++) {
      const Count& count = recorder.counts()[site];
      if (count.instructions)
        append(counts, to_json(recorder.call_site(site), count));
    }
  };
  {
    Workers workers(std::min(config.os_threads, block_count), work);
    workers.wait(config.patience, [&] { next = block_count; });
  }

  std::vector<std::string> names = files.all();
  std::sort(names.begin(), names.end());
  LaunchResult* const result = new LaunchResult;
  std::string faults;
  for (BlockReport& report : reports) {
    for (const Fault& fault : report.faults)
      append(faults, to_json(fault));
    append(result->accesses, report.accesses, files.all(), names);
    report.accesses = {};
  }
  result->json =
      "{\"files\":[" + to_json(names) + "],\"faults\":[" + faults + "],\"counts\":[" + counts + "]}";
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
  *count = result->accesses.size();
  return result->accesses.data();
}
void emulator_result_free(emulator::LaunchResult* result) { delete result; }
}
#pragma GCC visibility pop
