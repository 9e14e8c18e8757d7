// How a kernel meets the CPU machine: global memory, shuffles, blocks of any shape. tests/machines/test_front.py.
#include "gpu.cuh"

struct Pair {
  u32 first, second;
};

template <u32 KIND> __global__ void plain(const u32* in, u32* out) {
  const u32 t = threadIdx.x;
  const u32 x = ldg(in + t);
  if constexpr (KIND == 0) {
    stg(out + t, in[t]);  // at fault
  } else if constexpr (KIND == 1) {
    out[t] = x;  // at fault
  } else if constexpr (KIND == 2) {
    const uint4 four = *reinterpret_cast<const uint4*>(in + t / 4 * 4);  // at fault
    stg(out + t, four.x);
  } else if constexpr (KIND == 3) {
    stg(out + t, reinterpret_cast<const Pair*>(in)[t / 2].second);  // at fault
  } else if constexpr (KIND == 4) {
    const u32& first = in[0];
    stg(out + t, first + x);  // at fault
  } else if constexpr (KIND == 5) {
    for (u32 i = 0; i < 4; i++)
      out[t] += x * i;  // at fault
  } else if constexpr (KIND == 6) {
    stg(out + t, in[t + 100000]);  // at fault
  }
}

GPU_FN u32 first_of(const u32* from) {
  return from[0];  // at fault
}
__global__ void plain_in_a_function(const u32* in, u32* out) { stg(out + threadIdx.x, first_of(in)); }

// Each kind of shuffle with operands and widths from tables, u32 [32] each.
__global__ void shuffles(const int* operand, const int* width, u32* out) {
  const u32 t = threadIdx.x;
  const int by = ldg(operand + t), wide = ldg(width);
  stg(out + t, __shfl_sync(0xffffffffu, 100 + t, by, wide));
  stg(out + 32 + t, __shfl_up_sync(0xffffffffu, 100 + t, by, wide));
  stg(out + 64 + t, __shfl_down_sync(0xffffffffu, 100 + t, by, wide));
  stg(out + 96 + t, __shfl_xor_sync(0xffffffffu, 100 + t, by, wide));
}

__global__ void add_one(const u32* in, u32* out) {
  const u32 t = threadIdx.x;
  stg(out + t, ldg(in + t) + 1);
  __syncthreads();
  stg(out + t, ldg(in + t) + 1);
}

__global__ void sum_by_block(const u32* in, u32* out) {
  const u32 t = threadIdx.x + blockDim.x * threadIdx.y;
  sts<u32>(smem_base() + t * 4, ldg(in + t));
  __syncthreads();
  u32 sum = 0;
  for (u32 i = 0; i < blockDim.x * blockDim.y; i++)
    sum += lds<u32>(smem_base() + i * 4);
  __syncwarp();
  stg(out + t, sum);
}

constexpr u32 MOST = 64;
__global__ void __launch_bounds__(MOST, 2) bounded(u32* out) { stg(out + threadIdx.x, 1u); }
__global__ void writes_one(u32* out) { stg(out, 1u); }
__global__ void through(const u32* in, u32* out) {
  cp_async_ca<4>(smem_base() + threadIdx.x * 4, in + threadIdx.x);  // copies
  cp_async_commit();
  cp_async_wait<0>();
  stg(out + threadIdx.x, lds<u32>(smem_base() + threadIdx.x * 4));
}
