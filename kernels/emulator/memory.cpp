// Loads and stores of single threads.
#include "block.h"

namespace emulator {

// Of one thread without a pause. One that makes more waits in a loop, or has lost its way.
constexpr u32 MAX_OPERATIONS = 1'000'000;

// The usual widths as moves, not as a call.
static void copy_bytes(void* to, const void* from, u32 bytes) {
  switch (bytes) {
    case 2:
      std::memcpy(to, from, 2);
      break;
    case 4:
      std::memcpy(to, from, 4);
      break;
    case 8:
      std::memcpy(to, from, 8);
      break;
    case 16:
      std::memcpy(to, from, 16);
      break;
    default:
      std::memcpy(to, from, bytes);
  }
}

u32 Block::begin_operation(Operation operation, Site at, u32 bytes) {
  const u32 site = recorder_.site({operation, at, bytes, current_->indices.frame});
  beat();
  if (++operations_in_a_row_ > MAX_OPERATIONS) {
    recorder_.fault("endless loop", site, Recorder::NO_SITE, [&] {
      return describe(recorder_.call_site(site)) + ": " + who() + " has made " +
             std::to_string(MAX_OPERATIONS) +
             " operations without waiting; one that waits for another thread must wait at a barrier, since " +
             "the emulator lets nobody else run before";
    });
    stop();
  }
  return site;
}

Access Block::access(u32 site) {
  const Thread& thread = *current_;
  return {site, thread.warp, thread.lane, false, thread.time, &knowledge_of(thread)};
}

// False, and reported, if the access cannot be made.
bool Block::check_shared(u32 address, u32 bytes, u32 alignment, u32 site, const Thread& thread) {
  const bool inside = address >= SHARED_START && u64(address) + bytes <= SHARED_START + shared_.size();
  if (inside && address % alignment == 0)
    return true;
  recorder_.fault(inside ? "misaligned" : "out of bounds", site, Recorder::NO_SITE, [&] {
    const std::string named =
        describe(recorder_.call_site(site)) + ": " + recorder_.who(thread.warp, thread.lane) +
        " names byte " + std::to_string(static_cast<long long>(address) - SHARED_START) + " of shared memory";
    if (inside)
      return named + "; the address must be a multiple of " + std::to_string(alignment);
    return named + " and wants " + std::to_string(bytes) + " bytes; the block has " +
           std::to_string(shared_.size());
  });
  return false;
}

// Where the bytes of global memory are; null, and reported, if the access cannot be made.
char* Block::find_global(const void* address, u32 bytes, u32 alignment, u32 site) {
  const char* const start = static_cast<const char*>(address);
  const Buffer* const buffer = find_buffer(start, bytes);
  if (buffer && reinterpret_cast<std::uintptr_t>(address) % alignment == 0)
    return buffer->home + (start - buffer->start);
  recorder_.fault(buffer ? "misaligned" : "out of bounds", site, Recorder::NO_SITE, [&] {
    const std::string wants = describe(recorder_.call_site(site)) + ": " + who() + " wants " +
                              std::to_string(bytes) + " bytes of global memory";
    const std::string place = place_of(start);
    if (buffer)
      return wants + " at " + place + "; the address must be a multiple of " + std::to_string(alignment);
    return wants + (place.empty() ? ", but the kernel was given none" : " at " + place);
  });
  return nullptr;
}

// An address as the kernel's author thinks of it: "byte 772 of argument 0, which has 1024".
std::string Block::place_of(const char* address) const {
  std::string null;
  const Buffer* near = nullptr;
  const auto distance = [&](const Buffer& x) {
    return address >= x.start ? address - (x.start + x.bytes) : x.start - address;
  };
  for (u32 i = 0; i < config_.buffer_count; i++) {
    const Buffer& x = config_.buffers[i];
    if (!x.start) {
      null += (null.empty() ? "argument " : " or ") + std::to_string(x.argument);
    } else if (!near || distance(x) < distance(*near)) {
      near = &x;
    }
  }
  if (reinterpret_cast<std::uintptr_t>(address) < NEAR_NULL)
    return null.empty() ? "a null pointer" : "a null pointer: " + null + " is null";
  if (!near)
    return "";
  return "byte " + std::to_string(address - near->start) + " of argument " + std::to_string(near->argument) +
         ", which has " + std::to_string(near->bytes);
}

bool Block::is_global(const void* address) const {
  const auto near = [&](const Buffer& x) {
    const char* const place = static_cast<const char*>(address);
    return x.start && place + NEAR_NULL > x.start && place < x.start + x.bytes + NEAR_NULL;
  };
  return std::any_of(config_.buffers, config_.buffers + config_.buffer_count, near) ||
         reinterpret_cast<std::uintptr_t>(address) < NEAR_NULL;
}

// The argument that holds these bytes, or null.
const Buffer* Block::find_buffer(const char* start, u32 bytes) {
  const auto holds = [&](const Buffer& x) {
    return x.start && start >= x.start && start + bytes <= x.start + x.bytes;
  };
  const Buffer* const all = config_.buffers;
  if (last_buffer_ < config_.buffer_count && holds(all[last_buffer_]))
    return &all[last_buffer_];
  for (u32 i = 0; i < config_.buffer_count; i++) {
    if (!holds(all[i]))
      continue;
    last_buffer_ = i;
    return &all[i];
  }
  return nullptr;
}

void Block::load(u32 from, void* value, u32 bytes, Site at) {
  const u32 site = begin_operation(Operation::LDS, at, bytes);
  if (!check_shared(from, bytes, bytes, site, *current_) || !spares_mbarriers(from, bytes, site, *current_)) {
    std::memset(value, 0xff, bytes);
    return;
  }
  if (config_.check)
    shadow_.read(from - SHARED_START, bytes, access(site));
  if (config_.trace)
    warps_[current_->warp].trace.add({site}, recorder_, current_->lane, from);
  copy_bytes(value, shared(from), bytes);
}

void Block::store(u32 to, const void* value, u32 bytes, Site at) {
  const u32 site = begin_operation(Operation::STS, at, bytes);
  if (!check_shared(to, bytes, bytes, site, *current_) || !spares_mbarriers(to, bytes, site, *current_))
    return;
  if (config_.check)
    shadow_.write(to - SHARED_START, bytes, access(site), value, shared(to));
  if (config_.trace)
    warps_[current_->warp].trace.add({site}, recorder_, current_->lane, to);
  copy_bytes(shared(to), value, bytes);
}

// Widths that one instruction moves must be aligned to themselves.
static u32 alignment_of(u32 bytes) { return bytes <= 16 && (bytes & (bytes - 1)) == 0 ? bytes : 1; }

void Block::load_global(const void* from, void* value, u32 bytes, Site at) {
  const u32 site = begin_operation(Operation::LDG, at, bytes);
  const char* const home = find_global(from, bytes, alignment_of(bytes), site);
  if (!home) {
    std::memset(value, 0xff, bytes);
    return;
  }
  if (config_.trace) {
    warps_[current_->warp].trace.add({site}, recorder_, current_->lane,
                                     reinterpret_cast<std::uintptr_t>(from));
  }
  copy_bytes(value, home, bytes);
}

void Block::store_global(void* to, const void* value, u32 bytes, Site at) {
  const u32 site = begin_operation(Operation::STG, at, bytes);
  char* const home = find_global(to, bytes, alignment_of(bytes), site);
  if (!home)
    return;
  if (config_.trace) {
    warps_[current_->warp].trace.add({site}, recorder_, current_->lane, reinterpret_cast<std::uintptr_t>(to));
  }
  copy_bytes(home, value, bytes);
}

// ---- runtime.h ----
u32 shared_start() { return Block::SHARED_START; }
void shared_load(u32 from, void* value, u32 bytes, Site site) {
  running_block->load(from, value, bytes, site);
}
void shared_store(u32 to, const void* value, u32 bytes, Site site) {
  running_block->store(to, value, bytes, site);
}
void global_load(const void* from, void* value, u32 bytes, Site site) {
  running_block->load_global(from, value, bytes, site);
}
void global_store(void* to, const void* value, u32 bytes, Site site) {
  running_block->store_global(to, value, bytes, site);
}

}  // namespace emulator
