// Stage s07: a producer pass interleaves mqk, inv and do (a dead end)
// Was slow: the chain reads mqk, inv and do through ldmatrix from plain rows, whose rows of 16 bytes
//   collide.
// Now: the copies land in raw twins, and before the chain all threads carry them over to interleaved
//   places.
// Remains: the conflicts are gone, and their cost was hidden: what binds is R1's wait for global memory.
//   The pass and its barrier come on top.
#include "gpu.cuh"
#include "kernel_a/problem.cuh"
#include "layouts.cuh"

constexpr u32 C = 16;  // tokens in a chunk, the rows of a tile
constexpr u32 D = 128;  // head dimension: K and V, the rows and columns of the state
constexpr u32 THREADS = 256;  // 8 warps
constexpr float EPSILON = 1e-6f;  // under the root of the L2 norm

// The block's shared memory, as byte offsets. DV is the number of state columns a block owns.
template <u32 VSPLIT> struct SharedMemory {
  static constexpr u32 DV = D / VSPLIT;
  static constexpr u32 DS = 0;  // [DV][D] bf16: start, combine .. snapshot, g1 g2, combine
  static constexpr u32 QD = DS + DV * D * 2;  // [C][D] bf16: r1 .. g4 g5
  static constexpr u32 KD = QD + C * D * 2;  // [C][D] bf16: r1 .. g4 g5
  static constexpr u32 KR = KD + C * D * 2;  // [C][D] bf16: r1 .. g1 g2
  static constexpr u32 NORMS = KR;  // overlay [bytes 1024] [2][8][C] fp32, in r1: before kr is written
  static constexpr u32 DO = KR + C * D * 2;  // [C][DV] bf16: r1 .. g1 g2
  static constexpr u32 MQK = DO + C * DV * 2;  // [C][C] bf16: r1 .. g1 g2
  static constexpr u32 INV = MQK + C * C * 2;  // [C][C] bf16: r1 .. g3
  static constexpr u32 GT = INV + C * C * 2;  // [D] fp32: r1 .. combine
  static constexpr u32 BETA = GT + D * 4;  // [C] fp32: load .. g3
  static constexpr u32 RAW_DO = BETA + C * 4;  // [C][DV] bf16: load .. r1
  static constexpr u32 RAW_MQK = RAW_DO + C * DV * 2;  // [C][C] bf16: load .. r1
  static constexpr u32 RAW_INV = RAW_MQK + C * C * 2;  // [C][C] bf16: load .. r1
  static constexpr u32 BYTES = RAW_INV + C * C * 2;
};

using QdKdLayout = Interleaved<C>;
using KrLayout = Interleaved<C>;
using RawSmallLayout = Rows<bf16, C>;
using SmallLayout = Interleaved<C>;  // mqk and inv
template <u32 DV> using RawDoLayout = Rows<bf16, DV>;
template <u32 DV> using DoLayout = Interleaved<C>;
template <u32 DV> using DsLayout = Interleaved<DV>;  // dS lies transposed, [v][k]

// ---- operands: fragments of 16 x 16 elements ----
// `lane_of_...` is this lane's byte offset into a 16 x 16 corner of a tile, `load_...` reads the fragment
// there. A is [m][k] and B is [k][n] in the mma's terms; "transposed" says that memory holds the other order.
struct FragBPair {
  FragB b[2];  // columns 0..7 and 8..15
};
template <class Layout> GPU_FN u32 lane_of_a(u32 lane) { return Layout::at(lane % 16, lane / 16 * 8); }
template <class Layout> GPU_FN FragA load_a(saddr at) { return ldmatrix_x4(at); }
template <class Layout> GPU_FN u32 lane_of_a_transposed(u32 lane) {
  return Layout::at(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
}
template <class Layout> GPU_FN FragA load_a_transposed(saddr at) { return ldmatrix_x4_trans(at); }
template <class Layout> GPU_FN u32 lane_of_b(u32 lane) {
  return Layout::at(lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
}
template <class Layout> GPU_FN FragBPair load_b(saddr at) {
  const FragA x = ldmatrix_x4_trans(at);
  return {{{x.r[0], x.r[1]}, {x.r[2], x.r[3]}}};
}
template <class Layout> GPU_FN u32 lane_of_b_transposed(u32 lane) {
  return Layout::at(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
}
template <class Layout> GPU_FN FragBPair load_b_transposed(saddr at) {
  const FragA x = ldmatrix_x4(at);
  return {{{x.r[0], x.r[1]}, {x.r[2], x.r[3]}}};
}
// dS beside the accumulators of G4 and G5: register r holds rows k + 8 * (r % 2), columns v + 8 * (r / 2).
template <class Layout> GPU_FN u32 lane_of_ds(u32 lane) {
  return Layout::at(lane / 16 * 8 + lane % 8, lane / 8 % 2 * 8);
}
template <class Layout> GPU_FN FragA load_ds(saddr at) { return ldmatrix_x4_trans(at); }
template <class Layout> GPU_FN void store_ds(saddr at, FragA x) { stmatrix_x4_trans(at, x); }
// An accumulator becomes the next product's B operand without leaving the registers.
GPU_FN FragB accumulator_to_b(const FragC& x) {
  return {{movmatrix_trans(pack_bf16(x.r[0], x.r[1])), movmatrix_trans(pack_bf16(x.r[2], x.r[3]))}};
}

template <u32 VSPLIT, bool VARLEN, class Snapshot>
__global__ void __launch_bounds__(THREADS, 4)
    kernel_a(const bf16* q, const bf16* k, const float* gc, const float* beta, const bf16* inv,
             const bf16* mqk, const bf16* dout, const float* dht, Snapshot* snapshots, float* ds0,
             const long long* cu_seqlens, float scale, int T, int T_total, int total_tiles, int H) {
  using Smem = SharedMemory<VSPLIT>;
  constexpr u32 DV = Smem::DV;
  using Ds = DsLayout<DV>;
  using Do = DoLayout<DV>;
  const saddr smem = smem_base();
  const u32 tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const u32 n = blockIdx.x, head = blockIdx.y, first_col = blockIdx.z * DV;
  const Sequence sequence = find_sequence<VARLEN>(n, cu_seqlens, T, C);
  // This block's columns of dht and ds0.
  const long long state = ((long long)n * H + head) * D * D + first_col;

  // ---- start ----
  for (u32 i = tid; i < D * DV; i += THREADS) {
    const float x = dht ? ldg(dht + state + i / DV * D + i % DV) : 0.f;
    sts<bf16>(smem + Smem::DS + Ds::at(i % DV, i / DV), to_bf16(x));
  }
  __syncthreads();

  for (int t = (sequence.length + (int)C - 1) / (int)C - 1; t >= 0; t--) {
    const long long token = sequence.first_token + t * (int)C;
    const long long tile = (long long)head * total_tiles + sequence.first_tile + t;
    const u32 valid = min((int)C, sequence.length - t * (int)C);  // rows of this tile that are tokens

    // ---- load ----
    if (tid < C * DV / 8) {
      const u32 row = tid / (DV / 8), col = tid % (DV / 8) * 8;
      const bf16* from = dout + ((token + row) * H + head) * D + first_col + col;
      cp_async_cg16_or_zero(smem + Smem::RAW_DO + RawDoLayout<DV>::at(row, col), from, row < valid);
    }
    if (tid < 64) {
      const u32 row = tid % 32 / 2, col = tid % 2 * 8;
      const u32 to = (tid < 32 ? Smem::RAW_MQK : Smem::RAW_INV) + RawSmallLayout::at(row, col);
      cp_async_cg16(smem + to, (tid < 32 ? mqk : inv) + tile * C * C + row * C + col);
    } else if (tid < 64 + C) {
      const u32 row = tid - 64;
      cp_async_ca_or_zero<4>(smem + Smem::BETA + row * 4, beta + (long long)head * T_total + token + row,
                             row < valid);
    }
    cp_async_commit();

    // ---- snapshot ----
    // dS as it leaves this tile. A warp writes 16 rows k, all columns.
    Snapshot* snapshot = snapshots + tile * D * D + first_col;
#pragma unroll
    for (u32 i = 0; i < DV / 16; i++) {
      const FragA x = load_ds<Ds>(smem + Smem::DS + lane_of_ds<Ds>(lane) + warp * Ds::NEXT_16_COLS +
                                  i * Ds::NEXT_16_ROWS);
#pragma unroll
      for (u32 r = 0; r < 4; r++) {
        const u32 row = warp * 16 + r % 2 * 8 + lane / 4, col = i * 16 + r / 2 * 8 + lane % 4 * 2;
        store_snapshot(snapshot + row * D + col, x.r[r]);
      }
    }

    // ---- r1 ----
    // Rebuild qd, kd and kr from q, k and gc. A lane owns 8 neighbouring features of one token.
    const u32 row = lane % 16, feature = 64 * (warp / 4) + 8 * (warp % 4) + 32 * (lane / 16);
    const bf16* q_row = q + (token * H + head) * D + (row * H * D + feature);
    const bf16* k_row = k + (token * H + head) * D + (row * H * D + feature);
    const float* gc_row = gc + tile * C * D + (row * D + feature);
    float q_squares = 0, k_squares = 0;
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      const float q_j = row < valid ? to_float(ldg(q_row + j)) : 0.f;
      const float k_j = row < valid ? to_float(ldg(k_row + j)) : 0.f;
      q_squares += q_j * q_j;
      k_squares += k_j * k_j;
    }
    q_squares += __shfl_xor_sync(0xffffffffu, q_squares, 16);
    k_squares += __shfl_xor_sync(0xffffffffu, k_squares, 16);
    if (lane < 16) {
      sts<float>(smem + Smem::NORMS + (warp * C + row) * 4, q_squares);
      sts<float>(smem + Smem::NORMS + (8 * C + warp * C + row) * 4, k_squares);
    }
    __syncthreads();
    q_squares = 0;
    k_squares = 0;
#pragma unroll
    for (u32 w = 0; w < 8; w++) {
      q_squares += lds<float>(smem + Smem::NORMS + (w * C + row) * 4);
      k_squares += lds<float>(smem + Smem::NORMS + (8 * C + w * C + row) * 4);
    }
    __syncthreads();
    const float q_factor = fast_rsqrt(q_squares + EPSILON) * scale;
    const float k_factor = fast_rsqrt(k_squares + EPSILON);
    u32 qd[4], kd[4], kr[4];  // 8 features, packed two by two
    float decay[8];  // 2^gT
#pragma unroll
    for (u32 j = 0; j < 8; j++) {
      const float q_j = row < valid ? to_float(ldg(q_row + j)) : 0.f;
      const float k_j = row < valid ? to_float(ldg(k_row + j)) : 0.f;
      const float g_j = ldg(gc_row + j);
      const float g_last = __shfl_sync(0xffffffffu, g_j, lane / 16 * 16 + 15);
      const float growth = fast_exp2(g_j);
      decay[j] = fast_exp2(g_last);
      const u32 qd_j = to_bf16(q_j * q_factor * growth).bits;
      const u32 kd_j = to_bf16(k_j * k_factor * growth).bits;
      const u32 kr_j = to_bf16(k_j * k_factor * fast_exp2(g_last - g_j)).bits;
      qd[j / 2] = j % 2 ? qd[j / 2] | qd_j << 16 : qd_j;
      kd[j / 2] = j % 2 ? kd[j / 2] | kd_j << 16 : kd_j;
      kr[j / 2] = j % 2 ? kr[j / 2] | kr_j << 16 : kr_j;
    }
    sts<uint4>(smem + Smem::QD + QdKdLayout::at(row, feature), make_uint4(qd[0], qd[1], qd[2], qd[3]));
    sts<uint4>(smem + Smem::KD + QdKdLayout::at(row, feature), make_uint4(kd[0], kd[1], kd[2], kd[3]));
    sts<uint4>(smem + Smem::KR + KrLayout::at(row, feature), make_uint4(kr[0], kr[1], kr[2], kr[3]));
    if (row == C - 1) {
      sts<float4>(smem + Smem::GT + feature * 4, make_float4(decay[0], decay[1], decay[2], decay[3]));
      sts<float4>(smem + Smem::GT + feature * 4 + 16, make_float4(decay[4], decay[5], decay[6], decay[7]));
    }
    cp_async_wait<0>();
    __syncthreads();
    // Lanes go down the rows: their stores fill core matrices, 128 contiguous bytes.
    if (tid < C * DV / 8) {
      const u32 row = tid % C, col = tid / C * 8;
      const uint4 piece = lds<uint4>(smem + Smem::RAW_DO + RawDoLayout<DV>::at(row, col));
      sts<uint4>(smem + Smem::DO + Do::at(row, col), piece);
    }
    if (tid < 64) {
      const u32 row = tid % C, col = tid % 32 / C * 8;
      const u32 from = (tid < 32 ? Smem::RAW_MQK : Smem::RAW_INV) + RawSmallLayout::at(row, col);
      const u32 to = (tid < 32 ? Smem::MQK : Smem::INV) + SmallLayout::at(row, col);
      sts<uint4>(smem + to, lds<uint4>(smem + from));
    }
    __syncthreads();

    // From here a warp owns 16 columns v, and no other warp reads or writes them before the last barrier.
    if (warp < DV / 16) {
      // ---- g1 g2 ----
      // dU = Mqk^T do + kr dS
      const saddr small_lane = smem + lane_of_a_transposed<SmallLayout>(lane);
      const saddr ds_lane = smem + Smem::DS + warp * Ds::NEXT_16_ROWS;
      const FragBPair d_out = load_b<Do>(smem + Smem::DO + lane_of_b<Do>(lane) + warp * Do::NEXT_16_COLS);
      FragC du[2] = {};
      const FragA mqk_transposed = load_a_transposed<SmallLayout>(small_lane + Smem::MQK);
      mma(du[0], mqk_transposed, d_out.b[0]);
      mma(du[1], mqk_transposed, d_out.b[1]);
#pragma unroll
      for (u32 i = 0; i < D / 16; i++) {
        const FragA kr_i =
            load_a<KrLayout>(smem + Smem::KR + lane_of_a<KrLayout>(lane) + i * KrLayout::NEXT_16_COLS);
        const FragBPair ds_i =
            load_b_transposed<Ds>(ds_lane + lane_of_b_transposed<Ds>(lane) + i * Ds::NEXT_16_COLS);
        mma(du[0], kr_i, ds_i.b[0]);
        mma(du[1], kr_i, ds_i.b[1]);
      }

      // ---- g3 ----
      // dvcorr = INV^T dU, then times -beta: G5 subtracts by adding
      const FragA inv_transposed = load_a_transposed<SmallLayout>(small_lane + Smem::INV);
      const float minus_beta = -lds<float>(smem + Smem::BETA + lane / 4 * 4);
      const float minus_beta_8 = -lds<float>(smem + Smem::BETA + (lane / 4 + 8) * 4);
      FragB minus_beta_dv[2];
#pragma unroll
      for (u32 half = 0; half < 2; half++) {
        FragC dv = {};
        mma(dv, inv_transposed, accumulator_to_b(du[half]));
        dv.r[0] *= minus_beta;
        dv.r[1] *= minus_beta;
        dv.r[2] *= minus_beta_8;
        dv.r[3] *= minus_beta_8;
        minus_beta_dv[half] = accumulator_to_b(dv);
      }

#pragma unroll
      for (u32 i = 0; i < D / 16; i++) {
        // ---- g4 g5 ----
        // 16 rows k of T1 = qd^T do - kd^T (beta dvcorr)
        const saddr qd_lane = smem + Smem::QD + lane_of_a_transposed<QdKdLayout>(lane);
        const saddr kd_lane = smem + Smem::KD + lane_of_a_transposed<QdKdLayout>(lane);
        FragC t1[2] = {};
        const FragA qd_i = load_a_transposed<QdKdLayout>(qd_lane + i * QdKdLayout::NEXT_16_COLS);
        mma(t1[0], qd_i, d_out.b[0]);
        mma(t1[1], qd_i, d_out.b[1]);
        const FragA kd_i = load_a_transposed<QdKdLayout>(kd_lane + i * QdKdLayout::NEXT_16_COLS);
        mma(t1[0], kd_i, minus_beta_dv[0]);
        mma(t1[1], kd_i, minus_beta_dv[1]);

        // ---- combine ----
        // dS = 2^gT dS + T1, row k scaled by its own decay
        const float decay_k = lds<float>(smem + Smem::GT + (i * 16 + lane / 4) * 4);
        const float decay_k_8 = lds<float>(smem + Smem::GT + (i * 16 + lane / 4 + 8) * 4);
        FragA ds = load_ds<Ds>(ds_lane + lane_of_ds<Ds>(lane) + i * Ds::NEXT_16_COLS);
#pragma unroll
        for (u32 r = 0; r < 4; r++) {
          const float factor = r % 2 ? decay_k_8 : decay_k;
          const FragC& sum = t1[r / 2];
          const u32 e = r % 2 * 2;
          ds.r[r] = pack_bf16(factor * bf16_lo(ds.r[r]) + sum.r[e], factor * bf16_hi(ds.r[r]) + sum.r[e + 1]);
        }
        store_ds<Ds>(ds_lane + lane_of_ds<Ds>(lane) + i * Ds::NEXT_16_COLS, ds);
      }
    }

    // ---- publish ----
    __syncthreads();
  }

  // ---- finish ----
  for (u32 i = tid; i < D * DV; i += THREADS) {
    const float x = to_float(lds<bf16>(smem + Smem::DS + Ds::at(i % DV, i / DV)));
    stg(ds0 + state + i / DV * D + i % DV, x);
  }
}
