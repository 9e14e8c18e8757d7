// Bank map: which words one warp instruction asks of the 32 banks, phase by phase, and what that costs.
// State: accesses (recorded ones, may be empty), pattern (the reader's own), mode, index, phase.
import { arrowKeys, choices, element, onChanges, openRoot } from "./common.js";
import { BANKS, LANES, build, cost, matrixCount, misalignedLane, phases } from "./bank_model.js";
import {
  collisionText,
  costText,
  formulaText,
  laneText,
  lanesText,
  list,
  misalignedText,
} from "./bank_text.js";
import { patternControls, recordedControls } from "./bank_controls.js";
import { STYLE, laneColour } from "./bank_style.js";

const HALF = 16; // banks, or lanes, in one block; two blocks lie side by side, when narrow below each other
const HINT = "Point at a lane, or move over the lanes with the arrow keys, to see what it wants.";

// Two blocks of 16 columns. `side(row)` names a row, `cell(row, i)` is the node of lane or bank i.
function halves(rows, side, cell) {
  const block = (first) =>
    element(
      "div",
      { class: "half" },
      ...Array.from({ length: rows }, (_, row) => [
        side(row),
        ...Array.from({ length: HALF }, (_, i) => cell(row, first + i)),
      ]).flat(),
    );
  return element("div", { class: "halves" }, block(0), block(HALF));
}

// Listeners that look at a lane while the pointer is on a node, and keep looking after a click.
function whenPointedAt(lane, look) {
  return { onpointerenter: () => look(lane), onpointerleave: () => look(), onclick: () => look(lane, true) };
}

function laneCells(access, phase, waiting, look) {
  return Array.from({ length: LANES }, (_, lane) => {
    const isServed = phase.lanes.includes(lane);
    const { back, ink } = laneColour(phase.lanes, lane);
    const classes = ["lane", isServed ? "" : "idle", waiting.has(lane) ? "waits" : ""];
    const node = element(
      "button",
      {
        class: classes.join(" "),
        type: "button",
        "data-lane": lane,
        "aria-label": laneText(access, phase, lane),
        style: isServed && `background:${back};color:${ink}`,
        ...whenPointedAt(lane, look),
        onfocus: () => look(lane, true),
        onblur: () => look(null, true),
      },
      String(lane),
    );
    return { node, row: 0, column: lane };
  });
}

// What bank `bank` delivers in a wavefront (counted from 0): a word in the colours of its lanes, or nothing.
function wordCell(phase, bank, wavefront, look) {
  const word = phase.banks[bank][wavefront];
  if (word === undefined) return element("span", { class: wavefront > 0 ? "free excess" : "free" });
  const wanting = phase.words.get(word);
  const colours = wanting.map((lane) => laneColour(phase.lanes, lane));
  const edge = (i) => `${Math.round((100 * i) / colours.length)}%`;
  const stripes = colours.map(({ back }, i) => `${back} ${edge(i)} ${edge(i + 1)}`);
  return element(
    "span",
    {
      class: wanting.length > 1 ? "word shared" : "word",
      "data-word": word,
      title: `word ${word} (byte ${word * 4}) for ${lanesText(wanting)}`,
      style: `background:linear-gradient(90deg, ${stripes});color:${colours[0].ink}`,
      ...whenPointedAt(wanting[0], look),
    },
    wanting.length > 1 ? element("b", {}, `×${wanting.length}`) : String(wanting[0]),
  );
}

function bankPicture(phase, look) {
  const side = (row) =>
    element("span", { class: row > 1 ? "side excess" : "side" }, row > 0 ? String(row) : "");
  const cell = (row, bank) =>
    row > 0 ? wordCell(phase, bank, row - 1, look) : element("span", { class: "head" }, String(bank));
  const node = halves(phase.wavefronts + 1, side, cell);
  node.classList.toggle("tall", phase.wavefronts > 8);
  return node;
}

function legend() {
  const swatch = (classes, text) =>
    element("span", {}, element("span", { class: `swatch ${classes}` }), text);
  return element(
    "div",
    { class: "key", "aria-hidden": "true" },
    element("span", {}, "number in a bank: the lane that wants this word"),
    element("span", {}, element("b", {}, "×4"), " one word for 4 lanes: one broadcast"),
    swatch("free excess", "idle while others need another wavefront"),
    swatch("waits", "lane in a collision"),
  );
}

function numbersTable(access, phase) {
  const rows = phase.lanes.map((lane) => {
    const words = [...phase.words].filter(([, wanting]) => wanting.includes(lane)).map(([word]) => word);
    const turns = words.map((word) => phase.banks[word % BANKS].indexOf(word) + 1);
    return [lane, access.addresses[lane], list(words), list(words.map((word) => word % BANKS)), list(turns)];
  });
  const head = ["lane", "byte", "word", "bank", "wavefront"].map((text) =>
    element("th", { scope: "col" }, text),
  );
  return element(
    "table",
    {},
    element("tr", {}, ...head),
    ...rows.map((row) => element("tr", {}, ...row.map((text) => element("td", {}, String(text))))),
  );
}

function render({ model, el }) {
  const { root, close } = openRoot(el, "Bank map of shared memory", STYLE);
  const change = (values) => {
    for (const [key, value] of Object.entries(values)) model.set(key, value);
    model.save_changes();
  };
  const mode = choices("Access", (value) => change({ mode: value, phase: 0 }));
  const modeRow = element("div", { class: "controls" }, mode.node);
  const recorded = recordedControls(model, change);
  const builder = patternControls(model, change);
  const phaseChoice = choices("Phase (lanes: wavefronts)", (value) => change({ phase: Number(value) }));

  const source = element("code", {});
  const figures = element("div", { class: "figures" });
  const status = element("p", { role: "status", "aria-live": "polite" });
  const chart = element("div", {
    role: "group",
    "aria-label": "Lanes, and the words they want from each bank",
  });
  const detail = element("p", { class: "detail quiet" });
  const table = element("div", {
    class: "scroll",
    tabindex: "0",
    role: "group",
    "aria-label": "Lane, byte, word, bank",
  });
  const numbers = element("details", {}, element("summary", {}, "The same in numbers"), table);
  root.append(
    modeRow,
    recorded.node,
    builder.node,
    source,
    element("div", { class: "figures" }, figures, phaseChoice.node),
    status,
    chart,
    numbers,
  );

  function drawFigures({ wavefronts, least, excess }) {
    const figure = (value, text, isBad) =>
      element(
        "div",
        { class: isBad ? "figure bad" : "figure" },
        element("b", {}, String(value)),
        element("span", {}, text),
      );
    figures.replaceChildren(
      figure(wavefronts, wavefronts === 1 ? "wavefront" : "wavefronts"),
      figure(least, "least possible"),
      figure(excess, "excess", excess > 0),
    );
  }

  function drawChart(access, phase) {
    // Marks the words of a lane, and those that must wait for them. Without a lane: of the one last kept.
    let kept = null;
    const look = (lane = kept, isKept = false) => {
      if (isKept) kept = lane;
      detail.textContent = lane === null ? HINT : laneText(access, phase, lane);
      const isMine = (word) => phase.words.get(word).includes(lane);
      for (const node of chart.querySelectorAll("[data-word]")) {
        const word = Number(node.dataset.word);
        const isRival = !isMine(word) && phase.banks[word % BANKS].some(isMine);
        node.classList.toggle("mine", isMine(word));
        node.classList.toggle("rival", isRival);
        node.classList.toggle("dim", phase.lanes.includes(lane) && !isMine(word) && !isRival);
      }
      for (const node of chart.querySelectorAll("[data-lane]")) {
        node.classList.toggle("mine", Number(node.dataset.lane) === lane);
      }
    };
    const crowded = phase.banks.filter((words) => words.length > 1).flat();
    const waiting = new Set(crowded.flatMap((word) => phase.words.get(word)));
    const lanes = laneCells(access, phase, waiting, look);
    const laneRow = halves(
      1,
      () => element("span", { class: "side" }),
      (_, lane) => lanes[lane].node,
    );
    const banks = bankPicture(phase, look);
    banks.setAttribute("aria-hidden", "true");
    arrowKeys(lanes);
    const caption = (text) => element("div", { class: "caption" }, text);
    chart.replaceChildren(
      caption(matrixCount(access.op) > 0 ? "Lanes: each gives the address of a row of 16 bytes" : "Lanes"),
      laneRow,
      detail,
      caption("Banks 0 to 31 across; every row is one wavefront"),
      banks,
      legend(),
    );
    look(null);
  }

  function draw() {
    const accesses = model.get("accesses");
    const isRecorded = accesses.length > 0 && model.get("mode") === "recorded";
    const access = isRecorded ? accesses[model.get("index")] : build(builder.pattern());
    const isLegal = misalignedLane(access) < 0;
    modeRow.hidden = accesses.length === 0;
    mode.fill(
      [
        ["recorded", "Recorded in a run"],
        ["pattern", "Build your own"],
      ],
      isRecorded ? "recorded" : "pattern",
    );
    recorded.node.hidden = !isRecorded;
    builder.node.hidden = isRecorded;
    (isRecorded ? recorded : builder).show();
    source.textContent = isRecorded ? access.text : formulaText(builder.pattern());
    status.classList.toggle("illegal", !isLegal);
    for (const node of [figures, phaseChoice.node, chart, numbers]) node.hidden = !isLegal;
    if (!isLegal) {
      status.textContent = misalignedText(access, misalignedLane(access));
      return;
    }
    const parts = phases(access);
    const chosen = Math.min(model.get("phase"), parts.length - 1);
    phaseChoice.fill(
      parts.map((part, i) => [i, `${part.first}–${part.last}: ${part.wavefronts}`]),
      chosen,
    );
    drawFigures(cost(access));
    status.textContent = `${costText(access, cost(access))} ${collisionText(parts[chosen])}`;
    drawChart(access, parts[chosen]);
    table.replaceChildren(numbersTable(access, parts[chosen]));
  }

  const stop = onChanges(model, ["accesses", "pattern", "mode", "index", "phase"], draw);
  draw();
  return () => {
    stop();
    close();
  };
}

export default { render };
