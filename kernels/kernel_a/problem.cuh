// The contract of Kernel A, the same in every stage: which tokens and tiles a block works on, and how a
// snapshot is written. Shapes: q, k, dout bf16 [T_total, H, D]; gc fp32 [H * total_tiles, C, D]; inv, mqk
// bf16 [H * total_tiles, C, C]; beta fp32 [H, T_total]; dht, ds0 fp32 [N, H, K, V]; snapshots [H *
// total_tiles, K, V].
#pragma once
#include "gpu.cuh"

// One sequence of the batch. A tile holds the tokens of one chunk and never crosses into the next sequence,
// so the last tile of a sequence may be short.
struct Sequence {
  int first_token;  // row of q, k, dout
  int length;  // tokens
  int first_tile;  // tiles of all sequences before this one
};

// Sequence n of a batch whose sequences are all T tokens long, or, with VARLEN, are cut by cu_seqlens.
template <bool VARLEN>
GPU_FN Sequence find_sequence(u32 n, const long long* cu_seqlens, int T, u32 tile_rows) {
  if constexpr (!VARLEN) {
    const int tiles = (T + tile_rows - 1) / tile_rows;
    return {(int)n * T, T, (int)n * tiles};
  } else {
    int first_tile = 0;
    long long start = 0;
#pragma unroll 1
    for (u32 i = 0; i < n; i++) {
      const long long end = ldg(cu_seqlens + i + 1);
      first_tile += (int)((end - start + tile_rows - 1) / tile_rows);
      start = end;
    }
    return {(int)start, (int)(ldg(cu_seqlens + n + 1) - start), first_tile};
  }
}

// Snapshots hold dS as it stands in shared memory (bf16), widened to fp32 or as it is. Two neighbours at a
// time ...
GPU_FN void store_snapshot(float* at, u32 pair) {
  stg(reinterpret_cast<float2*>(at), make_float2(bf16_lo(pair), bf16_hi(pair)));
}
GPU_FN void store_snapshot(bf16* at, u32 pair) { stg(reinterpret_cast<u32*>(at), pair); }

// ... or four.
GPU_FN void store_snapshot(float* at, u32 pair, u32 next_pair) {
  stg(reinterpret_cast<float4*>(at),
      make_float4(bf16_lo(pair), bf16_hi(pair), bf16_lo(next_pair), bf16_hi(next_pair)));
}
GPU_FN void store_snapshot(bf16* at, u32 pair, u32 next_pair) {
  stg(reinterpret_cast<uint2*>(at), make_uint2(pair, next_pair));
}
