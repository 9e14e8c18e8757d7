#include "warp_math.h"

namespace emulator {

u32 Matrix::get(u32 lane, bool turned) const {
  const u32 row = lane / 4, col = lane % 4 * 2;
  const u32 lo = turned ? element[col][row] : element[row][col];
  const u32 hi = turned ? element[col + 1][row] : element[row][col + 1];
  return lo | hi << 16;
}
void Matrix::set(u32 lane, bool turned, u32 pair) {
  const u32 row = lane / 4, col = lane % 4 * 2;
  (turned ? element[col][row] : element[row][col]) = static_cast<u16>(pair);
  (turned ? element[col + 1][row] : element[row][col + 1]) = static_cast<u16>(pair >> 16);
}

void transpose_registers(MatrixArguments* const lanes[LANES]) {
  Matrix matrix;
  for (u32 lane = 0; lane < LANES; lane++)
    matrix.set(lane, false, lanes[lane]->r[0]);
  for (u32 lane = 0; lane < LANES; lane++)
    lanes[lane]->r[0] = matrix.get(lane, true);
}

// The lane that `lane` reads from; its own where the shuffle reaches past its group of `width` lanes.
static u32 source_lane(u32 lane, const ShuffleArguments& x) {
  const int first = static_cast<int>(lane) / x.width * x.width, last = first + x.width - 1;
  int source = static_cast<int>(lane);
  switch (x.kind) {
    case Shuffle::INDEX:
      return first + (x.operand & (x.width - 1));
    case Shuffle::UP:
      source -= x.operand;
      break;
    case Shuffle::DOWN:
      source += x.operand;
      break;
    case Shuffle::XOR:
      source ^= x.operand;
      return source > last ? lane : source;  // a lane of a group before is allowed
  }
  return source < first || source > last ? lane : source;
}

u32 shuffle(ShuffleArguments* const lanes[LANES], u32 live) {
  u32 value[LANES] = {};
  u32 stray = LANES;
  for (u32 lane = 0; lane < LANES; lane++) {
    if (!(live >> lane & 1))
      continue;
    const u32 source = source_lane(lane, *lanes[lane]);
    if (live >> source & 1) {
      value[lane] = lanes[source]->value;
    } else {
      stray = lane;
    }
  }
  for (u32 lane = 0; lane < LANES; lane++) {
    if (live >> lane & 1)
      lanes[lane]->value = value[lane];
  }
  return stray;
}

}  // namespace emulator
