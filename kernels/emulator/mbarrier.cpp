// mbarriers, and the fence between threads and the copy engine.
//
// What a wait hands to a thread depends on the phase that it waits for, and that phase follows from what the thread
// knows: of the phases known to have ended and of the next one, the parity names one. So the same waits give the same
// knowledge in every order of the warps, and a thread that is late by a phase or more is found out, in an order in
// which it happens to be in time as well.
#include "block.h"

namespace emulator {

constexpr u32 MBARRIER_BYTES = 8;
constexpr u32 MOST_COUNTED = (1 << 20) - 1;  // arrivals and bytes of a phase, by PTX

void Block::misuse(u32 site, u32 other, const std::string& what) {
  recorder_.fault("mbarrier misused", site, other,
                  [&] { return describe(recorder_.call_site(site)) + ": " + who() + " " + what; });
}

static std::string byte_of(u32 address) {
  return "byte " + std::to_string(static_cast<long long>(address) - Block::SHARED_START) +
         " of shared memory";
}

bool Block::spares_any_mbarrier(u32 address, u32 bytes, u32 site, const Thread& thread) {
  const auto next = mbarriers_.lower_bound(address + bytes);
  if (next == mbarriers_.begin())
    return true;
  const auto& [place, barrier] = *std::prev(next);
  if (place + MBARRIER_BYTES <= address)
    return true;
  const u32 other = barrier.made.site;
  recorder_.fault("mbarrier misused", site, other, [&, place = place] {
    return describe(recorder_.call_site(site)) + ": " + recorder_.who(thread.warp, thread.lane) +
           " touches " + byte_of(place) + ", an mbarrier since " + describe(recorder_.call_site(other)) +
           ": leave it alone, or call mbar_inval first";
  });
  return false;
}

void Block::mbarrier_init(u32 address, u32 count, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_INIT, at, MBARRIER_BYTES);
  if (!check_shared(address, MBARRIER_BYTES, MBARRIER_BYTES, site, *current_))
    return;
  const auto live = mbarriers_.find(address);
  if (live != mbarriers_.end()) {
    misuse(site, live->second.made.site,
           "makes an mbarrier of " + byte_of(address) + ", which is one since " +
               describe(recorder_.call_site(live->second.made.site)) + ": call mbar_inval between them");
  }
  if (count < 1 || count > MOST_COUNTED) {
    misuse(site, Recorder::NO_SITE,
           "makes an mbarrier that counts " + std::to_string(count) + " arrivals: give 1 to " +
               std::to_string(MOST_COUNTED));
  }
  if (config_.check)
    shadow_.write(address - SHARED_START, MBARRIER_BYTES, access(site));
  Mbarrier& barrier = mbarriers_[address];
  barrier = Mbarrier{};
  barrier.address = address;
  barrier.agent = static_cast<u32>(warps_.size()) + mbarriers_made_++;
  barrier.count = barrier.missing_arrivals = std::max(count, 1u);
  barrier.made = access(site);
  barrier.phases.resize(2);
}

void Block::mbarrier_inval(u32 address, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_INVAL, at, MBARRIER_BYTES);
  const Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier)
    return;
  if (!barrier->waiting.empty())
    misuse(site, Recorder::NO_SITE,
           "ends an mbarrier for which threads wait: " + state_of(address, *barrier));
  if (config_.check)
    shadow_.write(address - SHARED_START, MBARRIER_BYTES, access(site));
  report_copies_not_waited_for(*barrier);
  mbarriers_.erase(address);
}

// Null, and reported, if there is none.
Mbarrier* Block::find_mbarrier(u32 address, u32 site) {
  if (!check_shared(address, MBARRIER_BYTES, MBARRIER_BYTES, site, *current_))
    return nullptr;
  const auto found = mbarriers_.find(address);
  if (found == mbarriers_.end()) {
    misuse(site, Recorder::NO_SITE,
           "uses " + byte_of(address) + " as an mbarrier, which mbar_init has not made so far");
    return nullptr;
  }
  // Whoever uses it must know that it has been made.
  if (config_.check)
    shadow_.read(address - SHARED_START, MBARRIER_BYTES, access(site));
  return &found->second;
}

std::string Block::state_of(u32 address, const Mbarrier& barrier) const {
  std::string state = "the mbarrier at " + byte_of(address) + " is in phase " +
                      std::to_string(barrier.phase()) + ", with " + std::to_string(barrier.missing_arrivals) +
                      " of " + std::to_string(barrier.count) + " arrivals missing";
  if (barrier.missing_bytes())
    state += " and " + std::to_string(barrier.missing_bytes()) + " bytes";
  return state;
}

// ---- arrivals and waits ----
void Block::mbarrier_arrive(u32 address, u32 expected_bytes, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_ARRIVE, at, MBARRIER_BYTES);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier)
    return;
  if (barrier->missing_arrivals == 0) {
    return misuse(
        site, Recorder::NO_SITE,
        "is one arrival more than the " + std::to_string(barrier->count) + " that the phase counts");
  }
  Phase& phase = barrier->now();
  phase.expected_bytes += expected_bytes;
  if (expected_bytes)
    phase.expected_at = site;
  if (phase.expected_bytes > MOST_COUNTED) {
    misuse(site, Recorder::NO_SITE,
           "expects " + std::to_string(phase.expected_bytes) +
               " bytes in one phase: an mbarrier counts at most " + std::to_string(MOST_COUNTED));
  }
  Thread& thread = *current_;
  note(Event::ARRIVE, site, barrier->offset(), barrier->phase(), expected_bytes);
  phase.arrivals.join(knowledge_of(thread));
  phase.arrivals.seen.learn_lane(thread.warp, thread.lane, thread.time);
  thread.time++;  // what it does from here on is not handed on
  barrier->missing_arrivals--;
  end_phase_if_complete(*barrier, site);
}

// site: of the arrival or of the copy that may complete it.
void Block::end_phase_if_complete(Mbarrier& barrier, u32 site) {
  if (barrier.missing_arrivals || barrier.missing_bytes())
    return;
  const u32 ended = barrier.phase();
  Phase& phase = barrier.now();
  for (const Wait& wait : phase.waits_before) {
    const u32 lane = 1u << wait.lane;
    if (!phase.arrivals.seen.knows(wait.warp, lane, wait.time) &&
        !phase.behind.knows(wait.warp, lane, wait.time))
      report_overrun(site, wait, ended);
  }
  phase.arrivals.seen.join(phase.behind);  // a copy lands behind what came before its start
  if (config_.trace)
    recorder_.record_event({site, Event::COMPLETE, barrier.offset(), ended}, NO_WARP, 0, 0);
  phase.arrivals.seen.learn_all_lanes(barrier.agent, ended + 1);
  for (Thread* thread : barrier.waiting) {
    learn(*thread, phase.arrivals);
    make_ready(thread->warp, 1u << thread->lane);
  }
  barrier.waiting.clear();
  barrier.phases[ended + 1].arrivals = phase.arrivals;
  barrier.phases.emplace_back();
  barrier.missing_arrivals = barrier.count;
}

// A phase has ended though nothing says that a thread which waits for the one before has got through its wait. If the
// thread is late, parity tells it that its phase has not ended yet.
void Block::report_overrun(u32 site, const Wait& wait, u32 phase) {
  if (overrun_.site != Recorder::NO_SITE)
    return;
  overrun_.site = site;
  overrun_.other = wait.site;
  overrun_.message =
      describe(recorder_.call_site(site)) + " ends phase " + std::to_string(phase) +
      " of an mbarrier, though warp " + std::to_string(wait.warp) + " lane " + std::to_string(wait.lane) +
      " may still wait for the phase before at " + describe(recorder_.call_site(wait.site)) +
      ", and would then wait for ever: let it arrive at another mbarrier behind its wait, and wait "
      "for that one before the next phase";
}

Knowledge& Block::knowledge_of_its_own(Thread& thread) {
  if (!thread.beyond)
    thread.beyond = std::make_unique<Knowledge>(warps_[thread.warp].knowledge);
  return *thread.beyond;
}
void Block::learn(Thread& thread, const Knowledge& knowledge) {
  knowledge_of_its_own(thread).join(knowledge);
}

// How many phases a thread knows to have ended: it has waited for the last of them, or knows of all its arrivals.
u32 Block::phases_known(Thread& thread, const Mbarrier& barrier) {
  u32 known = knowledge_of(thread).seen.all_lanes(barrier.agent);
  for (; known < barrier.phase(); known++) {
    const Phase& phase = barrier.phases[known];
    if (phase.copied_bytes ||
        !knowledge_of(thread).seen.covers(phase.arrivals.seen, barrier.agent, thread.warp, thread.lane))
      break;
    knowledge_of_its_own(thread).seen.learn_all_lanes(barrier.agent, known + 1);
  }
  return known;
}

void Block::mbarrier_wait(u32 address, u32 parity, Site at) {
  const u32 site = begin_operation(Operation::MBARRIER_WAIT, at, MBARRIER_BYTES);
  Mbarrier* const barrier = find_mbarrier(address, site);
  if (!barrier)
    return;
  if (parity > 1) {
    misuse(
        site, Recorder::NO_SITE,
        "waits for the parity " + std::to_string(parity) + ": give 0 or 1, the number of the phase modulo 2");
  }
  Thread& thread = *current_;
  const u32 known = phases_known(thread, *barrier);
  const bool last_known = (known & 1) != (parity & 1);  // the last of these is meant, or the one before all
  const u32 next = known + !last_known;  // the phase behind the one that it waits for
  note(Event::WAIT, site, barrier->offset(), next - 1);
  const Wait wait{thread.warp, thread.lane, thread.time, site};
  barrier->phases[next].waits_before.push_back(wait);
  if (barrier->phase() > next)
    report_overrun(site, wait, next);
  if (last_known || barrier->phase() >= next)
    note(Event::RELEASE, site, barrier->offset(), next - 1);
  if (last_known)
    return;
  if (barrier->phase() >= next)
    return learn(thread, barrier->phases[known].arrivals);
  thread.waits_at = {Operation::MBARRIER_WAIT, at, MBARRIER_BYTES, thread.indices.frame};
  barrier->waiting.push_back(&thread);
  const int offset = barrier->offset();
  wait_here();
  note(Event::RELEASE, site, offset, known);
}

// What this thread knows now to have happened, and what it did itself, the copy engine sees from here on.
void Block::fence_proxy_async() {
  Thread& thread = *current_;
  Knowledge& knowledge = knowledge_of_its_own(thread);
  knowledge.fenced.join(knowledge.seen);
  knowledge.fenced.learn_lane(thread.warp, thread.lane, thread.time);
  thread.time++;
}

// ---- runtime.h ----
void mbarrier_init(u32 barrier, u32 count, Site site) { running_block->mbarrier_init(barrier, count, site); }
void mbarrier_inval(u32 barrier, Site site) { running_block->mbarrier_inval(barrier, site); }
void mbarrier_arrive(u32 barrier, u32 expected_bytes, Site site) {
  running_block->mbarrier_arrive(barrier, expected_bytes, site);
}
void mbarrier_wait(u32 barrier, u32 parity, Site site) {
  running_block->mbarrier_wait(barrier, parity, site);
}
void fence_proxy_async() { running_block->fence_proxy_async(); }

}  // namespace emulator
