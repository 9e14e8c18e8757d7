// Pipelines of mbarriers and bulk copies, each with one mistake and without. `broken` chooses between the two;
// tests/machines/test_pipelines.py runs both.
//
// All run with 64 threads and 4096 bytes of shared memory. in: u32 [256]; out: u32 [64].
#include "gpu.cuh"

struct Case {
  const u32* in;
  u32* out;
  bool broken;
  u32 tid, lane, warp;
  saddr smem;
};
constexpr u32 FULL = 2048, EMPTY = 2112, OTHER = 2176, BYTES = 256;

GPU_FN saddr word(const Case& c, u32 i) { return c.smem + i * 4; }
GPU_FN void make(const Case& c, u32 at, u32 count) {
  if (c.tid == 0)
    mbar_init(c.smem + at, count);
}
GPU_FN void publish(const Case& c) {
  if (c.tid == 0)
    fence_proxy_async();
  __syncthreads();
}
GPU_FN void copy(const Case& c, u32 to, u32 barrier, u32 expected = BYTES) {
  mbar_arrive_expect_tx(c.smem + barrier, expected);  // at fault
  bulk_load(c.smem + to, c.in, BYTES, c.smem + barrier);  // at fault
}

// ---- rings of threads: warp 0 fills, warp 1 empties ----
// kind 0: nothing tells that a buffer is free; 1: the first wait for a free buffer has the wrong parity;
// 2: a parity that never turns; 3: the reader arrives before it has read.
template <u32 STAGES, u32 KIND> GPU_FN void ring(const Case& c) {
  for (u32 stage = 0; stage < STAGES; stage++) {
    make(c, FULL + stage * 8, 32);
    make(c, EMPTY + stage * 8, 32);
  }
  publish(c);
  u32 sum = 0;
  for (u32 round = 0; round < 3 * STAGES; round++) {
    const u32 stage = round % STAGES, turn = round / STAGES % 2;
    const saddr full = c.smem + FULL + stage * 8, empty = c.smem + EMPTY + stage * 8;
    const saddr mine = word(c, stage * 32 + c.lane);
    if (c.warp == 0) {
      if (!(KIND == 0 && c.broken))
        mbar_wait(empty, KIND == 1 && c.broken ? 0 : turn ^ 1);  // at fault
      sts<u32>(mine, round);  // at fault
      mbar_arrive(full);  // at fault
    } else {
      mbar_wait(full, KIND == 2 && c.broken ? 0 : turn);  // at fault
      if (KIND == 3 && c.broken)
        mbar_arrive(empty);
      sum += lds<u32>(mine);  // at fault
      if (!(KIND == 3 && c.broken))
        mbar_arrive(empty);
    }
  }
  stg(c.out + c.tid, sum);
}
// A signal without an answer: no bytes are at stake, but a reader that is late waits for ever.
GPU_FN void signal_without_answer(const Case& c) {
  make(c, FULL, 32);
  make(c, EMPTY, 32);
  publish(c);
  for (u32 round = 0; round < 3; round++) {
    if (c.warp == 0) {
      if (!c.broken)
        mbar_wait(c.smem + EMPTY, round % 2 ^ 1);
      mbar_arrive(c.smem + FULL);  // at fault
    } else {
      mbar_wait(c.smem + FULL, round % 2);  // at fault
      mbar_arrive(c.smem + EMPTY);
    }
  }
}
GPU_FN void reader_waits_for_the_wrong_phase(const Case& c) {
  make(c, FULL, 32);
  publish(c);
  if (c.warp == 0) {
    sts<u32>(word(c, c.lane), c.lane);  // at fault
    mbar_arrive(c.smem + FULL);
  } else {
    mbar_wait(c.smem + FULL, c.broken);  // at fault
    stg(c.out + c.lane, lds<u32>(word(c, c.lane)));  // at fault
  }
}

// ---- the barrier as an object ----
GPU_FN void made_twice(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  mbar_arrive(c.smem + FULL);
  mbar_wait(c.smem + FULL, 0);
  __syncthreads();
  if (c.tid == 0) {
    if (!c.broken)
      mbar_inval(c.smem + FULL);
    mbar_init(c.smem + FULL, 64);  // at fault
  }
  __syncthreads();
  mbar_arrive(c.smem + FULL);
  mbar_wait(c.smem + FULL, 0);
}
GPU_FN void counts_nothing(const Case& c) {
  if (c.tid == 0)
    mbar_init(c.smem + FULL, c.broken ? 0 : 1);  // at fault
}
GPU_FN void counts_too_much(const Case& c) {
  if (c.tid == 0)
    mbar_init(c.smem + FULL, c.broken ? 1 << 20 : (1 << 20) - 1);  // at fault
}
GPU_FN void stored_over(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  if (c.tid == 0)
    sts<u32>(c.smem + FULL + (c.broken ? 4 : 8), 0);  // at fault
}
GPU_FN void loaded(const Case& c) {
  make(c, FULL, 64);
  if (c.tid == 0)
    sts<u32>(c.smem + FULL + 8, 0);
  publish(c);
  if (c.tid == 0)
    stg(c.out, lds<u32>(c.smem + FULL + (c.broken ? 0 : 8)));  // at fault
}
GPU_FN void loaded_as_a_matrix(const Case& c) {
  for (u32 i = c.tid; i < 64; i += 64)
    sts<uint2>(c.smem + 1024 + i * 8, make_uint2(0, 0));
  __syncthreads();
  make(c, 1024 + 128, 64);
  publish(c);
  const u32 x = ldmatrix_x1(c.smem + 1024 + (c.broken ? 64 : 0) + c.lane % 8 * 16);  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void used_again_as_memory(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  mbar_arrive(c.smem + FULL);
  mbar_wait(c.smem + FULL, 0);
  __syncthreads();
  if (c.tid == 0) {
    if (!c.broken)
      mbar_inval(c.smem + FULL);
    sts<uint2>(c.smem + FULL, make_uint2(1, 2));  // at fault
  }
}
GPU_FN void ended_while_used(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  mbar_arrive(c.smem + FULL);  // at fault
  mbar_wait(c.smem + FULL, 0);  // at fault
  if (!c.broken)
    __syncthreads();
  if (c.tid == 0)
    mbar_inval(c.smem + FULL);  // at fault
}
GPU_FN void parity_of_two(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  for (u32 round = 0; round < 3; round++) {
    mbar_arrive(c.smem + FULL);
    mbar_wait(c.smem + FULL, c.broken ? round : round % 2);  // at fault
  }
}
GPU_FN void arrivals_missing(const Case& c) {
  make(c, FULL, c.broken ? 96 : 64);
  publish(c);
  mbar_arrive(c.smem + FULL);
  mbar_wait(c.smem + FULL, 0);  // at fault
}
// Each thread arrives twice: the second arrivals end a phase that nobody meant.
GPU_FN void arrivals_too_many(const Case& c) {
  make(c, FULL, 64);
  publish(c);
  mbar_arrive(c.smem + FULL);  // at fault
  if (c.broken)
    mbar_arrive(c.smem + FULL);  // at fault
  mbar_wait(c.smem + FULL, 0);  // at fault
}

// ---- bulk copies ----
GPU_FN void expects_too_little(const Case& c) {
  make(c, FULL, 1);
  publish(c);
  if (c.tid == 0)
    copy(c, 0, FULL, c.broken ? BYTES / 2 : BYTES);
  mbar_wait(c.smem + FULL, 0);
}
GPU_FN void expects_too_much(const Case& c) {
  make(c, FULL, 1);
  publish(c);
  if (c.tid == 0)
    copy(c, 0, FULL, c.broken ? BYTES * 2 : BYTES);
  mbar_wait(c.smem + FULL, 0);
}
GPU_FN void expects_nothing(const Case& c) {
  make(c, FULL, 2);
  publish(c);
  if (c.tid == 0) {
    if (c.broken)
      mbar_arrive(c.smem + FULL);
    copy(c, 0, FULL, c.broken ? 0 : BYTES);
    if (!c.broken)
      mbar_arrive(c.smem + FULL);
  }
  mbar_wait(c.smem + FULL, 0);
}
GPU_FN void copy_never_waited_for(const Case& c) {
  make(c, FULL, 1);
  publish(c);
  if (c.tid == 0)
    copy(c, 0, FULL);
  if (!c.broken)
    mbar_wait(c.smem + FULL, 0);
}
// Its phase has ended while a thread waited for something else, but nobody knows.
GPU_FN void copy_landed_unnoticed(const Case& c) {
  make(c, FULL, 1);
  make(c, OTHER, 1);
  publish(c);
  if (c.tid == 0) {
    copy(c, 0, FULL);
    copy(c, BYTES, OTHER);
  }
  mbar_wait(c.smem + OTHER, 0);
  if (!c.broken)
    mbar_wait(c.smem + FULL, 0);
}
GPU_FN void copied_to_twice(const Case& c) {
  make(c, FULL, 1);
  make(c, OTHER, 1);
  publish(c);
  if (c.tid == 0) {
    copy(c, 0, FULL);
    if (!c.broken)
      mbar_wait(c.smem + FULL, 0);
    copy(c, 0, OTHER);
  }
  mbar_wait(c.smem + FULL, 0);
  mbar_wait(c.smem + OTHER, 0);
}
GPU_FN void stored_before_it_landed(const Case& c) {
  make(c, FULL, 1);
  publish(c);
  if (c.tid == 0)
    copy(c, 0, FULL);
  __syncthreads();
  if (!c.broken)
    mbar_wait(c.smem + FULL, 0);
  sts<u32>(word(c, c.tid), 0);  // at fault
  mbar_wait(c.smem + FULL, 0);
}

// ---- the two ways to memory: what threads did to bytes, then a bulk copy over them ----
template <class Before>
GPU_FN void copy_over(const Case& c, bool fence_before, bool fence_after, Before before) {
  make(c, FULL, 1);
  before();
  if (fence_before)
    fence_proxy_async();
  __syncthreads();
  if (c.tid == 32) {
    if (fence_after)
      fence_proxy_async();
    copy(c, 0, FULL);
  }
  mbar_wait(c.smem + FULL, 0);
  stg(c.out + c.tid, lds<u32>(word(c, c.tid)));
}
GPU_FN void copied_over_a_store(const Case& c) {
  copy_over(c, false, !c.broken, [&] {
    sts<u32>(word(c, c.tid), 0);  // at fault
  });
}
GPU_FN void copied_over_a_store_fenced_by_each(const Case& c) {
  copy_over(c, !c.broken, false, [&] {
    sts<u32>(word(c, c.tid), 0);  // at fault
  });
}
GPU_FN void copied_over_a_load(const Case& c) {
  sts<u32>(word(c, c.tid), 0);
  fence_proxy_async();
  __syncthreads();
  copy_over(c, false, !c.broken, [&] {
    stg(c.out + c.tid, lds<u32>(word(c, c.tid ^ 1)));  // at fault
  });
}
GPU_FN void copied_over_an_async_copy(const Case& c) {
  copy_over(c, false, !c.broken, [&] {
    cp_async_ca<4>(word(c, c.tid), c.in);  // at fault
    cp_async_commit();
    cp_async_wait<0>();
  });
}
// A fence of one thread says nothing of what others do at the same time.
GPU_FN void fenced_by_one_before_the_barrier(const Case& c) {
  copy_over(c, c.broken ? c.tid == 0 : true, false, [&] {
    sts<u32>(word(c, c.tid), 0);  // at fault
  });
}
GPU_FN void fenced_before_the_last_store(const Case& c) {
  make(c, FULL, 1);
  fence_proxy_async();
  sts<u32>(word(c, c.tid), 0);  // at fault
  if (!c.broken)
    fence_proxy_async();
  __syncthreads();
  if (c.tid == 0)
    copy(c, 0, FULL);
  mbar_wait(c.smem + FULL, 0);
}

// ---- warps ----
GPU_FN void lanes_of_one_store(const Case& c) {
  sts<u32>(c.smem + c.warp * 4, c.broken ? c.tid : 7);  // at fault
}
GPU_FN void lanes_meet_at_two_places(const Case& c) {
  sts<u32>(word(c, c.tid), 0);
  __syncthreads();
  sts<u32>(word(c, c.tid), c.tid);  // at fault
  if (!c.broken) {
    if (c.lane < 16)
      __syncwarp();
    else
      __syncwarp();
  }
  stg(c.out + c.tid, lds<u32>(word(c, c.tid ^ 16)));  // at fault
}

#define CASE(NAME)        \
  if (number == __LINE__) \
    NAME(c);
__global__ void planted(const u32* in, u32* out, u32 number, u32 broken) {
  const Case c{in, out, broken != 0, threadIdx.x, threadIdx.x % 32, threadIdx.x / 32, smem_base()};
  // clang-format off
  CASE((ring<1, 0>))
  CASE((ring<2, 0>))
  CASE((ring<3, 0>))
  CASE((ring<4, 0>))
  CASE((ring<1, 1>))
  CASE((ring<3, 1>))
  CASE((ring<1, 2>))
  CASE((ring<2, 2>))
  CASE((ring<1, 3>))
  CASE((ring<4, 3>))
  CASE(signal_without_answer)
  CASE(reader_waits_for_the_wrong_phase)
  CASE(made_twice)
  CASE(counts_nothing)
  CASE(counts_too_much)
  CASE(stored_over)
  CASE(loaded)
  CASE(loaded_as_a_matrix)
  CASE(used_again_as_memory)
  CASE(ended_while_used)
  CASE(parity_of_two)
  CASE(arrivals_missing)
  CASE(arrivals_too_many)
  CASE(expects_too_little)
  CASE(expects_too_much)
  CASE(expects_nothing)
  CASE(copy_never_waited_for)
  CASE(copy_landed_unnoticed)
  CASE(copied_to_twice)
  CASE(stored_before_it_landed)
  CASE(copied_over_a_store)
  CASE(copied_over_a_store_fenced_by_each)
  CASE(copied_over_a_load)
  CASE(copied_over_an_async_copy)
  CASE(fenced_by_one_before_the_barrier)
  CASE(fenced_before_the_last_store)
  CASE(lanes_of_one_store)
  CASE(lanes_meet_at_two_places)
  // clang-format on
}
