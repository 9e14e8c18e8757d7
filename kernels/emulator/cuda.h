// What CUDA's language has and C++ lacks, as far as the kernels use it. Standard headers are included here, before
// device.h gives some of their words another meaning.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

using u16 = unsigned short;
using u32 = unsigned int;
using u64 = std::uint64_t;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

// A thread_local that needs no call to be found.
#if defined(__ELF__)
#define EMULATOR_FAST_TLS __attribute__((tls_model("initial-exec")))
#else
#define EMULATOR_FAST_TLS  // macOS
#endif

struct dim3 {
  u32 x = 1, y = 1, z = 1;
};
struct alignas(8) uint2 {
  u32 x, y;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// As in CUDA, the two may differ in type.
template <class A, class B> constexpr std::common_type_t<A, B> min(A a, B b) {
  const std::common_type_t<A, B> left = a, right = b;
  return right < left ? right : left;
}
template <class A, class B> constexpr std::common_type_t<A, B> max(A a, B b) {
  const std::common_type_t<A, B> left = a, right = b;
  return left < right ? right : left;
}

inline float __uint_as_float(u32 bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}
inline u32 __float_as_uint(float x) {
  u32 bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
