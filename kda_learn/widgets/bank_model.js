// The wavefront model of kda_learn/hardware/banks.py, and the patterns a reader can build, with no Python
// Tests run both over the same addresses and compare.

export const BANKS = 32;
export const LANES = 32;
const BANK_BYTES = 4;
const CORE_ROWS = 8;
const CORE_BYTES = 16;

// Which row of the tile a lane reads, and from which byte of that row on. `rows`: how tall the tile is.
export const LANE_MAPS = {
  linear: {
    text: "Linear: a row per lane",
    rows: 32,
    rule: () => "row = lane, byte = 0",
    place: (lane) => [lane, 0],
  },
  tokens_halves: {
    text: "16 tokens × 2 halves",
    rows: 16,
    rule: ({ distance }) => `row = lane % 16, byte = lane / 16 × ${distance}`,
    place: (lane, { distance }) => [lane % 16, Math.floor(lane / 16) * distance],
  },
  accumulator: {
    text: "8 × 4 accumulator",
    rows: 8,
    rule: ({ width }) => `row = lane / 4, byte = lane % 4 × ${Math.max(4, width)}`,
    place: (lane, { width }) => [Math.floor(lane / 4), (lane % 4) * Math.max(4, width)],
  },
  accumulator_transposed: {
    text: "Accumulator, transposed",
    rows: 8,
    rule: ({ width }) => `row = lane % 4 × 2, byte = lane / 4 × ${width}`,
    place: (lane, { width }) => [(lane % 4) * 2, Math.floor(lane / 4) * width],
  },
  matrix_rows: {
    text: "ldmatrix / stmatrix .x4 rows",
    rows: 16,
    rule: () => "row = lane % 16, byte = lane / 16 × 16",
    place: (lane) => [lane % 16, Math.floor(lane / 16) * CORE_BYTES],
  },
};

// Bytes in a row of the atom that a swizzle permutes; 0: rows as they come.
export const SWIZZLES = {
  none: { text: "None (plain rows)", atomBytes: 0 },
  interleaved: { text: "Interleaved", atomBytes: 16 },
  sw32: { text: "SW32", atomBytes: 32 },
  sw64: { text: "SW64", atomBytes: 64 },
  sw128: { text: "SW128", atomBytes: 128 },
};

export const WIDTHS = [2, 4, 8, 16];
export const MOST_BYTES = 4096; // that a row, its padding, or the way between halves may have
export const DEFAULT_PATTERN = {
  lanes: "linear",
  width: 4,
  stride: 128,
  padding: 0,
  distance: 64,
  swizzle: "none",
};

// Byte address of (row, byte of the row) in a tile of `rows` rows.
export function address(row, byte, rows, { stride, padding, swizzle }) {
  const { atomBytes } = SWIZZLES[swizzle];
  if (atomBytes === 0) return row * (stride + padding) + byte;
  const atom = Math.floor(byte / atomBytes) * (rows / CORE_ROWS) + Math.floor(row / CORE_ROWS);
  const offset = (atom * CORE_ROWS + (row % CORE_ROWS)) * atomBytes + (byte % atomBytes);
  // 16-byte chunks are permuted by the number of the 128-byte line they lie in.
  return offset ^ (((offset >> 7) & (atomBytes / CORE_BYTES - 1)) << 4);
}

// The access that a pattern describes, in the form of a recorded one.
export function build(pattern) {
  const { place, rows } = LANE_MAPS[pattern.lanes];
  const isMatrix = pattern.lanes === "matrix_rows";
  const addresses = Array.from({ length: LANES }, (_, lane) =>
    address(...place(lane, pattern), rows, pattern),
  );
  if (isMatrix) {
    return { op: "ldmatrix.x4", bytes: CORE_BYTES, addresses, name: "ldmatrix or stmatrix .x4" };
  }
  const access = { op: "lds", bytes: pattern.width, addresses };
  const what = servesPairs(access) ? "A load" : "A load or store";
  return { ...access, name: `${what} of ${pattern.width} bytes a lane` };
}

// The first lane whose address is not a multiple of its width (the hardware refuses it), or -1.
export function misalignedLane({ addresses, bytes }) {
  return addresses.findIndex((place) => place >= 0 && place % bytes !== 0);
}

// Matrices that ldmatrix or stmatrix moves: lanes 0 to 7 give the rows of the first. 0: another operation.
export function matrixCount(op) {
  return Number(/^(?:ld|st)matrix\.x(\d)/.exec(op)?.[1] ?? 0);
}

// A load of 8 or 16 bytes serves lanes in pairs if both of each pair want the same, or one is idle: all
// lanes n with n ^ 1, or all with n ^ 2.
function servesPairs({ op, bytes, addresses }) {
  if (op !== "lds" || bytes <= BANK_BYTES) return false;
  return [1, 2].some((flip) =>
    addresses.every((place, lane) => {
      const other = addresses[lane ^ flip];
      return place < 0 || other < 0 || place === other;
    }),
  );
}

// Lanes that are served together: 128 bytes' worth, of pairs twice as many, or one 8x8 matrix.
function lanesPerPhase(access) {
  if (matrixCount(access.op) > 0) return CORE_ROWS;
  const lanes = Math.min(LANES, (BANKS * BANK_BYTES) / access.bytes);
  return servesPairs(access) ? 2 * lanes : lanes;
}

// One warp instruction taken apart: its phases in order, those with no active lane left out. A phase has
// `lanes` (active ones), `words` (word -> lanes that want it), `banks` (bank -> its words, in the order they
// are served) and `wavefronts`, the words of its busiest bank.
export function phases(access) {
  const step = lanesPerPhase(access);
  const used = matrixCount(access.op) * CORE_ROWS || LANES;
  const result = [];
  for (let first = 0; first < used; first += step) {
    const lanes = [];
    const words = new Map();
    for (let lane = first; lane < first + step; lane++) {
      const start = access.addresses[lane];
      if (start < 0) continue;
      lanes.push(lane);
      const firstWord = Math.floor(start / BANK_BYTES);
      for (let word = firstWord; word * BANK_BYTES < start + access.bytes; word++) {
        words.set(word, [...(words.get(word) ?? []), lane]);
      }
    }
    if (lanes.length === 0) continue;
    const banks = Array.from({ length: BANKS }, () => []);
    for (const word of words.keys()) banks[word % BANKS].push(word);
    const wavefronts = Math.max(...banks.map((bank) => bank.length));
    result.push({ first, last: first + step - 1, lanes, words, banks, wavefronts });
  }
  return result;
}

// Wavefronts of the whole instruction, and the fewest it could take. A .cg copy does not pass through this
// pipe, so it counts as nothing.
export function cost(access) {
  if (access.op === "cp.async.cg") return { wavefronts: 0, least: 0, excess: 0 };
  const parts = phases(access);
  const wavefronts = parts.reduce((sum, phase) => sum + phase.wavefronts, 0);
  return { wavefronts, least: parts.length, excess: wavefronts - parts.length };
}
