// Operations reached through functions of every kind: each kernel has one operation in a function, called in both
// branches of an `if` by half of a warp. tests/machines/test_call_sites.py counts what comes of it.
// 32 threads, 1024 bytes of shared memory; out: u32 [32].
#include "call_sites.cuh"

GPU_FN u32 plain(saddr at) { return lds<u32>(at); }
GPU_FN u32 declared(saddr at);
template <u32 TIMES> GPU_FN u32 scaled(saddr at) { return lds<u32>(at) * TIMES; }
GPU_FN u32 nested(saddr at) {
  return plain(at);  // the way: nested
}
GPU_FN u32 nested_twice(saddr at) {
  return nested(at) + 0;  // the way: nested_twice
}
struct Tile {
  saddr start;
  GPU_FN u32 at(u32 i) const { return lds<u32>(start + i * 4); }
};
template <class Function> GPU_FN u32 apply(Function function, saddr at) { return function(at); }
GPU_FN u32 counted_down(saddr at, u32 depth) { return depth ? counted_down(at, depth - 1) : lds<u32>(at); }
#define LOAD(AT) lds<u32>(AT)

template <u32 KIND> __global__ void two_calls(u32* out) {
  const u32 lane = threadIdx.x;
  const saddr here = smem_base() + lane * 4;
  sts<u32>(here, lane);
  __syncwarp();
  u32 x = 0;
  const auto lambda = [&](saddr at) { return lds<u32>(at); };
  const auto generic = [&](auto at) { return lds<u32>(at); };
  const auto without = [&] { return lds<u32>(here); };
  const Tile tile{smem_base()};
  if constexpr (KIND == 0) {
    if (lane < 16)
      x = plain(here);
    else
      x = plain(here);
  } else if constexpr (KIND == 1) {
    if (lane < 16)
      x = declared(here);
    else
      x = declared(here);
  } else if constexpr (KIND == 2) {
    if (lane < 16)
      x = scaled<1>(here);
    else
      x = scaled<1>(here);
  } else if constexpr (KIND == 3) {
    if (lane < 16)
      x = nested_twice(here);
    else
      x = nested_twice(here);
  } else if constexpr (KIND == 4) {
    if (lane < 16)
      x = tile.at(lane);
    else
      x = tile.at(lane);
  } else if constexpr (KIND == 5) {
    if (lane < 16)
      x = lambda(here);
    else
      x = lambda(here);
  } else if constexpr (KIND == 6) {
    if (lane < 16)
      x = generic(here);
    else
      x = generic(here);
  } else if constexpr (KIND == 7) {
    if (lane < 16)
      x = without();
    else
      x = without();
  } else if constexpr (KIND == 8) {
    if (lane < 16)
      x = apply(lambda, here);
    else
      x = apply(lambda, here);
  } else if constexpr (KIND == 9) {
    if (lane < 16)
      x = from_header(here);
    else
      x = from_header(here);
  } else if constexpr (KIND == 10) {
    if (lane < 16)
      x = LOAD(here);
    else
      x = LOAD(here);
  } else if constexpr (KIND == 11) {
    x = lane < 16 ? plain(here) : plain(here);
  } else if constexpr (KIND == 12) {
    x = lane < 16 ? lds<u32>(here) : lds<u32>(here);
  } else if constexpr (KIND == 13) {
    x = counted_down(here, lane < 16 ? 1 : 2);
  }
  stg(out + lane, x);
}

// The k-th visit by one way is the k-th instruction of it, also where lanes make more or fewer turns.
__global__ void in_a_loop(u32* out) {
  const u32 lane = threadIdx.x;
  const saddr here = smem_base() + lane * 4;
  sts<u32>(here, lane);
  __syncwarp();
  u32 x = 0;
  for (u32 i = 0; i < 1 + lane % 4; i++)
    x += plain(here);
  stg(out + lane, x);
}

// One operation of the whole warp, in both branches by one function.
GPU_FN u32 row(saddr at) {
  return ldmatrix_x1(at);  // at fault
}
__global__ void divergent(u32* out) {
  const u32 lane = threadIdx.x;
  sts<u32>(smem_base() + lane * 4, lane);
  __syncwarp();
  u32 x;
  if (lane < 16)
    x = row(smem_base() + lane % 8 * 16);  // one way
  else
    x = row(smem_base() + lane % 8 * 16);  // the other way
  stg(out + lane, x);
}

GPU_FN u32 declared(saddr at) { return lds<u32>(at); }

// A function that is handed on by name cannot take a parameter more, and need not.
GPU_FN u32 passed_on(saddr at) { return lds<u32>(at); }
__global__ void by_pointer(u32* out) {
  const saddr here = smem_base() + threadIdx.x * 4;
  sts<u32>(here, threadIdx.x);
  stg(out + threadIdx.x, apply(passed_on, here));
}
