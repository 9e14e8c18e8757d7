// gpu.cuh for a C++ compiler: the same names, each handed to the emulator with the line that calls it.
#pragma once
#include "runtime.h"

// ---- what a CPU cannot do: say so where it is written ----
#define __shared__ \
  _Pragma("GCC error \"the emulator cannot see __shared__ variables: use smem_base() + offset\"")
#define asm _Pragma("GCC error \"the emulator cannot run inline assembly: use the operations of gpu.cuh\"")

using saddr = u32;

#define GPU_FN inline

#define threadIdx (emulator::indices->thread)
#define blockIdx (emulator::indices->block)
#define blockDim (emulator::indices->block_size)
#define gridDim (emulator::indices->grid_size)

struct bf16 {
  u16 bits;
};
struct FragA {
  u32 r[4];
};
struct FragB {
  u32 r[2];
};
struct FragC {
  float r[4];
};

// ---- conversions and fast functions ----
inline bf16 to_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  if (x != x)
    return {0x7fff};  // the one NaN that the GPU makes
  const u32 half_or_odd = 0x7fff + (bits >> 16 & 1);
  return {static_cast<u16>((bits + half_or_odd) >> 16)};
}
inline float to_float(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
inline u32 pack_bf16(float lo, float hi) {
  return to_bf16(lo).bits | static_cast<u32>(to_bf16(hi).bits) << 16;
}
inline float bf16_lo(u32 pair) { return __uint_as_float(pair << 16); }
inline float bf16_hi(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
// ftz: numbers below the least normal one become zero, going in and coming out.
inline float flush_to_zero(float x) { return std::fabs(x) < 1.17549435e-38f ? std::copysign(0.f, x) : x; }
// Through double, so that every C library gives the same bits.
inline float fast_exp2(float x) {
  return flush_to_zero(static_cast<float>(std::exp2(static_cast<double>(x))));
}
inline float fast_rsqrt(float x) { return 1.f / std::sqrt(flush_to_zero(x)); }

// ---- memory, one lane at a time ----
inline saddr smem_base() { return emulator::shared_start(); }

template <class T> constexpr void check_width() {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16,
                "one lane loads or stores 2, 4, 8 or 16 bytes");
}
template <class T> T lds(saddr from, emulator::Site site = emulator::Site::current()) {
  check_width<T>();
  T value;
  emulator::shared_load(from, &value, sizeof(T), site);
  return value;
}
template <class T> void sts(saddr to, T value, emulator::Site site = emulator::Site::current()) {
  check_width<T>();
  emulator::shared_store(to, &value, sizeof(T), site);
}
template <class T> T ldg(const T* from, emulator::Site site = emulator::Site::current()) {
  T value;
  emulator::global_load(from, &value, sizeof(T), site);
  return value;
}
template <class T> void stg(T* to, T value, emulator::Site site = emulator::Site::current()) {
  emulator::global_store(to, &value, sizeof(T), site);
}

// ---- 8x8 matrices ----
namespace emulator {
template <class Fragment> Fragment load_matrices(Operation operation, saddr row, Site site) {
  MatrixArguments arguments{row, {}};
  collective(operation, &arguments, site);
  Fragment fragment;
  std::memcpy(&fragment, arguments.r, sizeof(fragment));
  return fragment;
}
template <class Fragment>
void store_matrices(Operation operation, saddr row, const Fragment& fragment, Site site) {
  MatrixArguments arguments{row, {}};
  std::memcpy(arguments.r, &fragment, sizeof(fragment));
  collective(operation, &arguments, site);
}
}  // namespace emulator

#define EMULATOR_LDMATRIX(NAME, FRAGMENT, OPERATION)                                     \
  inline FRAGMENT NAME(saddr row, emulator::Site site = emulator::Site::current()) {     \
    return emulator::load_matrices<FRAGMENT>(emulator::Operation::OPERATION, row, site); \
  }
EMULATOR_LDMATRIX(ldmatrix_x1, u32, LDMATRIX_X1)
EMULATOR_LDMATRIX(ldmatrix_x1_trans, u32, LDMATRIX_X1_TRANS)
EMULATOR_LDMATRIX(ldmatrix_x2, FragB, LDMATRIX_X2)
EMULATOR_LDMATRIX(ldmatrix_x2_trans, FragB, LDMATRIX_X2_TRANS)
EMULATOR_LDMATRIX(ldmatrix_x4, FragA, LDMATRIX_X4)
EMULATOR_LDMATRIX(ldmatrix_x4_trans, FragA, LDMATRIX_X4_TRANS)
#undef EMULATOR_LDMATRIX

#define EMULATOR_STMATRIX(NAME, FRAGMENT, OPERATION)                                                \
  inline void NAME(saddr row, FRAGMENT fragment, emulator::Site site = emulator::Site::current()) { \
    emulator::store_matrices(emulator::Operation::OPERATION, row, fragment, site);                  \
  }
EMULATOR_STMATRIX(stmatrix_x1, u32, STMATRIX_X1)
EMULATOR_STMATRIX(stmatrix_x1_trans, u32, STMATRIX_X1_TRANS)
EMULATOR_STMATRIX(stmatrix_x2, FragB, STMATRIX_X2)
EMULATOR_STMATRIX(stmatrix_x2_trans, FragB, STMATRIX_X2_TRANS)
EMULATOR_STMATRIX(stmatrix_x4, FragA, STMATRIX_X4)
EMULATOR_STMATRIX(stmatrix_x4_trans, FragA, STMATRIX_X4_TRANS)
#undef EMULATOR_STMATRIX

inline u32 movmatrix_trans(u32 r, emulator::Site site = emulator::Site::current()) {
  emulator::MatrixArguments arguments{0, {r}};
  emulator::collective(emulator::Operation::MOVMATRIX, &arguments, site);
  return arguments.r[0];
}

// ---- tensor core ----
inline void mma(FragC& c, const FragA& a, const FragB& b, emulator::Site site = emulator::Site::current()) {
  emulator::MmaArguments arguments{c.r, a.r, b.r};
  emulator::collective(emulator::Operation::MMA, &arguments, site);
}

// ---- barriers and shuffles ----
constexpr u32 EMULATOR_ALL_LANES = 0xffffffffu;

inline void __syncthreads(emulator::Site site = emulator::Site::current()) {
  emulator::collective(emulator::Operation::SYNCTHREADS, nullptr, site);
}
inline void __syncwarp(u32 mask = EMULATOR_ALL_LANES, emulator::Site site = emulator::Site::current()) {
  if (mask != EMULATOR_ALL_LANES)
    emulator::refuse_partial_mask(emulator::Operation::SYNCWARP, mask, site);
  emulator::collective(emulator::Operation::SYNCWARP, nullptr, site);
}

namespace emulator {
template <class T> T shuffle(Shuffle kind, u32 mask, T value, int operand, int width, Site site) {
  static_assert(sizeof(T) == 4, "the emulator shuffles 4-byte values");
  if (mask != EMULATOR_ALL_LANES)
    refuse_partial_mask(Operation::SHFL, mask, site);
  ShuffleArguments arguments{kind, 0, operand, width};
  std::memcpy(&arguments.value, &value, sizeof(T));
  collective(Operation::SHFL, &arguments, site);
  std::memcpy(&value, &arguments.value, sizeof(T));
  return value;
}
}  // namespace emulator

#define EMULATOR_SHUFFLE(NAME, KIND)                                                                        \
  template <class T>                                                                                        \
  T NAME(u32 mask, T value, int operand, int width = 32, emulator::Site site = emulator::Site::current()) { \
    return emulator::shuffle(emulator::Shuffle::KIND, mask, value, operand, width, site);                   \
  }
EMULATOR_SHUFFLE(__shfl_sync, INDEX)
EMULATOR_SHUFFLE(__shfl_up_sync, UP)
EMULATOR_SHUFFLE(__shfl_down_sync, DOWN)
EMULATOR_SHUFFLE(__shfl_xor_sync, XOR)
#undef EMULATOR_SHUFFLE

// ---- asynchronous copies ----
inline void cp_async_cg16_or_zero(saddr to, const void* from, bool valid,
                                  emulator::Site site = emulator::Site::current()) {
  emulator::copy_async(emulator::Operation::CP_ASYNC_CG, to, from, 16, valid, site);
}
inline void cp_async_cg16(saddr to, const void* from, emulator::Site site = emulator::Site::current()) {
  cp_async_cg16_or_zero(to, from, true, site);
}
template <u32 BYTES>
void cp_async_ca_or_zero(saddr to, const void* from, bool valid,
                         emulator::Site site = emulator::Site::current()) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async.ca copies 4, 8 or 16 bytes");
  emulator::copy_async(emulator::Operation::CP_ASYNC_CA, to, from, BYTES, valid, site);
}
template <u32 BYTES>
void cp_async_ca(saddr to, const void* from, emulator::Site site = emulator::Site::current()) {
  cp_async_ca_or_zero<BYTES>(to, from, true, site);
}
inline void cp_async_commit(emulator::Site site = emulator::Site::current()) { emulator::copy_commit(site); }
template <u32 N> void cp_async_wait(emulator::Site site = emulator::Site::current()) {
  emulator::copy_wait(N, site);
}

inline void mbar_init(saddr barrier, u32 count, emulator::Site site = emulator::Site::current()) {
  emulator::mbarrier_init(barrier, count, site);
}
inline void mbar_inval(saddr barrier, emulator::Site site = emulator::Site::current()) {
  emulator::mbarrier_inval(barrier, site);
}
inline void mbar_arrive(saddr barrier, emulator::Site site = emulator::Site::current()) {
  emulator::mbarrier_arrive(barrier, 0, site);
}
inline void mbar_arrive_expect_tx(saddr barrier, u32 bytes, emulator::Site site = emulator::Site::current()) {
  emulator::mbarrier_arrive(barrier, bytes, site);
}
inline void mbar_wait(saddr barrier, u32 parity, emulator::Site site = emulator::Site::current()) {
  emulator::mbarrier_wait(barrier, parity, site);
}
inline void fence_proxy_async() { emulator::fence_proxy_async(); }
inline void bulk_load(saddr to, const void* from, u32 bytes, saddr barrier,
                      emulator::Site site = emulator::Site::current()) {
  emulator::bulk_load(to, from, bytes, barrier, site);
}
