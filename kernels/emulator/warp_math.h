// What the warp-wide instructions compute, on the registers of all 32 lanes.
#pragma once
#include "clock.h"
#include "runtime.h"

namespace emulator {

// An 8x8 matrix of 16-bit elements. Lane l's register holds row l / 4, columns l % 4 * 2 (low half) and the
// next; turned over it holds the elements of the transposed matrix.
struct Matrix {
  u16 element[8][8];

  u32 get(u32 lane, bool turned) const;
  void set(u32 lane, bool turned, u32 pair);
};

void transpose_registers(MatrixArguments* const lanes[LANES]);
void multiply(MmaArguments* const lanes[LANES]);  // tensor_core.cpp
// Lanes outside of `live` have returned. Returns a lane that reads from one of those, or LANES.
u32 shuffle(ShuffleArguments* const lanes[LANES], u32 live);

}  // namespace emulator
