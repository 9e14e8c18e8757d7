// Lab, for the CPU: prints where layouts.cuh puts every element, so that a test can compare it with
// layouts.py.
//
// One line per tile: the layout, its number (row stride in elements, or log2 of the swizzle's 16-byte
// chunks), rows, columns, bytes of an element, the steps to 16 columns and 16 rows on (0 if the layout has
// none), then the byte offset of every element, row by row.
#include "layouts.cuh"

#include <cstdio>

template <class Layout> void print_tile(const char* name, u32 number, u32 rows, u32 cols, u32 element_bytes) {
  u32 next_16_cols = 0, next_16_rows = 0;
  if constexpr (requires { Layout::NEXT_16_COLS; }) {
    next_16_cols = Layout::NEXT_16_COLS;
    next_16_rows = Layout::NEXT_16_ROWS;
  }
  std::printf("%s %u %u %u %u %u %u", name, number, rows, cols, element_bytes, next_16_cols, next_16_rows);
  for (u32 row = 0; row < rows; row++) {
    for (u32 col = 0; col < cols; col++)
      std::printf(" %u", Layout::at(row, col));
  }
  std::printf("\n");
}

template <class Element, u32 STRIDE> void print_rows(u32 rows, u32 cols) {
  print_tile<Rows<Element, STRIDE>>("Rows", STRIDE, rows, cols, sizeof(Element));
}

template <u32 ROWS> void print_interleaved(u32 cols) {
  print_tile<Interleaved<ROWS>>("Interleaved", 0, ROWS, cols, 2);
}

template <u32 ROWS, u32 BITS> void print_swizzled(u32 cols) {
  print_tile<Swizzled<ROWS, BITS>>("Swizzled", BITS, ROWS, cols, 2);
}

int main() {
  print_rows<bf16, 16>(16, 16);
  print_rows<bf16, 128>(16, 128);
  print_rows<bf16, 130>(16, 128);
  print_rows<bf16, 136>(16, 128);
  print_rows<float, 128>(16, 128);
  print_rows<float, 132>(16, 128);
  print_interleaved<16>(16);
  print_interleaved<16>(128);
  print_interleaved<32>(128);
  print_interleaved<128>(128);
  print_swizzled<16, 1>(128);
  print_swizzled<128, 1>(128);
  print_swizzled<64, 2>(64);
  print_swizzled<128, 2>(128);
  print_swizzled<128, 3>(128);
  print_tile<Swizzled32<16>>("Swizzled", 1, 16, 128, 2);
  print_tile<Swizzled32<128>>("Swizzled", 1, 128, 128, 2);
  return 0;
}
