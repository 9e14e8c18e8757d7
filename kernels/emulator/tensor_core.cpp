// What mma computes: sums of 16 products and c, added up as the tensor core of a Hopper GPU does it.
//
// PTX leaves the order and the rounding of these sums open. The rule was found by trying: groups of 4, 8 or 16
// products, 23 to 27 binary places, cut off or rounded. This one alone gives all 9216 finite sums recorded on
// an H200 (tests/test_hardware_answers.py), bit for bit:
//   1. The largest exponent among the 17 terms sets the unit, 2^-25 of it. A product's exponent is the sum of
//      its factors' exponents, though their significands may multiply to nearly 4. Zeros do not count.
//   2. Every term is cut off, towards zero, to a whole number of units; these are added without an error.
//   3. The sum is cut off, towards zero, to a float.
// Not recorded so far: the sign of a sum that is zero (here +), sums above the largest float (here infinite).
#include "warp_math.h"

namespace emulator {

namespace {

constexpr u32 M = 16, N = 8, K = 16;
constexpr int BINARY_PLACES = 25;
// Finite numbers have exponents from -126 to 127, and their products twice that. These stay out of the way, alone
// and added to another: zero never is the largest one, a number that is not finite always is.
constexpr int OF_ZERO = -500, OF_NOT_FINITE = 2000;
constexpr int LARGEST_FINITE = 2 * 127;
constexpr u32 NOT_A_NUMBER = 0x7fffffff;  // the one NaN that the tensor core makes

int exponent_of(float x) {
  const int biased = __float_as_uint(x) >> 23 & 0xff;
  if (biased == 0xff)
    return OF_NOT_FINITE;
  return x == 0 ? OF_ZERO : std::max(biased, 1) - 127;  // subnormals share the least exponent
}

// A row of a or a column of b. Doubles hold products and sums here without an error.
struct Factors {
  double value[K];
  short exponent[K];

  void set(u32 k, float x) {
    value[k] = x;
    exponent[k] = static_cast<short>(exponent_of(x));
  }
};

float low_half(u32 pair) { return __uint_as_float(pair << 16); }
float high_half(u32 pair) { return __uint_as_float(pair & 0xffff0000u); }

float cut_to_float(double x) {
  const float nearest = static_cast<float>(x);
  const bool is_beyond = std::fabs(nearest) > std::fabs(x) && std::isfinite(nearest);
  return is_beyond ? __uint_as_float(__float_as_uint(nearest) - 1) : nearest;  // the next one towards zero
}

float add_as_usual(const Factors& a, const Factors& b, float c) {
  double sum = c;
  for (u32 k = 0; k < K; k++)
    sum += a.value[k] * b.value[k];
  return std::isnan(sum) ? __uint_as_float(NOT_A_NUMBER) : static_cast<float>(sum);
}

float add_products(const Factors& a, const Factors& b, float c) {
  short largest = static_cast<short>(exponent_of(c));
  for (u32 k = 0; k < K; k++)
    largest = std::max<short>(largest, a.exponent[k] + b.exponent[k]);
  if (largest > LARGEST_FINITE)
    return add_as_usual(a, b, c);
  const double units_in_one = std::ldexp(1., BINARY_PLACES - largest);
  long long units = static_cast<int>(c * units_in_one);  // a conversion to int cuts off
  for (u32 k = 0; k < K; k++)
    units += static_cast<int>(a.value[k] * b.value[k] * units_in_one);
  return cut_to_float(static_cast<double>(units) / units_in_one);
}

}  // namespace

void multiply(MmaArguments* const lanes[LANES]) {
  Factors a[M], b[N];
  for (u32 lane = 0; lane < LANES; lane++) {
    const MmaArguments& x = *lanes[lane];
    const u32 group = lane / 4, pair = lane % 4 * 2;
    for (u32 i = 0; i < 4; i++) {
      const u32 row = group + i % 2 * 8, k = pair + i / 2 * 8;
      a[row].set(k, low_half(x.a[i]));
      a[row].set(k + 1, high_half(x.a[i]));
    }
    for (u32 i = 0; i < 2; i++) {
      b[group].set(pair + i * 8, low_half(x.b[i]));
      b[group].set(pair + i * 8 + 1, high_half(x.b[i]));
    }
  }
  for (u32 lane = 0; lane < LANES; lane++) {
    for (u32 i = 0; i < 4; i++) {
      float& c = lanes[lane]->c[i];
      c = add_products(a[lane / 4 + i / 2 * 8], b[lane % 4 * 2 + i % 2], c);
    }
  }
}

}  // namespace emulator
