// What warps do as one, and barriers.
#include "block.h"
#include "warp_math.h"

namespace emulator {

// Of one warp in one block, all lanes as one: some twenty times as many as Kernel A makes for 8192 tokens.
constexpr u32 MAX_WARP_OPERATIONS = 4'000'000;

// Of a block that runs alone, to see what went wrong in it: its first steps show that.
constexpr u32 MOST_STEPS = 1 << 16;

// Operations that threads which have returned take no part in; the others need all 32 lanes.
static bool live_lanes_suffice(Operation operation) {
  return operation == Operation::SYNCTHREADS || operation == Operation::SYNCWARP ||
         operation == Operation::SHFL;
}

// Lanes that wait at one call wait for each other. __syncwarp is a barrier of the warp wherever a lane reaches it,
// by PTX's rules (bar.warp.sync since sm_70); all else needs the lanes at one place.
static bool is_one_call(const Call& a, const Call& b) {
  return a.operation == b.operation && (a.operation == Operation::SYNCWARP || a.same_place(b));
}

static bool moves_matrices(Operation operation) {
  return operation >= Operation::LDMATRIX_X1 && operation <= Operation::STMATRIX_X4_TRANS;
}

void Block::refuse_partial_mask(Operation operation, u32 mask, Site at) {
  const u32 site = recorder_.site({operation, at, 0, current_->indices.frame});
  recorder_.fault("partial mask", site, Recorder::NO_SITE, [&] {
    return describe(recorder_.call_site(site)) + ": " + who() + " gives the mask " + std::to_string(mask) +
           ": give 0xffffffff, the only one the CPU machine knows (a GPU takes others, too)";
  });
  stop();
}

void Block::collective(Operation operation, void* arguments, Site at) {
  Thread& thread = *current_;
  Warp& warp = warps_[thread.warp];
  thread.waits_at = {operation, at, moves_matrices(operation) ? 16u : 0u, thread.indices.frame};
  if (!warp.arrived) {
    warp.call = thread.waits_at;
  } else if (!is_one_call(warp.call, thread.waits_at)) {
    const u32 here = recorder_.site(thread.waits_at), there = recorder_.site(warp.call);
    recorder_.fault("divergent warp", here, there, [&] {
      return describe(recorder_.call_site(here)) + ": " + who() +
             " comes here while other lanes of its warp wait at " + describe(recorder_.call_site(there)) +
             "; all 32 lanes must come to the same one";
    });
    stop();
  }
  warp.arguments[thread.lane] = arguments;
  warp.arrived |= 1u << thread.lane;
  if (warp.arrived == (live_lanes_suffice(operation) ? warp.live : ~0u))
    complete(thread.warp);
  wait_here();
}

// All lanes have come.
void Block::complete(u32 index) {
  Warp& warp = warps_[index];
  if (config_.trace)
    warp.trace.finish(recorder_, index, SHARED_START);
  if (config_.only_block != ALL_BLOCKS && recorder_.steps() > MOST_STEPS)
    stop();
  warp.arrived = 0;
  if (++warp.operations > MAX_WARP_OPERATIONS)
    stop_endless_warp(index);
  if (warp.call.operation == Operation::SYNCTHREADS) {
    warp.at_barrier = true;
    if (config_.trace)
      recorder_.record_event({recorder_.site(warp.call), Event::ARRIVE}, index, warp.live, 0);
    if (barrier_is_full())
      release_barrier();
  } else {
    execute(index);
    make_ready(index, warp.live);
  }
}

void Block::stop_endless_warp(u32 index) {
  const Warp& warp = warps_[index];
  const u32 site = recorder_.site(warp.call);
  recorder_.fault("endless loop", site, Recorder::NO_SITE, [&] {
    return describe(recorder_.call_site(site)) + ": warp " + std::to_string(index) + " has made " +
           std::to_string(MAX_WARP_OPERATIONS) +
           " warp-wide operations: a loop that does not end, or a problem too long for the emulator";
  });
  stop();
}

void Block::execute(u32 index) {
  Warp& warp = warps_[index];
  const auto matrix = reinterpret_cast<MatrixArguments**>(warp.arguments);
  const u32 site = recorder_.site(warp.call);
  if (config_.trace)
    count_calls(index, site);
  if (moves_matrices(warp.call.operation)) {
    const bool load = warp.call.operation < Operation::STMATRIX_X1;
    const Operation first = load ? Operation::LDMATRIX_X1 : Operation::STMATRIX_X1;
    const u32 variant = static_cast<u32>(warp.call.operation) - static_cast<u32>(first);
    return move_matrices(index, site, load, 1u << variant / 2, variant % 2);
  }
  switch (warp.call.operation) {
    case Operation::MOVMATRIX:
      return transpose_registers(matrix);
    case Operation::MMA:
      return multiply(reinterpret_cast<MmaArguments**>(warp.arguments));
    case Operation::SYNCWARP:
      if (config_.trace)
        recorder_.record_event({site, Event::RELEASE}, index, warp.live, 0);
      return join_lanes(index);
    case Operation::SHFL: {
      const auto shuffles = reinterpret_cast<ShuffleArguments**>(warp.arguments);
      for (u32 lane = 0; lane < LANES; lane++) {
        if (!(warp.live >> lane & 1))
          continue;
        const int width = shuffles[lane]->width;
        if (width >= 1 && width <= 32 && (width & (width - 1)) == 0)
          continue;
        recorder_.fault("bad shuffle", site, Recorder::NO_SITE, [&] {
          return describe(recorder_.call_site(site)) + ": " + recorder_.who(index, lane) +
                 " gives the width " + std::to_string(width) + ": give 1, 2, 4, 8, 16 or 32";
        });
        shuffles[lane]->width = 32;
      }
      const u32 stray = shuffle(reinterpret_cast<ShuffleArguments**>(warp.arguments), warp.live);
      if (stray == LANES)
        return;
      recorder_.fault("divergent warp", site, Recorder::NO_SITE, [&] {
        return describe(recorder_.call_site(site)) + ": " + recorder_.who(index, stray) +
               " reads from a lane that has returned";
      });
      return;
    }
    default:
      return;
  }
}

// One instruction, or with __syncwarp one for each place at which lanes have come to it.
void Block::count_calls(u32 index, u32 site) {
  recorder_.count(site);
  if (warps_[index].call.operation != Operation::SYNCWARP)
    return;
  std::vector<u32> counted{site};
  for (u32 lane = 0; lane < LANES; lane++) {
    const Thread& thread = threads_[index * LANES + lane];
    if (thread.done)
      continue;
    const u32 other = recorder_.site(thread.waits_at);
    if (std::find(counted.begin(), counted.end(), other) != counted.end())
      continue;
    recorder_.count(other);
    counted.push_back(other);
  }
}

void Block::move_matrices(u32 index, u32 site, bool load, u32 count, bool turned) {
  const auto lanes = reinterpret_cast<MatrixArguments**>(warps_[index].arguments);
  Thread* const threads = &threads_[index * LANES];
  even_times(index);
  if (config_.trace) {
    AccessRecord& record = recorder_.record_access(site, index, recorder_.next_order());
    record.mask = count == 4 ? ~0u : (1u << count * 8) - 1;
    for (u32 lane = 0; lane < count * 8; lane++) {
      record.address[lane] = static_cast<int>(lanes[lane]->row - SHARED_START);
    }
  }
  for (u32 i = 0; i < count; i++) {
    Matrix matrix;
    if (!load) {
      for (u32 lane = 0; lane < LANES; lane++)
        matrix.set(lane, turned, lanes[lane]->r[i]);
    }
    for (u32 row = 0; row < 8; row++) {
      const Thread& thread = threads[i * 8 + row];
      const u32 address = lanes[i * 8 + row]->row;
      constexpr u32 ROW_BYTES = sizeof(matrix.element[row]);
      if (!check_shared(address, ROW_BYTES, ROW_BYTES, site, thread) ||
          !spares_mbarriers(address, ROW_BYTES, site, thread)) {
        std::memset(matrix.element[row], 0xff, ROW_BYTES);
        continue;
      }
      const Access now{site, index, thread.lane, true, thread.time, &knowledge_of(thread)};
      if (load) {
        if (config_.check)
          shadow_.read(address - SHARED_START, ROW_BYTES, now);
        std::memcpy(matrix.element[row], shared(address), ROW_BYTES);
      } else {
        if (config_.check)
          shadow_.write(address - SHARED_START, ROW_BYTES, now);
        std::memcpy(shared(address), matrix.element[row], ROW_BYTES);
      }
    }
    if (load) {
      for (u32 lane = 0; lane < LANES; lane++)
        lanes[lane]->r[i] = matrix.get(lane, turned);
    }
  }
}

void Block::finish_thread() {
  Warp& warp = warps_[current_->warp];
  current_->done = true;
  warp.live &= ~(1u << current_->lane);
  report_abandoned_copies();
  if (!warp.live)
    warp.trace.finish(recorder_, current_->warp, SHARED_START);
  // Threads that have returned are not waited for.
  if (warp.live && warp.arrived == warp.live && live_lanes_suffice(warp.call.operation)) {
    complete(current_->warp);
  } else if (!warp.live && barrier_is_full()) {
    release_barrier();
  }
  wait_here();
}

// ---- time ----
// Lanes' times differ once some have arrived at an mbarrier; an access of the whole warp needs one.
void Block::even_times(u32 index) {
  Thread* const threads = &threads_[index * LANES];
  u32 latest = 0;
  for (u32 lane = 0; lane < LANES; lane++)
    latest = std::max(latest, threads[lane].time);
  for (u32 lane = 0; lane < LANES; lane++)
    threads[lane].time = latest;
}

// From here on every lane knows what all lanes of its warp did and knew.
void Block::join_lanes(u32 index) {
  Warp& warp = warps_[index];
  Thread* const threads = &threads_[index * LANES];
  even_times(index);
  const u32 now = threads[0].time;
  for (u32 lane = 0; lane < LANES; lane++) {
    Thread& thread = threads[lane];
    if (thread.beyond)
      warp.knowledge.join(*thread.beyond);
    thread.beyond.reset();
    thread.time = now + 1;
  }
  warp.knowledge.seen.learn_all_lanes(index, now);
  if (now + 1 < Shadow::MAX_TIME || !config_.check)
    return;
  const u32 site = recorder_.site(warp.call);
  recorder_.fault("too long", site, Recorder::NO_SITE, [] {
    return std::string("a block synchronises too often for the emulator to check: give it a shorter problem");
  });
  stop();
}

// ---- __syncthreads ----
bool Block::barrier_is_full() const {
  bool any = false;
  for (const Warp& warp : warps_) {
    if (warp.live && !warp.at_barrier)
      return false;
    any |= warp.at_barrier;
  }
  return any;
}

void Block::release_barrier() {
  const Warp* first = nullptr;
  Knowledge everything;
  for (u32 i = 0; i < warps_.size(); i++) {
    Warp& warp = warps_[i];
    join_lanes(i);
    everything.join(warp.knowledge);
    if (!warp.at_barrier)
      continue;
    if (!first)
      first = &warp;
    if (config_.trace)
      recorder_.count(recorder_.site(warp.call));
    if (warp.call.same_place(first->call))
      continue;
    const u32 here = recorder_.site(warp.call);
    const u32 there = recorder_.site(first->call);
    recorder_.fault("different barriers", here, there, [&] {
      return describe(recorder_.call_site(here)) + ": warp " + std::to_string(i) + " waits here while warp " +
             std::to_string(first - warps_.data()) + " waits at " + describe(recorder_.call_site(there)) +
             "; most likely one of them has skipped a barrier (PTX lets warps meet at different places, and "
             "here the "
             "CPU machine is stricter)";
    });
  }
  for (u32 i = 0; i < warps_.size(); i++) {
    warps_[i].knowledge = everything;
    if (!warps_[i].at_barrier)
      continue;
    warps_[i].at_barrier = false;
    if (config_.trace)
      recorder_.record_event({recorder_.site(warps_[i].call), Event::RELEASE}, i, warps_[i].live, 0);
    make_ready(i, warps_[i].live);
  }
}

void collective(Operation operation, void* arguments, Site site) {
  running_block->collective(operation, arguments, site);
}
void refuse_partial_mask(Operation operation, u32 mask, Site site) {
  running_block->refuse_partial_mask(operation, mask, site);
}

}  // namespace emulator
