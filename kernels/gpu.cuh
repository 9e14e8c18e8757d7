// Every hardware operation the kernels use, by name.
//
//   compiled by NVRTC or nvcc      each function is the PTX instruction itself
//   compiled by a C++ compiler     each function does the same to the emulator's memory, checked and counted
//
// Shared memory is named by its 32-bit shared address (saddr), never by a C++ pointer: an address is what the
// instruction takes, and it lets the emulator see every access. What PTX says of each instruction:
// https://docs.nvidia.com/cuda/parallel-thread-execution/
#pragma once

#if !defined(__CUDACC__) && !defined(__CUDACC_RTC__)

#include "emulator/device.h"

#else

using u16 = unsigned short;
using u32 = unsigned int;
using saddr = u32;  // a byte's address in the shared memory of this block

#define GPU_FN __device__ __forceinline__

// ---- data ----
// The low half of a register pair is the element with the lower index.
struct bf16 {
  u16 bits;  // the upper half of a float
};
struct FragA {
  u32 r[4];  // 16x16 bf16, left operand: register i holds rows + 8 * (i % 2), columns + 8 * (i / 2)
};
struct FragB {
  u32 r[2];  // 16x8 bf16, right operand: register i holds rows + 8 * i
};
struct FragC {
  float r[4];  // 16x8 float, the sum: r[i] is row lane / 4 + 8 * (i / 2), column lane % 4 * 2 + i % 2
};

// ---- conversions and fast functions ----
// Two floats rounded to nearest even.
GPU_FN u32 pack_bf16(float lo, float hi) {
  u32 pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(hi), "f"(lo));
  return pair;
}
GPU_FN float bf16_lo(u32 pair) { return __uint_as_float(pair << 16); }
GPU_FN float bf16_hi(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }
GPU_FN bf16 to_bf16(float x) {
  bf16 rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded.bits) : "f"(x));
  return rounded;
}
GPU_FN float to_float(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }
// 2^x and 1/sqrt(x), to about 2 units in the last place; numbers below 2^-126 count as zero.
GPU_FN float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
GPU_FN float fast_rsqrt(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// ---- global memory, one lane at a time ----
template <class T> GPU_FN T ldg(const T* from) { return *from; }
template <class T> GPU_FN void stg(T* to, T value) { *to = value; }

// ---- shared memory, one lane at a time: 2, 4, 8 or 16 bytes ----
extern __shared__ uint4 dynamic_shared_memory[];
GPU_FN saddr smem_base() { return static_cast<saddr>(__cvta_generic_to_shared(dynamic_shared_memory)); }

// The same bytes as registers.
template <class T> union Registers {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16,
                "one lane loads or stores 2, 4, 8 or 16 bytes");
  T value;
  u16 half;
  u32 word[4];
};

// volatile: one lds in the source is one LDS instruction, or ptxas joins neighbours into a wider one.
template <class T> GPU_FN T lds(saddr from) {
  Registers<T> x;
  if constexpr (sizeof(T) == 2) {
    asm volatile("ld.volatile.shared.b16 %0, [%1];" : "=h"(x.half) : "r"(from) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("ld.volatile.shared.b32 %0, [%1];" : "=r"(x.word[0]) : "r"(from) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("ld.volatile.shared.v2.b32 {%0, %1}, [%2];"
                 : "=r"(x.word[0]), "=r"(x.word[1])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ld.volatile.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.word[0]), "=r"(x.word[1]), "=r"(x.word[2]), "=r"(x.word[3])
                 : "r"(from)
                 : "memory");
  }
  return x.value;
}
template <class T> GPU_FN void sts(saddr to, T value) {
  Registers<T> x;
  x.value = value;
  if constexpr (sizeof(T) == 2) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(to), "h"(x.half) : "memory");
  } else if constexpr (sizeof(T) == 4) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(x.word[0]) : "memory");
  } else if constexpr (sizeof(T) == 8) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to), "r"(x.word[0]), "r"(x.word[1]) : "memory");
  } else {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.word[0]), "r"(x.word[1]),
                 "r"(x.word[2]), "r"(x.word[3])
                 : "memory");
  }
}

// ---- 8x8 matrices of 16-bit elements, by the whole warp ----
// Lane l names the address of row l % 8 of matrix l / 8 (16 bytes, 16-byte aligned); x1 and x2 need the lanes
// of their matrices only. In the registers, lane l holds row l / 4, columns l % 4 * 2 and the next of every
// matrix; _trans turns each matrix over on the way.
GPU_FN u32 ldmatrix_x1(saddr row) {
  u32 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(row) : "memory");
  return r;
}
GPU_FN u32 ldmatrix_x1_trans(saddr row) {
  u32 r;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(row) : "memory");
  return r;
}
GPU_FN FragB ldmatrix_x2(saddr row) {
  FragB f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(f.r[0]), "=r"(f.r[1])
               : "r"(row)
               : "memory");
  return f;
}
GPU_FN FragB ldmatrix_x2_trans(saddr row) {
  FragB f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(f.r[0]), "=r"(f.r[1])
               : "r"(row)
               : "memory");
  return f;
}
GPU_FN FragA ldmatrix_x4(saddr row) {
  FragA f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(row)
               : "memory");
  return f;
}
GPU_FN FragA ldmatrix_x4_trans(saddr row) {
  FragA f;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f.r[0]), "=r"(f.r[1]), "=r"(f.r[2]), "=r"(f.r[3])
               : "r"(row)
               : "memory");
  return f;
}
GPU_FN void stmatrix_x1(saddr row, u32 r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(row), "r"(r) : "memory");
}
GPU_FN void stmatrix_x1_trans(saddr row, u32 r) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(r) : "memory");
}
GPU_FN void stmatrix_x2(saddr row, FragB f) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(f.r[0]), "r"(f.r[1])
               : "memory");
}
GPU_FN void stmatrix_x2_trans(saddr row, FragB f) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(f.r[0]),
               "r"(f.r[1])
               : "memory");
}
GPU_FN void stmatrix_x4(saddr row, FragA f) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row), "r"(f.r[0]),
               "r"(f.r[1]), "r"(f.r[2]), "r"(f.r[3])
               : "memory");
}
GPU_FN void stmatrix_x4_trans(saddr row, FragA f) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row),
               "r"(f.r[0]), "r"(f.r[1]), "r"(f.r[2]), "r"(f.r[3])
               : "memory");
}
// One 8x8 matrix turned over between the lanes' registers, without shared memory.
GPU_FN u32 movmatrix_trans(u32 r) {
  u32 turned;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(r));
  return turned;
}

// ---- tensor core, by the whole warp: c += a * b, 16x8 += 16x16 * 16x8 ----
GPU_FN void mma(FragC& c, const FragA& a, const FragB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c.r[0]), "+f"(c.r[1]), "+f"(c.r[2]), "+f"(c.r[3])
      : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}

// ---- cp.async: copies from global to shared memory that run on while the thread goes on ----
// A thread's copies belong to the group that its next commit closes. wait<N> returns when at most N of this
// thread's groups are still under way; what other threads copied needs a barrier as well. "or_zero": a lane
// that is not valid writes zeros, and its `from` is not read. cg goes past the L1 cache, ca through it.
GPU_FN void cp_async_cg16(saddr to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
GPU_FN void cp_async_cg16_or_zero(saddr to, const void* from, bool valid) {
  const u32 source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(source_bytes)
               : "memory");
}
template <u32 BYTES> GPU_FN void cp_async_ca(saddr to, const void* from) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async.ca copies 4, 8 or 16 bytes");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
template <u32 BYTES> GPU_FN void cp_async_ca_or_zero(saddr to, const void* from, bool valid) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "cp.async.ca copies 4, 8 or 16 bytes");
  const u32 source_bytes = valid ? BYTES : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
               "r"(source_bytes)
               : "memory");
}
GPU_FN void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <u32 N> GPU_FN void cp_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// ---- mbarrier: a counter in 8 bytes of shared memory that threads and bulk copies wait through ----
// A phase ends when `count` arrivals were made and all bytes expected have landed; then the next one begins.
// wait(parity) returns once the phase of that parity has ended: 0 for the first, then 1, 0, 1, ...
GPU_FN void mbar_init(saddr barrier, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Its bytes are memory again; to make another mbarrier of them needs this first.
GPU_FN void mbar_inval(saddr barrier) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(barrier) : "memory");
}
GPU_FN void mbar_arrive(saddr barrier) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
GPU_FN void mbar_arrive_expect_tx(saddr barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
GPU_FN void mbar_wait(saddr barrier, u32 parity) {
  u32 ended = 0;
  while (!ended) {
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "mbarrier.try_wait.parity.shared.b64 p, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p;\n"
        "}"
        : "=r"(ended)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
// The copy engine sees what this thread wrote to shared memory before (mbar_init above all).
GPU_FN void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- bulk copy: one thread has the copy engine fetch `bytes` (a multiple of 16, as both addresses) ----
// The bytes count towards the barrier's current phase.
GPU_FN void bulk_load(saddr to, const void* from, u32 bytes, saddr barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

#endif
