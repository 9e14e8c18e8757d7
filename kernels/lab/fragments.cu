// Lab: which lane holds which element, found out by asking the hardware.
//
// Every kernel here runs one warp, hands one group of instructions known inputs, and writes down everything
// that came out. Run on a GPU the answers are recorded (tests/record_hardware.py); run on the CPU machine
// they must be the same bits (tests/test_hardware_answers.py). A block is one case: block b reads and writes
// row b of every array.
#include "gpu.cuh"

constexpr u32 LANES = 32;
constexpr u32 WINDOW_BYTES = 4608;  // the shared memory a matrix instruction can touch in one case
constexpr u32 COPY_WINDOW_BYTES = 1536;  // the same for a copy: 96 slots of 16 bytes
constexpr u32 SOURCE_BYTES = 1536;  // the global memory a copy reads: 96 slots of 16 bytes
constexpr u32 BACKGROUND = 0xA5A5A5A5;  // stands in shared memory wherever the instruction wrote nothing
constexpr u32 LOAD_REGISTERS = 14;  // x1, x2 and x4, plain and .trans: 2 * (1 + 2 + 4)
constexpr u32 STORE_VARIANTS = 6;  // x1, x2 and x4, plain and .trans
constexpr u32 COPY_VARIANTS = 8;  // cg16, ca4, ca8, ca16, and each with "or zero"

// Fills shared memory with the background: a dump afterwards shows what an instruction wrote.
template <u32 BYTES> GPU_FN void clear_window() {
  for (u32 offset = threadIdx.x * 4; offset < BYTES; offset += LANES * 4) {
    sts<u32>(smem_base() + offset, BACKGROUND);
  }
  __syncthreads();
}

// Copies shared memory to `window` in global memory: u32 [BYTES / 4].
template <u32 BYTES> GPU_FN void dump_window(u32* window) {
  __syncthreads();
  for (u32 offset = threadIdx.x * 4; offset < BYTES; offset += LANES * 4) {
    const u32 word = lds<u32>(smem_base() + offset);
    stg(window + offset / 4, word);
  }
  __syncthreads();
}

// ldmatrix, every variant.
//   contents   u32 [WINDOW_BYTES / 4]            what shared memory holds, the same in every case
//   rows       u32 [cases][LANES]                byte offset of the 16-byte row each lane names
//   registers  u32 [cases][LOAD_REGISTERS][LANES]  in the order x1, x1.trans, x2, x2.trans, x4, x4.trans
__global__ void load_matrices(const u32* contents, const u32* rows, u32* registers) {
  const u32 lane = threadIdx.x;
  for (u32 offset = lane * 4; offset < WINDOW_BYTES; offset += LANES * 4) {
    const u32 word = ldg(contents + offset / 4);
    sts<u32>(smem_base() + offset, word);
  }
  __syncthreads();

  const saddr row = smem_base() + ldg(rows + blockIdx.x * LANES + lane);
  const u32 x1 = ldmatrix_x1(row);
  const u32 x1_trans = ldmatrix_x1_trans(row);
  const FragB x2 = ldmatrix_x2(row);
  const FragB x2_trans = ldmatrix_x2_trans(row);
  const FragA x4 = ldmatrix_x4(row);
  const FragA x4_trans = ldmatrix_x4_trans(row);

  u32* out = registers + blockIdx.x * LOAD_REGISTERS * LANES + lane;
  stg(out, x1);
  stg(out + LANES, x1_trans);
  for (u32 i = 0; i < 2; ++i) {
    stg(out + (2 + i) * LANES, x2.r[i]);
    stg(out + (4 + i) * LANES, x2_trans.r[i]);
  }
  for (u32 i = 0; i < 4; ++i) {
    stg(out + (6 + i) * LANES, x4.r[i]);
    stg(out + (10 + i) * LANES, x4_trans.r[i]);
  }
}

// stmatrix, every variant.
//   registers  u32 [cases][4][LANES]      what each lane stores; x1 and x2 use the first one and two
//   rows       u32 [cases][LANES]         byte offset of the 16-byte row each lane names; no two alike
//   windows    u32 [cases][STORE_VARIANTS][WINDOW_BYTES / 4]  shared memory after each, in the order above
__global__ void store_matrices(const u32* registers, const u32* rows, u32* windows) {
  const u32 lane = threadIdx.x;
  const saddr row = smem_base() + ldg(rows + blockIdx.x * LANES + lane);
  FragA x4;
  for (u32 i = 0; i < 4; ++i)
    x4.r[i] = ldg(registers + (blockIdx.x * 4 + i) * LANES + lane);
  const FragB x2 = {{x4.r[0], x4.r[1]}};

  u32* window = windows + blockIdx.x * STORE_VARIANTS * (WINDOW_BYTES / 4);
  clear_window<WINDOW_BYTES>();
  stmatrix_x1(row, x4.r[0]);
  dump_window<WINDOW_BYTES>(window);

  clear_window<WINDOW_BYTES>();
  stmatrix_x1_trans(row, x4.r[0]);
  dump_window<WINDOW_BYTES>(window + 1 * (WINDOW_BYTES / 4));

  clear_window<WINDOW_BYTES>();
  stmatrix_x2(row, x2);
  dump_window<WINDOW_BYTES>(window + 2 * (WINDOW_BYTES / 4));

  clear_window<WINDOW_BYTES>();
  stmatrix_x2_trans(row, x2);
  dump_window<WINDOW_BYTES>(window + 3 * (WINDOW_BYTES / 4));

  clear_window<WINDOW_BYTES>();
  stmatrix_x4(row, x4);
  dump_window<WINDOW_BYTES>(window + 4 * (WINDOW_BYTES / 4));

  clear_window<WINDOW_BYTES>();
  stmatrix_x4_trans(row, x4);
  dump_window<WINDOW_BYTES>(window + 5 * (WINDOW_BYTES / 4));
}

// movmatrix: an 8x8 matrix is transposed between the lanes' registers, with no shared memory.
//   matrix, transposed  u32 [cases][LANES]
__global__ void transpose_registers(const u32* matrix, u32* transposed) {
  const u32 index = blockIdx.x * LANES + threadIdx.x;
  stg(transposed + index, movmatrix_trans(ldg(matrix + index)));
}

// Waits until the copies of all lanes have landed.
GPU_FN void land() {
  cp_async_commit();
  cp_async_wait<0>();
}

// The `slot`-th group of BYTES bytes of `source`.
template <u32 BYTES> GPU_FN const u32* source_slot(const u32* source, u32 slot) {
  return source + slot * (BYTES / 4);
}

// The same for the copies that write zeros when their lane is not valid: the address then lies past the end
// of `source`, and must not be read.
template <u32 BYTES> GPU_FN const u32* source_slot_or_past_end(const u32* source, u32 slot, bool valid) {
  const u32 past_end = valid ? 0 : SOURCE_BYTES / BYTES;
  return source_slot<BYTES>(source, slot + past_end);
}

// cp.async, every variant. A slot is as wide as the copy: 4, 8 or 16 bytes.
//   source             u32 [SOURCE_BYTES / 4]
//   source_slots       u32 [cases][LANES]      below 96
//   destination_slots  u32 [cases][LANES]      below 96, no two alike
//   valid              u32 [cases][LANES]      0: the "or zero" variants write zeros
//   windows            u32 [cases][COPY_VARIANTS][COPY_WINDOW_BYTES / 4]  shared memory after each: cg16,
//                      ca4, ca8, ca16, then the same four with "or zero"
__global__ void copy_async(const u32* source, const u32* source_slots, const u32* destination_slots,
                           const u32* valid, u32* windows) {
  const u32 index = blockIdx.x * LANES + threadIdx.x;
  const u32 from = ldg(source_slots + index);
  const u32 to = ldg(destination_slots + index);
  const bool is_valid = ldg(valid + index) != 0;
  const saddr to_4_bytes = smem_base() + to * 4;
  const saddr to_8_bytes = smem_base() + to * 8;
  const saddr to_16_bytes = smem_base() + to * 16;
  constexpr u32 NEXT = COPY_WINDOW_BYTES / 4;
  u32* window = windows + blockIdx.x * COPY_VARIANTS * NEXT;

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_cg16(to_16_bytes, source_slot<16>(source, from));
  land();
  dump_window<COPY_WINDOW_BYTES>(window);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca<4>(to_4_bytes, source_slot<4>(source, from));
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 1 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca<8>(to_8_bytes, source_slot<8>(source, from));
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 2 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca<16>(to_16_bytes, source_slot<16>(source, from));
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 3 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_cg16_or_zero(to_16_bytes, source_slot_or_past_end<16>(source, from, is_valid), is_valid);
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 4 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca_or_zero<4>(to_4_bytes, source_slot_or_past_end<4>(source, from, is_valid), is_valid);
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 5 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca_or_zero<8>(to_8_bytes, source_slot_or_past_end<8>(source, from, is_valid), is_valid);
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 6 * NEXT);

  clear_window<COPY_WINDOW_BYTES>();
  cp_async_ca_or_zero<16>(to_16_bytes, source_slot_or_past_end<16>(source, from, is_valid), is_valid);
  land();
  dump_window<COPY_WINDOW_BYTES>(window + 7 * NEXT);
}

// mma m16n8k16: d = a * b + c, given and answered as the lanes' registers.
//   a  u32 [cases][4][LANES]    b  u32 [cases][2][LANES]    c, d  float [cases][4][LANES]
__global__ void multiply(const u32* a, const u32* b, const float* c, float* d) {
  const u32 lane = threadIdx.x;
  FragA a_rmem;
  FragB b_rmem;
  FragC c_rmem;
  for (u32 i = 0; i < 4; ++i)
    a_rmem.r[i] = ldg(a + (blockIdx.x * 4 + i) * LANES + lane);
  for (u32 i = 0; i < 2; ++i)
    b_rmem.r[i] = ldg(b + (blockIdx.x * 2 + i) * LANES + lane);
  for (u32 i = 0; i < 4; ++i)
    c_rmem.r[i] = ldg(c + (blockIdx.x * 4 + i) * LANES + lane);
  mma(c_rmem, a_rmem, b_rmem);
  for (u32 i = 0; i < 4; ++i)
    stg(d + (blockIdx.x * 4 + i) * LANES + lane, c_rmem.r[i]);
}

// Conversions and the two fast functions, one input per thread.
//   values, others  float [count]     pairs  u32 [count], two bf16 each
//   exp2, rsqrt     float [count]     of values
//   packed          u32 [count]       values in the low half, others in the high half
//   rounded         bf16 [count]      values, one at a time
//   low, high, one  float [count]     both halves of pairs, and the low half by way of the type bf16
// All arrays hold a whole number of blocks of 32.
__global__ void convert(const float* values, const float* others, const u32* pairs, float* exp2, float* rsqrt,
                        u32* packed, bf16* rounded, float* low, float* high, float* one) {
  const u32 index = blockIdx.x * LANES + threadIdx.x;
  const float value = ldg(values + index);
  const float other = ldg(others + index);
  const u32 pair = ldg(pairs + index);
  stg(exp2 + index, fast_exp2(value));
  stg(rsqrt + index, fast_rsqrt(value));
  stg(packed + index, pack_bf16(value, other));
  stg(rounded + index, to_bf16(value));
  stg(low + index, bf16_lo(pair));
  stg(high + index, bf16_hi(pair));
  stg(one + index, to_float(bf16{static_cast<u16>(pair & 0xffff)}));
}
