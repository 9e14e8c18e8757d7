// Lab: a tile that is written along its rows and read down its columns, 16 bytes a lane.
//
// One warp brings a tile to shared memory and takes it out again. It moves pieces: 8 neighbouring elements of
// a row, 16 bytes. A row is 8 pieces, 128 bytes, so it fills the 32 banks once. The chapter on banks has the
// reader replace the three functions.
#include "gpu.cuh"

constexpr u32 ROWS = 16;
constexpr u32 COLS = 64;
constexpr u32 PIECE = 8;  // elements
constexpr u32 PIECES = COLS / PIECE;  // in a row

// Where element (row, col) lies, in bytes from the tile's start.
GPU_FN u32 at(u32 row, u32 col) { return (row * COLS + col) * 2; }

GPU_FN void write_piece(saddr tile, u32 row, u32 col, uint4 piece) { sts<uint4>(tile + at(row, col), piece); }
GPU_FN uint4 read_piece(saddr tile, u32 row, u32 col) { return lds<uint4>(tile + at(row, col)); }

//   from  bf16 [ROWS][PIECES][PIECE]    to  bf16 [PIECES][ROWS][PIECE]
__global__ void copy_tile(const uint4* from, uint4* to) {
  // At a time the lanes write 4 whole rows ...
  for (u32 i = threadIdx.x; i < ROWS * PIECES; i += 32)
    write_piece(smem_base(), i / PIECES, i % PIECES * PIECE, ldg(from + i));
  __syncwarp();
  // ... and read 2 whole columns of pieces.
  for (u32 i = threadIdx.x; i < ROWS * PIECES; i += 32)
    stg(to + i, read_piece(smem_base(), i % ROWS, i / ROWS * PIECE));
}
