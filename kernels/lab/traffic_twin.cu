// Lab: moves as many bytes as Kernel A does for one tile of one head, in the same proportion, and does nothing
// else. Its time is a floor: a kernel that has to move these bytes through device memory is not faster.
//
// Accesses are 16 bytes a lane and neighbouring lanes touch neighbouring bytes, the best that the hardware
// takes. Every byte that is written depends on bytes that were read, or the compiler would drop the reads.
#include "gpu.cuh"

constexpr u32 THREADS = 256;
constexpr u32 C = 16;  // tokens in a tile
constexpr u32 D = 128;  // head dimension
constexpr u32 PIECE = 16;  // bytes that one lane moves at a time
//                          q, k, do        gc          beta    inv, mqk
constexpr u32 BYTES_IN = 3 * C * D * 2 + C * D * 4 + C * 4 + 2 * C * C * 2;
constexpr u32 PIECES_IN = BYTES_IN / PIECE;

GPU_FN uint4 mix(uint4 a, uint4 b) { return make_uint4(a.x ^ b.x, a.y ^ b.y, a.z ^ b.z, a.w ^ b.w); }

// ELEMENT_BYTES: of a snapshot's element, 4 for fp32 and 2 for bf16.
//   in   [tiles][PIECES_IN] of 16 bytes    out  [tiles][D * D * ELEMENT_BYTES / 16] of 16 bytes
template <u32 ELEMENT_BYTES>
__global__ void __launch_bounds__(THREADS) move_tiles(const uint4* in, uint4* out, u32 tiles) {
  constexpr u32 PIECES_OUT = D * D * ELEMENT_BYTES / PIECE;
  for (u32 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const uint4* from = in + static_cast<unsigned long long>(tile) * PIECES_IN;
    uint4* to = out + static_cast<unsigned long long>(tile) * PIECES_OUT;
    uint4 seen = make_uint4(0, 0, 0, 0);
#pragma unroll
    for (u32 first = 0; first < PIECES_IN; first += THREADS) {
      const u32 i = first + threadIdx.x;
      if (i < PIECES_IN)
        seen = mix(seen, ldg(from + i));
    }
#pragma unroll
    for (u32 i = 0; i < PIECES_OUT / THREADS; i++) {
      stg(to + i * THREADS + threadIdx.x, make_uint4(seen.x + i, seen.y, seen.z, seen.w));
    }
  }
}
