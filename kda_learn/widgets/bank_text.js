// The bank map in words: for screen readers, and for eyes that want a sentence.
import { BANKS, LANE_MAPS, SWIZZLES } from "./bank_model.js";

// "0–7, 9 and 12": numbers in order, each once, runs of three and more folded.
export function list(numbers) {
  const runs = [];
  for (const number of [...new Set(numbers)].sort((a, b) => a - b)) {
    const run = runs[runs.length - 1];
    if (run && number === run[1] + 1) run[1] = number;
    else runs.push([number, number]);
  }
  const texts = runs.flatMap(([first, last]) => {
    if (last > first + 1) return [`${first}–\u2060${last}`];
    return last > first ? [`${first}`, `${last}`] : [`${first}`];
  });
  if (texts.length < 2) return texts.join("");
  return `${texts.slice(0, -1).join(", ")} and ${texts[texts.length - 1]}`;
}

export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

const some = (numbers, noun) => `${noun}${new Set(numbers).size === 1 ? "" : "s"} ${list(numbers)}`;

export const lanesText = (lanes) => some(lanes, "lane");

// What the instruction costs as a whole.
export function costText(
  { op, bytes, name = `${op} of ${bytes} bytes a lane` },
  { wavefronts, least, excess },
) {
  if (op === "cp.async.cg") {
    return (
      `${name} writes past the pipe of loads and stores, and takes no wavefront of it. ` +
      "The banks below show where it writes; spread destinations cost it time all the same."
    );
  }
  return excess > 0
    ? `${name} takes ${count(wavefronts, "wavefront")} where ${least} would do: ${excess} in excess.`
    : `${name} takes ${count(wavefronts, "wavefront")}, the least possible.`;
}

// What happens in one phase: which lanes collide, and where.
export function collisionText({ first, last, banks, words, wavefronts }) {
  const served = `Lanes ${first}–\u2060${last}: `;
  if (wavefronts <= 1) {
    const shared = [...words.values()].filter((lanes) => lanes.length > 1).length;
    const broadcast =
      shared === 0
        ? ""
        : ` Several lanes share a word ${shared === 1 ? "once" : `${shared} times`}: a broadcast.`;
    return `${served}no bank is asked for more than one word.${broadcast}`;
  }
  const busiest = [...banks.keys()].filter((bank) => banks[bank].length === wavefronts);
  const lanes = banks[busiest[0]].flatMap((word) => words.get(word));
  const also = busiest.length > 1 ? ` Likewise ${some(busiest.slice(1), "bank")}.` : "";
  return (
    `${served}bank ${busiest[0]} is asked for ${wavefronts} different words by ${lanesText(lanes)}, ` +
    `which collide and are served one word at a time.${also}`
  );
}

// What one lane wants, and whom it meets.
export function laneText({ addresses }, { lanes, words, banks }, lane) {
  if (addresses[lane] < 0) return `Lane ${lane} takes no part in this instruction.`;
  if (!lanes.includes(lane)) return `Lane ${lane}, byte ${addresses[lane]}: served in another phase.`;
  const mine = [...words.keys()].filter((word) => words.get(word).includes(lane));
  const turns = mine.map((word) => banks[word % BANKS].indexOf(word) + 1);
  const others = (wanted) => wanted.flatMap((word) => words.get(word)).filter((other) => other !== lane);
  const sharers = others(mine);
  const rivals = others(mine.flatMap((word) => banks[word % BANKS].filter((other) => other !== word)));
  return (
    `Lane ${lane}: byte ${addresses[lane]}, ${some(
      mine.map((word) => word % BANKS),
      "bank",
    )}, ` +
    `served in ${some(turns, "wavefront")}.` +
    (sharers.length > 0 ? ` Shares a word with ${lanesText(sharers)}.` : "") +
    (rivals.length > 0 ? ` Collides with ${lanesText(rivals)}.` : "")
  );
}

export function misalignedText(access, lane) {
  return (
    `Not allowed: lane ${lane} would reach for ${access.bytes} bytes at byte ${access.addresses[lane]}, ` +
    `which is not a multiple of ${access.bytes}. A GPU stops with "misaligned address". ` +
    `Make every row start at a multiple of ${access.bytes}.`
  );
}

// How a lane's address comes about in the reader's own pattern.
export function formulaText(pattern) {
  const { atomBytes } = SWIZZLES[pattern.swizzle];
  const place = LANE_MAPS[pattern.lanes].rule(pattern);
  if (atomBytes === 0) return `${place}\naddress = row × ${pattern.stride + pattern.padding} + byte`;
  const bytes = `atom × ${atomBytes * 8} + row % 8 × ${atomBytes} + byte % ${atomBytes}`;
  const inside = `${place}\naddress = ${bytes}`;
  if (pattern.swizzle === "interleaved") return inside;
  return `${inside}\nchunk of 16 bytes ^= address / 128 % ${atomBytes / 16}`;
}
