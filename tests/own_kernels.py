"""Small kernels with launch headers, for the tests of files of one's own."""

from pathlib import Path

AXPY = """\
// kda-learn: launch axpy<64> grid 3 block 64
// kda-learn: in    a float32 -0.5
// kda-learn: in    x float32[3*64] random
// kda-learn: inout y float32[3*64] random
// kda-learn: out   half bf16[3*64]
// kda-learn: out   index int32[3*64]
#include "gpu.cuh"
template <u32 N>
__global__ void axpy(float a, const float* x, float* y, bf16* half, int* index) {
  const u32 i = blockIdx.x * N + threadIdx.x;
  const float sum = a * ldg(x + i) + ldg(y + i);
  stg(y + i, sum);
  stg(half + i, to_bf16(sum));
  stg(index + i, (int)i - 1);
}
"""

SUMS = """\
// kda-learn: launch sums grid 2 block 32,4 shared 4 * 32 * 4
// kda-learn: in  from int32[2][4][32] random
// kda-learn: out to   int32[2][32]
// kda-learn: in  missing float32 null
#include "gpu.cuh"
__global__ void sums(const int* from, int* to, const float* missing) {
  const u32 x = threadIdx.x, y = threadIdx.y;
  sts<int>(smem_base() + (y * 32 + x) * 4, ldg(from + (blockIdx.x * 4 + y) * 32 + x));
  __syncthreads();
  if (y == 0 && !missing) {
    int sum = 0;
    for (u32 row = 0; row < 4; row++) sum += lds<int>(smem_base() + (row * 32 + x) * 4);
    stg(to + blockIdx.x * 32 + x, sum);
  }
}
"""


def written(folder: Path, text: str, *changes: tuple[str, str], name: str = "mine.cu") -> Path:
    """The kernel in a file, each piece of text, which must be there once, replaced by another."""
    for before, after in changes:
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    path = folder / name
    path.write_text(text)
    return path
