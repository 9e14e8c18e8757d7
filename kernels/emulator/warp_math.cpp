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

// The lane that `lane` reads from, as PTX says (shfl.sync): its own where the shuffle reaches past its group of `width`
// lanes. Of the operand the low five bits count.
static u32 source_lane(u32 lane, const ShuffleArguments& x) {
  const int own = static_cast<int>(lane), operand = x.operand & 31;
  const int first = own / x.width * x.width, last = first + x.width - 1;
  int source = own;
  switch (x.kind) {
    case Shuffle::INDEX:
      return first | (operand & (x.width - 1));
    case Shuffle::UP:
      source = own - operand;
      return source < first ? own : source;
    case Shuffle::DOWN:
      source = own + operand;
      break;
    case Shuffle::XOR:
      source = own ^ operand;  // a lane of a group before is allowed
      break;
  }
  return source > last ? own : source;
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
