// The bank map's controls: for recorded accesses, and for a pattern of the reader's own.
// `change` sets the model's values that it is given.
import { dropDown, element, numberField } from "./common.js";
import { DEFAULT_PATTERN, LANE_MAPS, MOST_BYTES, SWIZZLES, WIDTHS, cost } from "./bank_model.js";
import { count } from "./bank_text.js";

// A line of the source, as the list of lines has it: "221: sts, 2 bytes, QD (r1)".
function entryText({ line, op, bytes, region, section }) {
  const place = [region, section && `(${section})`].filter(Boolean).join(" ");
  return `${line}: ${op}, ${bytes} bytes${place && `, ${place}`}`;
}

// The controls for recorded accesses: a source line, and one of the patterns it made.
export function recordedControls(model, change) {
  // Indices of the accesses that go under one entry of the list with access `index`.
  const siblings = (index) => {
    const all = model.get("accesses");
    return all.flatMap((access, i) => (entryText(access) === entryText(all[index]) ? [i] : []));
  };
  const line = dropDown("Source line", (value) => change({ index: Number(value), phase: 0 }));
  const which = numberField("", { type: "range", min: 1, step: 1 }, (value) =>
    change({ index: siblings(model.get("index"))[value - 1], phase: 0 }),
  );
  const node = element("div", { class: "controls" }, line.node, which.node);
  const show = () => {
    const all = model.get("accesses");
    const index = model.get("index");
    const lines = all.flatMap((access, i) => {
      if (siblings(i)[0] !== i) return [];
      const worst = Math.max(...siblings(i).map((other) => cost(all[other]).excess));
      return [[i, worst > 0 ? `${entryText(access)}: ${worst} excess` : entryText(access)]];
    });
    line.fill(lines, siblings(index)[0]);
    const position = siblings(index).indexOf(index) + 1;
    which.input.max = siblings(index).length;
    which.set(position, siblings(index).length > 1);
    const seen = count(all[index].count, "time");
    which.text.textContent = `Pattern ${position} of ${siblings(index).length}, seen ${seen}`;
  };
  return { node, show };
}

// The controls for a pattern of the reader's own.
export function patternControls(model, change) {
  const pattern = () => ({ ...DEFAULT_PATTERN, ...model.get("pattern") });
  const set = (key) => (value) => change({ pattern: { ...pattern(), [key]: value }, phase: 0 });
  const bytes = (label, key) => numberField(label, { min: 0, max: MOST_BYTES, step: 1 }, set(key));
  const lanes = dropDown("Lane map", set("lanes"));
  const width = dropDown("Bytes per lane", (value) => set("width")(Number(value)));
  const stride = bytes("Row, bytes", "stride");
  const padding = bytes("Padding, bytes", "padding");
  const distance = bytes("Halves apart, bytes", "distance");
  const swizzle = dropDown("Swizzle", set("swizzle"));
  const node = element(
    "div",
    { class: "controls" },
    ...[lanes, width, stride, padding, distance, swizzle].map((field) => field.node),
  );
  const texts = (options) => Object.entries(options).map(([key, { text }]) => [key, text]);
  const show = () => {
    const now = pattern();
    const isMatrix = now.lanes === "matrix_rows";
    const isRows = now.swizzle === "none";
    lanes.fill(texts(LANE_MAPS), now.lanes);
    swizzle.fill(texts(SWIZZLES), now.swizzle);
    width.fill(
      isMatrix ? [[16, "a row of 16"]] : WIDTHS.map((value) => [value, value]),
      isMatrix ? 16 : now.width,
    );
    width.select.disabled = isMatrix;
    width.node.classList.toggle("off", isMatrix);
    stride.set(now.stride, isRows);
    padding.set(now.padding, isRows);
    distance.set(now.distance);
    distance.node.hidden = now.lanes !== "tokens_halves";
  };
  return { node, show, pattern };
}
