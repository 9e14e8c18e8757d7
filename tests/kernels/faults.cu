// Planted faults, one per function. `broken` chooses between the fault and its cure; tests/test_emulator_faults.py
// runs both. The lines that a report may name end in "at fault".
//
// All run with 64 threads and 4096 bytes of shared memory. in: u32 [256]; out: u32 [64].
#include "gpu.cuh"

struct Case {
  const u32* in;
  u32* out;
  bool broken;
  u32 tid, lane, warp;
  saddr smem;  // 4096 bytes; the first 256 are words that start as zero
};

GPU_FN saddr word(const Case& c, u32 i) { return c.smem + i * 4; }
GPU_FN u32 in_other_warp(const Case& c) { return (c.tid + 32) % 64; }
GPU_FN u32 in_other_lane(const Case& c) { return c.warp * 32 + (c.lane + 1) % 32; }

// ---- order ----
GPU_FN void missing_barrier(const Case& c) {
  sts<u32>(word(c, c.tid), c.tid);  // at fault
  if (!c.broken)
    __syncthreads();
  const u32 x = lds<u32>(word(c, in_other_warp(c)));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void missing_barrier_before_overwriting(const Case& c) {
  const u32 x = lds<u32>(word(c, in_other_warp(c)));  // at fault
  if (!c.broken)
    __syncthreads();
  sts<u32>(word(c, c.tid), x + 1);  // at fault
}
GPU_FN void missing_syncwarp(const Case& c) {
  sts<u32>(word(c, c.tid), c.tid);  // at fault
  if (!c.broken)
    __syncwarp();
  const u32 x = lds<u32>(word(c, in_other_lane(c)));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void missing_syncwarp_before_overwriting(const Case& c) {
  const u32 x = lds<u32>(word(c, in_other_lane(c)));  // at fault
  if (!c.broken)
    __syncwarp();
  sts<u32>(word(c, c.tid), x + 1);  // at fault
}
// A shuffle makes the lanes meet, but orders no memory.
GPU_FN void shuffle_is_no_syncwarp(const Case& c) {
  sts<u32>(word(c, c.tid), c.tid);  // at fault
  const u32 y = __shfl_xor_sync(0xffffffffu, c.tid, 1);
  if (!c.broken)
    __syncwarp();
  const u32 x = lds<u32>(word(c, in_other_lane(c)));  // at fault
  stg(c.out + c.tid, x + y);
}
// The lanes' loads, then an ldmatrix, then stores where other lanes have loaded.
GPU_FN void ldmatrix_is_no_syncwarp(const Case& c) {
  const u32 x = lds<u32>(word(c, in_other_lane(c)));  // at fault
  const u32 y = ldmatrix_x1(c.smem + 512 + c.lane % 8 * 16);
  if (!c.broken)
    __syncwarp();
  sts<u32>(word(c, c.tid), x + y);  // at fault
}
// An ldmatrix of the warp, then a store of each lane to the bytes that it read: a lane that is ahead overwrites
// what the others still want.
GPU_FN void ldmatrix_then_store(const Case& c) {
  if (c.warp == 1)
    return;
  const u32 x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  if (!c.broken)
    __syncwarp();
  sts<u32>(word(c, c.lane), x);  // at fault
}
GPU_FN void ldmatrix_then_copy(const Case& c) {
  if (c.warp == 1)
    return;
  const u32 x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  if (!c.broken)
    __syncwarp();
  cp_async_ca<4>(word(c, c.lane), c.in + c.lane);  // at fault
  cp_async_commit();
  cp_async_wait<0>();
  stg(c.out + c.tid, x);
}
// The warp stores as one, too: no lane can be ahead.
GPU_FN void ldmatrix_then_stmatrix(const Case& c) {
  if (c.warp == 1)
    return;
  const u32 x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  if (c.broken) {
    sts<u32>(word(c, c.lane), x);  // at fault
  } else {
    stmatrix_x1(c.smem + c.lane % 8 * 16, x);
  }
}
GPU_FN void stmatrix_then_store(const Case& c) {
  if (c.warp == 1)
    return;
  stmatrix_x1(c.smem + c.lane % 8 * 16, c.lane);  // at fault
  if (!c.broken)
    __syncwarp();
  sts<u32>(word(c, c.lane), c.lane);  // at fault
}
GPU_FN void stmatrix_then_load(const Case& c) {
  if (c.warp == 1)
    return;
  stmatrix_x1(c.smem + c.lane % 8 * 16, c.lane);  // at fault
  if (!c.broken)
    __syncwarp();
  const u32 x = lds<u32>(word(c, c.lane));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void stmatrix_then_ldmatrix(const Case& c) {
  if (c.warp == 1)
    return;
  stmatrix_x1(c.smem + c.lane % 8 * 16, c.lane);  // at fault
  if (!c.broken)
    __syncwarp();
  const u32 x = ldmatrix_x1_trans(c.smem + c.lane % 8 * 16);  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void barrier_skipped_by_a_warp(const Case& c) {
  if (!c.broken || c.warp == 0)
    __syncthreads();  // at fault
  sts<u32>(word(c, c.tid), c.tid);
  __syncthreads();  // at fault
}

// ---- asynchronous copies ----
GPU_FN void missing_wait(const Case& c) {
  cp_async_ca<4>(word(c, c.tid), c.in + c.tid);  // at fault
  cp_async_commit();
  if (!c.broken)
    cp_async_wait<0>();
  __syncthreads();
  const u32 x = lds<u32>(word(c, in_other_warp(c)));  // at fault
  stg(c.out + c.tid, x);
  cp_async_wait<0>();
}
GPU_FN void wait_for_too_few(const Case& c) {
  cp_async_cg16(c.smem + c.tid * 16, c.in + c.tid * 4);  // at fault
  cp_async_commit();
  if (c.broken) {
    cp_async_wait<1>();
  } else {
    cp_async_wait<0>();
  }
  const u32 x = lds<u32>(c.smem + c.tid * 16);  // at fault
  stg(c.out + c.tid, x);
  cp_async_wait<0>();
}
GPU_FN void missing_commit(const Case& c) {
  cp_async_ca<8>(c.smem + c.tid * 8, c.in + c.tid * 2);  // at fault
  if (!c.broken)
    cp_async_commit();
  cp_async_wait<0>();
  const u32 x = lds<u32>(c.smem + c.tid * 8);  // at fault
  stg(c.out + c.tid, x);
  cp_async_commit();
  cp_async_wait<0>();
}
// A thread's wait is for its own copies: the other warp's need a barrier.
GPU_FN void wait_without_barrier(const Case& c) {
  cp_async_ca<4>(word(c, c.tid), c.in + c.tid);  // at fault
  cp_async_commit();
  cp_async_wait<0>();
  if (!c.broken)
    __syncthreads();
  const u32 x = lds<u32>(word(c, in_other_warp(c)));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void copy_over_bytes_being_read(const Case& c) {
  const u32 x = lds<u32>(word(c, in_other_warp(c)));  // at fault
  if (!c.broken)
    __syncthreads();
  cp_async_ca<4>(word(c, c.tid), c.in + c.tid);  // at fault
  cp_async_commit();
  cp_async_wait<0>();
  stg(c.out + c.tid, x);
}
GPU_FN void store_over_a_copy(const Case& c) {
  cp_async_ca<4>(word(c, c.tid), c.in + c.tid);  // at fault
  cp_async_commit();
  if (!c.broken)
    cp_async_wait<0>();
  sts<u32>(word(c, c.tid), c.tid);  // at fault
  cp_async_wait<0>();
}
GPU_FN void copy_never_waited_for(const Case& c) {
  cp_async_ca<4>(word(c, c.tid), c.in + c.tid);  // at fault
  cp_async_commit();
  if (!c.broken)
    cp_async_wait<0>();
}

// ---- addresses ----
GPU_FN void past_shared_memory(const Case& c) {
  sts<u32>(c.smem + 4096 - 256 + c.tid * 4 + (c.broken ? 4 : 0), 1);  // at fault
}
GPU_FN void before_shared_memory(const Case& c) {
  const u32 x = lds<u32>(word(c, c.tid) - (c.broken ? c.smem : 0));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void past_global_memory(const Case& c) {
  const u32 x = ldg(c.in + 256 - 64 + c.tid + (c.broken ? 1 : 0));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void far_past_global_memory(const Case& c) {
  stg(c.out + (c.broken ? 64 * 1000 : 0) + c.tid, 1u);  // at fault
}
// A copy that writes zeros does not read its source; one that reads must not read past the end.
GPU_FN void copy_from_past_the_end(const Case& c) {
  cp_async_cg16_or_zero(c.smem + c.tid * 16, c.in + 256 + c.tid * 4, c.broken);  // at fault
  cp_async_commit();
  cp_async_wait<0>();
}
GPU_FN void misaligned_shared(const Case& c) {
  const uint2 x = lds<uint2>(c.smem + (c.broken ? 4 : 0));  // at fault
  stg(c.out + c.tid, x.y);
}
GPU_FN void misaligned_matrix_row(const Case& c) {
  const u32 x = ldmatrix_x1(c.smem + c.lane % 8 * (c.broken ? 24 : 16));  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void misaligned_global(const Case& c) {
  const uint4 x = ldg(reinterpret_cast<const uint4*>(c.in + (c.broken ? 2 : 4)));  // at fault
  stg(c.out + c.tid, x.y);
}
GPU_FN void uninitialised(const Case& c) {
  if (!c.broken)
    sts<u32>(c.smem + 2048 + c.tid * 4, c.tid);
  const u32 x = lds<u32>(c.smem + 2048 + c.tid * 4);  // at fault
  stg(c.out + c.tid, x);
}

// ---- warps that fall apart ----
GPU_FN void divergent_matrices(const Case& c) {
  u32 x;
  if (c.broken && c.lane < 16) {
    x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  } else {
    x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  }
  stg(c.out + c.tid, x);
}
GPU_FN void lanes_leave_early(const Case& c) {
  if (c.broken && c.lane >= 16)
    return;
  const u32 x = ldmatrix_x1(c.smem + c.lane % 8 * 16);  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void shuffle_from_a_lane_that_left(const Case& c) {
  if (c.broken && c.lane == 31)
    return;
  const u32 x = __shfl_xor_sync(0xffffffffu, c.tid, 1);  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void half_a_warp(const Case& c) {
  const u32 x = __shfl_xor_sync(c.broken ? 0xffffu : 0xffffffffu, c.tid, 1);  // at fault
  stg(c.out + c.tid, x);
}

// A GPU would run the other warp meanwhile.
GPU_FN void waiting_in_a_loop(const Case& c) {
  const bool waits = c.broken && c.lane == 0;
  while (waits && lds<u32>(word(c, 0)) == 0) {  // at fault
  }
}

GPU_FN void endless_arithmetic(const Case& c) {
  volatile u32 odd = c.broken;
  while (odd)
    odd = odd * 3;
}
GPU_FN void endless_shuffles(const Case& c) {
  u32 x = c.broken;
  while (x)
    x = __shfl_xor_sync(0xffffffffu, x, 1);  // at fault
}

// ---- mbarriers and bulk copies ----
constexpr u32 BARRIER = 1024, BULK = 2048;

GPU_FN void mbarrier_starved(const Case& c) {
  if (c.tid == 0)
    mbar_init(c.smem + BARRIER, c.broken ? 65 : 64);
  __syncthreads();
  mbar_arrive(c.smem + BARRIER);
  mbar_wait(c.smem + BARRIER, 0);  // at fault
}
GPU_FN void mbarrier_not_made(const Case& c) {
  if (c.tid == 0 && !c.broken)
    mbar_init(c.smem + BARRIER, 64);
  __syncthreads();
  mbar_arrive(c.smem + BARRIER);  // at fault
}
GPU_FN void mbarrier_used_too_early(const Case& c) {
  if (c.tid == 0)
    mbar_init(c.smem + BARRIER, 1);  // at fault
  if (!c.broken)
    __syncthreads();
  if (c.tid == 63)
    mbar_arrive(c.smem + BARRIER);  // at fault
}
GPU_FN void mbarrier_arrival_too_many(const Case& c) {
  if (c.tid)
    return;
  mbar_init(c.smem + BARRIER, 2);
  mbar_arrive_expect_tx(c.smem + BARRIER, 16);
  mbar_arrive(c.smem + BARRIER);
  if (c.broken)
    mbar_arrive(c.smem + BARRIER);  // at fault
}
// One lane arrives for its warp: it can only hand on what it knows of the others.
GPU_FN void mbarrier_arrival_for_others(const Case& c) {
  if (c.tid == 0)
    mbar_init(c.smem + BARRIER, 1);
  __syncthreads();
  if (c.warp == 0) {
    sts<u32>(word(c, c.lane), 7);  // at fault
    if (!c.broken)
      __syncwarp();
    if (c.lane == 0)
      mbar_arrive(c.smem + BARRIER);
  } else {
    mbar_wait(c.smem + BARRIER, 0);
    const u32 x = lds<u32>(word(c, c.lane));  // at fault
    stg(c.out + c.tid, x);
  }
}
GPU_FN void bulk_copy_not_waited_for(const Case& c) {
  if (c.tid == 0) {
    mbar_init(c.smem + BARRIER, 1);
    fence_proxy_async();
    mbar_arrive_expect_tx(c.smem + BARRIER, 256);
    bulk_load(c.smem + BULK, c.in, 256, c.smem + BARRIER);  // at fault
  }
  __syncthreads();
  if (!c.broken)
    mbar_wait(c.smem + BARRIER, 0);
  const u32 x = lds<u32>(c.smem + BULK + c.tid * 4);  // at fault
  stg(c.out + c.tid, x);
}
// Two copies, each with its own mbarrier: to have waited for one says nothing of the other.
GPU_FN void bulk_copy_other_barrier(const Case& c) {
  if (c.tid == 0) {
    for (u32 i = 0; i < 2; i++)
      mbar_init(c.smem + BARRIER + i * 8, 1);
    fence_proxy_async();
    for (u32 i = 0; i < 2; i++) {
      mbar_arrive_expect_tx(c.smem + BARRIER + i * 8, 256);
      bulk_load(c.smem + BULK + i * 256, c.in, 256, c.smem + BARRIER + i * 8);  // at fault
    }
  }
  __syncthreads();
  mbar_wait(c.smem + BARRIER + 8, 0);
  if (!c.broken)
    mbar_wait(c.smem + BARRIER, 0);
  const u32 x = lds<u32>(c.smem + BULK + c.tid * 4);  // at fault
  stg(c.out + c.tid, x);
}
GPU_FN void bulk_copy_without_fence(const Case& c) {
  if (c.tid == 0) {
    mbar_init(c.smem + BARRIER, 1);
    if (!c.broken)
      fence_proxy_async();
    mbar_arrive_expect_tx(c.smem + BARRIER, 256);
    bulk_load(c.smem + BULK, c.in, 256, c.smem + BARRIER);  // at fault
  }
  __syncthreads();
  mbar_wait(c.smem + BARRIER, 0);
}

// ---- crashes ----
GPU_FN u32 use_much_stack(u32 depth, u32 seed) {
  volatile u32 local[1024];
  for (u32 i = 0; i < 1024; i++)
    local[i] = seed + i;
  const u32 deeper = depth == 0 ? 0 : use_much_stack(depth - 1, seed + 1);
  return local[(seed + deeper) % 1024];
}
GPU_FN void stack_overflow(const Case& c) { stg(c.out + c.tid, use_much_stack(c.broken ? 100 : 2, c.tid)); }
GPU_FN void wild_pointer(const Case& c) {
  u32 here = c.tid;
  const volatile u32* x = c.broken ? reinterpret_cast<const u32*>(0x700000000) : &here;
  stg(c.out + c.tid, *x);  // at fault
}
GPU_FN void division_by_zero(const Case& c) {
  const volatile u32 divisor = c.broken ? 0 : 1;
  stg(c.out + c.tid, c.tid / divisor);  // at fault
}

#define CASE(NAME) \
  case __LINE__:   \
    return NAME(c);

__global__ void __launch_bounds__(64) planted(const u32* in, u32* out, int which, int broken) {
  Case c{in, out, broken != 0, threadIdx.x, threadIdx.x % 32, threadIdx.x / 32, smem_base()};
  for (u32 i = c.tid; i < 512; i += 64)
    sts<u32>(word(c, i), 0);
  __syncthreads();
  // The number of a case is its line in this file.
  switch (which) {
    CASE(missing_barrier)
    CASE(missing_barrier_before_overwriting)
    CASE(missing_syncwarp)
    CASE(missing_syncwarp_before_overwriting)
    CASE(shuffle_is_no_syncwarp)
    CASE(ldmatrix_is_no_syncwarp)
    CASE(ldmatrix_then_store)
    CASE(ldmatrix_then_copy)
    CASE(ldmatrix_then_stmatrix)
    CASE(stmatrix_then_store)
    CASE(stmatrix_then_load)
    CASE(stmatrix_then_ldmatrix)
    CASE(barrier_skipped_by_a_warp)
    CASE(missing_wait)
    CASE(wait_for_too_few)
    CASE(missing_commit)
    CASE(wait_without_barrier)
    CASE(copy_over_bytes_being_read)
    CASE(store_over_a_copy)
    CASE(copy_never_waited_for)
    CASE(past_shared_memory)
    CASE(before_shared_memory)
    CASE(past_global_memory)
    CASE(far_past_global_memory)
    CASE(copy_from_past_the_end)
    CASE(misaligned_shared)
    CASE(misaligned_matrix_row)
    CASE(misaligned_global)
    CASE(uninitialised)
    CASE(divergent_matrices)
    CASE(lanes_leave_early)
    CASE(shuffle_from_a_lane_that_left)
    CASE(half_a_warp)
    CASE(waiting_in_a_loop)
    CASE(endless_arithmetic)
    CASE(endless_shuffles)
    CASE(mbarrier_starved)
    CASE(mbarrier_not_made)
    CASE(mbarrier_used_too_early)
    CASE(mbarrier_arrival_too_many)
    CASE(mbarrier_arrival_for_others)
    CASE(bulk_copy_not_waited_for)
    CASE(bulk_copy_other_barrier)
    CASE(bulk_copy_without_fence)
    CASE(stack_overflow)
    CASE(wild_pointer)
    CASE(division_by_zero)
  }
}
