// kda-learn: launch transpose grid 1 block 32,8 shared 4096
// kda-learn: in  from float32[32][32] random
// kda-learn: out to   float32[32][32]
#include "gpu.cuh"

__global__ void transpose(const float* from, float* to) {
  const u32 x = threadIdx.x;
  for (u32 y = threadIdx.y; y < 32; y += 8)
    sts<float>(smem_base() + (y * 32 + x) * 4, ldg(from + y * 32 + x));
  __syncthreads();
  for (u32 y = threadIdx.y; y < 32; y += 8)
    stg(to + y * 32 + x, lds<float>(smem_base() + (x * 32 + y) * 4));
}
