// Lab: what one shared-memory instruction costs.
//
// Every kernel repeats one access REPEATS times, at addresses that a table in global memory gives, one per
// lane, and does nothing else to shared memory. A profiler's counter divided by REPEATS (and by the warps
// launched) is the cost of the one instruction. tests/hardware_wavefront_cases.py lists the tables,
// tests/record_hardware.py reads the counters.
//
// Repeats lie 128 bytes apart: that is the same bank for every lane, and an address of its own, or the
// assembler would merge repeated stores and matrix loads into one (it does, `asm volatile` or not). The loops
// are unrolled so that no loop counter stands between two accesses. `sink` keeps the compiler from dropping
// loads whose values nobody wants.
#include "gpu.cuh"

constexpr u32 LANES = 32;
constexpr u32 REPEATS = 64;
constexpr u32 SAME_BANKS = 128;  // bytes from one repeat to the next
constexpr u32 INACTIVE = 0xffffffff;  // in a table of addresses: this lane stands aside

GPU_FN u32 table_entry(const u32* table) { return ldg(table + threadIdx.x % LANES); }

// One 32-bit word that depends on all bytes of a loaded value.
GPU_FN u32 digest(u16 value) { return value; }
GPU_FN u32 digest(u32 value) { return value; }
GPU_FN u32 digest(uint2 value) { return value.x ^ value.y; }
GPU_FN u32 digest(uint4 value) { return value.x ^ value.y ^ value.z ^ value.w; }
GPU_FN u32 digest(FragA value) { return value.r[0] ^ value.r[1] ^ value.r[2] ^ value.r[3]; }

// Plain loads, 2, 4, 8 or 16 bytes a lane (T = u16, u32, uint2, uint4).
//   addresses  u32 [LANES], bytes    sink  u32 [LANES]
template <class T> __global__ void count_loads(const u32* addresses, u32* sink) {
  const u32 address = table_entry(addresses);
  if (address == INACTIVE)
    return;
  u32 seen = 0;
#pragma unroll
  for (u32 i = 0; i < REPEATS; ++i) {
    seen ^= digest(lds<T>(smem_base() + address + i * SAME_BANKS));
  }
  stg(sink + threadIdx.x % LANES, seen);
}

// Plain stores.
template <class T> __global__ void count_stores(const u32* addresses) {
  const u32 address = table_entry(addresses);
  if (address == INACTIVE)
    return;
#pragma unroll
  for (u32 i = 0; i < REPEATS; ++i) {
    sts<T>(smem_base() + address + i * SAME_BANKS, T{});
  }
}

// ldmatrix .x4: each lane names one row of 16 bytes.
template <bool TRANS> __global__ void count_ldmatrix(const u32* addresses, u32* sink) {
  const saddr row = smem_base() + table_entry(addresses);
  u32 seen = 0;
#pragma unroll
  for (u32 i = 0; i < REPEATS; ++i) {
    if constexpr (TRANS) {
      seen ^= digest(ldmatrix_x4_trans(row + i * SAME_BANKS));
    } else {
      seen ^= digest(ldmatrix_x4(row + i * SAME_BANKS));
    }
  }
  stg(sink + threadIdx.x % LANES, seen);
}

// stmatrix .x4.
template <bool TRANS> __global__ void count_stmatrix(const u32* addresses) {
  const saddr row = smem_base() + table_entry(addresses);
  const FragA values = {{0, 0, 0, 0}};
#pragma unroll
  for (u32 i = 0; i < REPEATS; ++i) {
    if constexpr (TRANS) {
      stmatrix_x4_trans(row + i * SAME_BANKS, values);
    } else {
      stmatrix_x4(row + i * SAME_BANKS, values);
    }
  }
}

// What count_copies can issue. The numbers are the same in tests/hardware_wavefront_cases.py.
constexpr u32 CG16 = 0;
constexpr u32 CA4 = 1;
constexpr u32 CA8 = 2;
constexpr u32 CA16 = 3;
constexpr u32 CG16_OR_ZERO = 4;  // the lanes of ...OR_ZERO whose entry in `sources` is INACTIVE write zeros
constexpr u32 CA4_OR_ZERO = 5;

// cp.async, in groups of BATCH copies: the next group starts when the last has landed. The loop over groups
// is kept a loop, because the assembler puts three loads that load nothing (`@!PT LDS RZ, [RZ]`) in front of
// the first copy of every straight piece of code, and counters count them: with BATCH = 1 that is three for
// every copy.
//   addresses  u32 [LANES]   where in shared memory each lane's copy goes
//   sources    u32 [LANES]   where in `source` it comes from, bytes
//   step       bytes by which the sources move on from one repeat to the next: 0 reads the same bytes again
//   and again source     large enough for every warp's REPEATS steps: warp w starts where warp w - 1 ends
template <u32 KIND, u32 BATCH>
__global__ void count_copies(const u32* addresses, const u32* sources, const u32* source, u32 step) {
  const u32 address = table_entry(addresses);
  if (address == INACTIVE)
    return;
  const u32 offset = table_entry(sources);
  const bool valid = offset != INACTIVE;
  const u32 warp = threadIdx.x / LANES;
  const u32* from = source + ((valid ? offset : 0) + warp * REPEATS * step) / 4;
  saddr to = smem_base() + address;
#pragma unroll 1
  for (u32 group = 0; group < REPEATS / BATCH; ++group) {
#pragma unroll
    for (u32 i = 0; i < BATCH; ++i) {
      if constexpr (KIND == CG16) {
        cp_async_cg16(to, from);
      } else if constexpr (KIND == CA4) {
        cp_async_ca<4>(to, from);
      } else if constexpr (KIND == CA8) {
        cp_async_ca<8>(to, from);
      } else if constexpr (KIND == CA16) {
        cp_async_ca<16>(to, from);
      } else if constexpr (KIND == CG16_OR_ZERO) {
        cp_async_cg16_or_zero(to, from, valid);
      } else {
        cp_async_ca_or_zero<4>(to, from, valid);
      }
      from += step / 4;
      to += SAME_BANKS;
    }
    cp_async_commit();
    cp_async_wait<0>();
  }
}
