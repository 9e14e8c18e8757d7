// Where element (row, col) of a tile lives in shared memory, in bytes from the tile's start.
//
// A layout is a rule with two promises. `at(row, col)` is the byte offset of an element. For the layouts
// without an XOR, moving 16 columns or 16 rows on adds a constant (NEXT_16_COLS, NEXT_16_ROWS), so a kernel
// works out one offset per lane and reaches every other tile by adding numbers known when it is compiled.
//
// "Core matrix" below is what ldmatrix and stmatrix move at once: 8 rows of 16 bytes (8 bf16 elements).
#pragma once
#include "gpu.cuh"

// Rows one after the other, STRIDE elements apart. Plain when STRIDE is the number of columns, padded when
// larger.
template <class Element, u32 STRIDE> struct Rows {
  static GPU_FN constexpr u32 at(u32 row, u32 col) { return (row * STRIDE + col) * sizeof(Element); }
  static constexpr u32 NEXT_16_COLS = 16 * sizeof(Element);
  static constexpr u32 NEXT_16_ROWS = 16 * STRIDE * sizeof(Element);
};

// Interleaved core matrices: the 8 rows of a core matrix are 128 contiguous bytes, so they fill the 32 banks
// exactly once. Core matrices follow each other down the ROWS first. Seen as [row][col] this is the K-major
// INTERLEAVE layout of the tensor cores; the same bytes seen as [col][row] are the MN-major one.
template <u32 ROWS> struct Interleaved {
  static GPU_FN constexpr u32 at(u32 row, u32 col) {
    const u32 core_matrix = col / 8 * (ROWS / 8) + row / 8;
    return core_matrix * 128 + row % 8 * 16 + col % 8 * 2;
  }
  static constexpr u32 NEXT_16_COLS = ROWS / 8 * 256;
  static constexpr u32 NEXT_16_ROWS = 256;
};

// SW32, SW64, SW128 (BITS = 1, 2, 3): atoms of 8 rows whose rows are 32, 64 or 128 bytes, their 16-byte
// chunks permuted by an XOR with the row. Atoms follow each other down the ROWS first. The XOR acts on the
// offset's bits 4 and up, with the bits from 7 on: within an atom those say which 128-byte line the element
// is in.
template <u32 ROWS, u32 BITS> struct Swizzled {
  static constexpr u32 ATOM_COLS = 8u << BITS;
  static GPU_FN constexpr u32 at(u32 row, u32 col) {
    const u32 atom = col / ATOM_COLS * (ROWS / 8) + row / 8;
    const u32 inside = (row % 8 * ATOM_COLS + col % ATOM_COLS) * 2;
    return atom * ATOM_COLS * 16 + (inside ^ (inside >> 7 & ((1u << BITS) - 1)) << 4);
  }
};

// SW32 keeps the promise of constant steps: one atom is 16 columns wide, and the XOR stays inside an atom.
template <u32 ROWS> struct Swizzled32 : Swizzled<ROWS, 1> {
  static constexpr u32 NEXT_16_COLS = ROWS / 8 * 256;
  static constexpr u32 NEXT_16_ROWS = 512;
};
