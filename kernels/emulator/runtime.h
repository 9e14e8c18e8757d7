// The emulator as a kernel sees it. The library behind it is built once and shared by all kernels.
#pragma once
#include "cuda.h"

#pragma GCC visibility push(default)
namespace emulator {

// The names are in report.cpp, in this order.
enum class Operation : unsigned char {
  LDS,
  STS,
  LDG,
  STG,
  LDMATRIX_X1,
  LDMATRIX_X1_TRANS,
  LDMATRIX_X2,
  LDMATRIX_X2_TRANS,
  LDMATRIX_X4,
  LDMATRIX_X4_TRANS,
  STMATRIX_X1,
  STMATRIX_X1_TRANS,
  STMATRIX_X2,
  STMATRIX_X2_TRANS,
  STMATRIX_X4,
  STMATRIX_X4_TRANS,
  MOVMATRIX,
  MMA,
  SHFL,
  SYNCWARP,
  SYNCTHREADS,
  CP_ASYNC_CG,
  CP_ASYNC_CA,
  CP_ASYNC_BULK,
  MBARRIER_INIT,
  MBARRIER_INVAL,
  MBARRIER_ARRIVE,
  MBARRIER_WAIT,
  CP_ASYNC_COMMIT,
  CP_ASYNC_WAIT,
  COUNT
};

// The place in the kernel that calls an operation. As a default argument current() names the caller's place.
using Site = std::source_location;
inline bool same_place(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

// ---- what the running thread reads as threadIdx and the rest ----
class Frame;
struct Indices {
  dim3 thread, block, block_size, grid_size;
  mutable const Frame* frame;  // of the function it is in; null: in the kernel itself
};
extern thread_local const Indices* indices EMULATOR_FAST_TLS;

// A function that the thread is in, and where it was called. Every function that leads to an operation has one:
// kda_learn/compilers/call_sites.py puts it there. On a GPU such functions are copied to where they are called, so an
// operation in one is another instruction for every way there.
class Frame {
 public:
  explicit Frame(Site at) : called_at(at), outer(indices->frame) { indices->frame = this; }
  ~Frame() { indices->frame = outer; }
  Frame(const Frame&) = delete;

  const Site called_at;
  const Frame* const outer;
};

// ---- one thread at a time ----
u32 shared_start();
void shared_load(u32 from, void* value, u32 bytes, Site);
void shared_store(u32 to, const void* value, u32 bytes, Site);
void global_load(const void* from, void* value, u32 bytes, Site);
void global_store(void* to, const void* value, u32 bytes, Site);
void copy_async(Operation, u32 to, const void* from, u32 bytes, bool valid, Site);
void copy_commit(Site);
void copy_wait(u32 groups_under_way, Site);
void mbarrier_init(u32 barrier, u32 count, Site);
void mbarrier_inval(u32 barrier, Site);
void mbarrier_arrive(u32 barrier, u32 expected_bytes, Site);
void mbarrier_wait(u32 barrier, u32 parity, Site);
void fence_proxy_async();
void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, Site);

// ---- the whole warp: the call returns once all lanes have come ----
struct MatrixArguments {
  u32 row;
  u32 r[4];
};
struct MmaArguments {
  float* c;
  const u32* a;
  const u32* b;
};
enum class Shuffle { INDEX, UP, DOWN, XOR };
struct ShuffleArguments {
  Shuffle kind;
  u32 value;
  int operand, width;
};
// `arguments` points at this lane's arguments and results, of the type that the operation wants.
void collective(Operation, void* arguments, Site);
void refuse_partial_mask(Operation, u32 mask, Site);

// ---- the launch, called by the host half of a kernel's library ----
// A kernel is given addresses at which nothing can be read or written, as those of a GPU are for a CPU.
struct Buffer {
  const char* start;  // the address that the kernel is given; null: it is given none
  char* home;  // where the bytes are
  u64 bytes;
  u32 argument;  // which of the kernel's arguments it is, from 0
};
constexpr u32 ALL_BLOCKS = ~0u;
struct LaunchConfig {
  dim3 grid, block;
  u32 shared_bytes;
  u32 seed;  // 0: warps and lanes in their natural order
  u32 os_threads;
  u32 check, trace;  // flags
  u32 only_block;  // the number of the one block that runs; ALL_BLOCKS
  u32 patience;  // seconds for which a thread may run without any operation
  u32 buffer_count;
  const Buffer* buffers;  // the global memory that the kernel may touch
};
struct LaunchResult;
LaunchResult* launch(const LaunchConfig&, void (*thread_body)(void* context), void* context);

}  // namespace emulator
#pragma GCC visibility pop
