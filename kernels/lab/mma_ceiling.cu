// Lab: how fast the tensor cores multiply when nothing stands in their way. Operands and sums stay in
// registers; the sums of a warp do not depend on each other, so that one product starts while others run.
//
// Operands are random, since zeros need less power and may run faster than real data. Each product is added,
// taken away and added again, so that the sums stay small.
#include "gpu.cuh"

constexpr u32 THREADS = 256;
constexpr u32 LANES = 32;
constexpr u32 SUMS = 8;  // products under way in a warp

// Both bf16 numbers of a register with their signs turned.
GPU_FN u32 negated(u32 pair) { return pair ^ 0x80008000u; }

// Every warp computes its SUMS products 1 + 2 * rounds times.
//   a     u32 [SUMS][LANES][4]   fragments 16 x 16, bf16    b  u32 [SUMS][LANES][2]   fragments 16 x 8, bf16
//   sums  float [gridDim.x * THREADS / LANES][SUMS][LANES][4]   fragments 16 x 8: a b
__global__ void __launch_bounds__(THREADS)
    multiply(const uint4* a, const uint2* b, float4* sums, u32 rounds) {
  const u32 lane = threadIdx.x % LANES, warp = (blockIdx.x * THREADS + threadIdx.x) / LANES;
  FragA left[SUMS];
  FragB right[SUMS], minus_right[SUMS];
  FragC sum[SUMS] = {};
#pragma unroll
  for (u32 i = 0; i < SUMS; i++) {
    const uint4 x = ldg(a + i * LANES + lane);
    const uint2 y = ldg(b + i * LANES + lane);
    left[i] = {{x.x, x.y, x.z, x.w}};
    right[i] = {{y.x, y.y}};
    minus_right[i] = {{negated(y.x), negated(y.y)}};
    mma(sum[i], left[i], right[i]);
  }
#pragma unroll 1
  for (u32 round = 0; round < rounds; round++) {
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) {
      mma(sum[i], left[i], minus_right[i]);
    }
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) {
      mma(sum[i], left[i], right[i]);
    }
  }
#pragma unroll
  for (u32 i = 0; i < SUMS; i++) {
    const FragC& x = sum[i];
    stg(sums + (warp * SUMS + i) * LANES + lane, make_float4(x.r[0], x.r[1], x.r[2], x.r[3]));
  }
}
