// What each operation of gpu.cuh does, for tests/test_emulator.py to compare with NumPy.
#include "gpu.cuh"

constexpr u32 LANES = 32;

// Every ldmatrix and stmatrix. words: u32 [512], what shared memory holds; rows: u32 [32], byte offsets.
// loaded: u32 [14][32] registers of x1, x2, x4, then the same with trans; stored: u32 [6][512], shared memory
// after stmatrix x1, x2, x4 and the same with trans, of registers that x4 loaded; turned: u32 [32].
__global__ void matrices(const u32* words, const u32* rows, u32* loaded, u32* stored, u32* turned) {
  const u32 lane = threadIdx.x;
  const saddr row = smem_base() + ldg(rows + lane);
  for (u32 i = lane; i < 512; i += LANES)
    sts<u32>(smem_base() + i * 4, ldg(words + i));
  __syncwarp();
  stg(loaded + lane, ldmatrix_x1(row));
  const FragB x2 = ldmatrix_x2(row);
  for (u32 i = 0; i < 2; i++)
    stg(loaded + (1 + i) * LANES + lane, x2.r[i]);
  const FragA x4 = ldmatrix_x4(row);
  for (u32 i = 0; i < 4; i++)
    stg(loaded + (3 + i) * LANES + lane, x4.r[i]);
  stg(loaded + 7 * LANES + lane, ldmatrix_x1_trans(row));
  const FragB x2_trans = ldmatrix_x2_trans(row);
  for (u32 i = 0; i < 2; i++)
    stg(loaded + (8 + i) * LANES + lane, x2_trans.r[i]);
  const FragA x4_trans = ldmatrix_x4_trans(row);
  for (u32 i = 0; i < 4; i++)
    stg(loaded + (10 + i) * LANES + lane, x4_trans.r[i]);
  stg(turned + lane, movmatrix_trans(x4.r[0]));

  const FragB first_two = {{x4.r[0], x4.r[1]}};
  for (u32 variant = 0; variant < 6; variant++) {
    __syncwarp();
    for (u32 i = lane; i < 512; i += LANES)
      sts<u32>(smem_base() + i * 4, 0);
    __syncwarp();
    if (variant == 0)
      stmatrix_x1(row, x4.r[0]);
    if (variant == 1)
      stmatrix_x2(row, first_two);
    if (variant == 2)
      stmatrix_x4(row, x4);
    if (variant == 3)
      stmatrix_x1_trans(row, x4.r[0]);
    if (variant == 4)
      stmatrix_x2_trans(row, first_two);
    if (variant == 5)
      stmatrix_x4_trans(row, x4);
    __syncwarp();
    for (u32 i = lane; i < 512; i += LANES) {
      const u32 word = lds<u32>(smem_base() + i * 4);
      stg(stored + variant * 512 + i, word);
    }
  }
}

// c += a * b. a: bf16 [16][16], b: bf16 [16][8], c: float [16][8].
__global__ void product(const bf16* a, const bf16* b, float* c) {
  const u32 group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
  FragA a_rmem;
  FragB b_rmem;
  FragC c_rmem;
  for (u32 i = 0; i < 4; i++) {
    const bf16* at = a + (group + i % 2 * 8) * 16 + pair + i / 2 * 8;
    a_rmem.r[i] = ldg(at).bits | static_cast<u32>(ldg(at + 1).bits) << 16;
  }
  for (u32 i = 0; i < 2; i++) {
    const bf16* at = b + (pair + i * 8) * 8 + group;
    b_rmem.r[i] = ldg(at).bits | static_cast<u32>(ldg(at + 8).bits) << 16;
  }
  for (u32 i = 0; i < 4; i++)
    c_rmem.r[i] = ldg(c + (group + i / 2 * 8) * 8 + pair + i % 2);
  mma(c_rmem, a_rmem, b_rmem);
  for (u32 i = 0; i < 4; i++)
    stg(c + (group + i / 2 * 8) * 8 + pair + i % 2, c_rmem.r[i]);
}

// out: u32 [6][32].
__global__ void shuffles(u32* out) {
  const u32 lane = threadIdx.x;
  stg(out + lane, __shfl_sync(0xffffffffu, lane, 5));
  stg(out + 1 * LANES + lane, __shfl_sync(0xffffffffu, lane, lane / 16 * 16 + 3, 16));
  stg(out + 2 * LANES + lane, __shfl_up_sync(0xffffffffu, lane, 3));
  stg(out + 3 * LANES + lane, __shfl_down_sync(0xffffffffu, lane, 3, 8));
  stg(out + 4 * LANES + lane, __shfl_xor_sync(0xffffffffu, lane, 17));
  const float half = __shfl_xor_sync(0xffffffffu, lane * 0.5f, 1);
  stg(out + 5 * LANES + lane, __float_as_uint(half));
}

// values: float [32]; functions: float [2][32], 2^x and 1/sqrt(x); rounded: bf16 [32]; packed: u32 [32], the
// value and its negative; widened: float [3][32], the three ways back.
__global__ void conversions(const float* values, float* functions, bf16* rounded, u32* packed,
                            float* widened) {
  const u32 lane = threadIdx.x;
  const float x = ldg(values + lane);
  const u32 pair = pack_bf16(x, -x);
  stg(functions + lane, fast_exp2(x));
  stg(functions + LANES + lane, fast_rsqrt(x));
  stg(rounded + lane, to_bf16(x));
  stg(packed + lane, pair);
  stg(widened + lane, bf16_lo(pair));
  stg(widened + LANES + lane, bf16_hi(pair));
  stg(widened + 2 * LANES + lane, to_float(to_bf16(x)));
}

// Three groups of copies land in the order in which they were committed. source: u32 [3][32][4].
// out: u32 [4][32]: a word of each group, and one that a copy filled with zeros.
__global__ void copies(const u32* source, u32* out) {
  const u32 lane = threadIdx.x;
  const saddr mine = smem_base() + lane * 16;
  cp_async_cg16(mine, source + lane * 4);
  cp_async_commit();
  cp_async_ca<8>(mine + 512, source + (LANES + lane) * 4);
  cp_async_commit();
  cp_async_commit();  // an empty group counts, too
  cp_async_ca<4>(mine + 1024, source + (2 * LANES + lane) * 4);
  cp_async_ca_or_zero<4>(mine + 1028, source + 1000000, false);
  cp_async_commit();
  cp_async_wait<3>();
  stg(out + lane, lds<u32>(mine));
  cp_async_wait<2>();
  stg(out + LANES + lane, lds<u32>(mine + 512));
  cp_async_wait<0>();
  stg(out + 2 * LANES + lane, lds<u32>(mine + 1024));
  stg(out + 3 * LANES + lane, lds<u32>(mine + 1028));
}

// A ring of two buffers that one thread fills by bulk copies and a warp empties, over and over: each buffer has
// one mbarrier that says it is full and one that says it is empty. source: u32 [rounds][64]; sums: u32 [32].
__global__ void ring(const u32* source, u32* sums, int rounds) {
  constexpr u32 BUFFER_BYTES = 256;
  const saddr full = smem_base() + 2 * BUFFER_BYTES, empty = full + 16;
  const u32 lane = threadIdx.x % LANES;
  if (threadIdx.x == 0) {
    for (u32 i = 0; i < 2; i++) {
      mbar_init(full + i * 8, 1);
      mbar_init(empty + i * 8, LANES);
    }
    fence_proxy_async();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int round = 0; round < rounds; round++) {
      const u32 buffer = round % 2, turn = round / 2;
      if (turn > 0) {
        mbar_wait(empty + buffer * 8, (turn - 1) % 2);
        fence_proxy_async();
      }
      mbar_arrive_expect_tx(full + buffer * 8, BUFFER_BYTES);
      bulk_load(smem_base() + buffer * BUFFER_BYTES, source + round * 64, BUFFER_BYTES, full + buffer * 8);
    }
  } else if (threadIdx.x >= LANES) {
    u32 sum = 0;
    for (int round = 0; round < rounds; round++) {
      const u32 buffer = round % 2, turn = round / 2;
      mbar_wait(full + buffer * 8, turn % 2);
      const uint2 x = lds<uint2>(smem_base() + buffer * BUFFER_BYTES + (lane + 1) % LANES * 8);
      mbar_arrive(empty + buffer * 8);
      sum += x.x + x.y;
    }
    stg(sums + lane, sum);
  }
}

// Every width, and lanes that stand aside. out: u32 [32].
__global__ void widths(u32* out) {
  const u32 lane = threadIdx.x;
  const saddr mine = smem_base() + lane * 16;
  sts<uint4>(mine, make_uint4(lane, lane + 1, lane + 2, lane + 3));
  const float2 two = lds<float2>(mine + 8);
  sts<bf16>(mine, bf16{7});
  const bf16 half = lds<bf16>(mine);
  if (lane % 2)
    sts<u32>(mine + 4, 100);
  const u32 word = lds<u32>(mine + 4);
  stg(out + lane, __float_as_uint(two.x) * 1000000 + half.bits * 10000 + word);
}

// Who comes when: the threads take numbers from a counter. ticket: u32 [1 + threads].
__global__ void order(u32* ticket) {
  const u32 number = ldg(ticket);
  stg(ticket, number + 1);
  stg(ticket + 1 + threadIdx.x, number);
}
