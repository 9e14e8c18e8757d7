// Register tiling: one element of a tile marked in every panel that shows it.
// State: views (what to draw, see panels.py), view, routes (view -> route), chosen (element).
import { arrowKeys, choices, element, onChanges, openRoot } from "./common.js";
import { STYLE } from "./tiles_style.js";

const LANES = 32;
const CORE = 8; // rows and columns of a core matrix: a small gap sets these apart
const LANES_ACROSS = 4;
const HALF_NAMES = ["low", "high"];

// A panel's sentence about element e: {name} stands for the panel's list or value of that name.
function sentence(panel, e) {
  const values = { ...panel, half_name: panel.half ? HALF_NAMES[panel.half[e]] : "" };
  return panel.sentence.replace(/\{(\w+)\}/g, (_, name) =>
    Array.isArray(values[name]) ? values[name][e] : values[name],
  );
}

// Elements by place, for panels where a place can hold several.
function elementsAt(panel, placeOf, count) {
  const at = new Map();
  for (let e = 0; e < count; e++) at.set(placeOf(e), [...(at.get(placeOf(e)) ?? []), e]);
  return at;
}

// A place that holds elements. `actions` take such elements: choose keeps them, point looks (null: no more).
function button(panel, elements, colour, text, actions) {
  return element(
    "button",
    {
      type: "button",
      class: `cell c${colour}`,
      "data-elements": elements.join(" "),
      // The text comes first: who steers by voice says what stands on the button.
      "aria-label": [text, sentence(panel, elements[0])].filter(Boolean).join(": "),
      onfocus: () => actions.choose(elements),
      onclick: () => actions.choose(elements),
      onpointerenter: () => actions.point(elements),
      onpointerleave: () => actions.point(null),
    },
    text,
  );
}

function gridPanel(panel, actions) {
  const at = elementsAt(panel, (e) => `${panel.row[e]},${panel.column[e]}`, panel.row.length);
  const name = (names, i) => element("span", { class: "axis" }, names ? names[i] : String(i * panel.step));
  const cells = [];
  const nodes = [element("span", { class: "axis" }, `${panel.axes[0]} \\ ${panel.axes[1]}`)];
  for (let column = 0; column < panel.columns; column++) nodes.push(name(panel.column_names, column));
  for (let row = 0; row < panel.rows; row++) {
    nodes.push(name(panel.row_names, row));
    for (let column = 0; column < panel.columns; column++) {
      const elements = at.get(`${row},${column}`);
      const node = elements
        ? button(panel, elements, panel.colour[elements[0]], panel.label[elements[0]], actions)
        : element("span", { class: "cell none" }, panel.empty);
      if (elements) cells.push({ node, row, column });
      const gap = panel.cuts ? "after-cut" : "after-column";
      if (column > 0 && column % (panel.cuts ?? CORE) === 0) node.classList.add(gap);
      if (row > 0 && row % CORE === 0) node.classList.add("after-row");
      nodes.push(node);
    }
  }
  arrowKeys(cells);
  const style = `--columns: ${panel.columns}; --cell: ${panel.cell_width}px`;
  return element("div", { class: panel.rows > 16 ? "grid low" : "grid", style }, ...nodes);
}

function lanesPanel(panel, actions) {
  const place = (e) => `${panel.lane[e]},${panel.register[e]},${panel.half[e]}`;
  const at = elementsAt(panel, place, panel.lane.length);
  const down = panel.registers / 2; // registers stand two in a row
  const placed = (register) =>
    panel.down_first
      ? [register % down, Math.floor(register / down)]
      : [Math.floor(register / 2), register % 2];
  const cells = [];
  const boxes = Array.from({ length: LANES }, (_, lane) => {
    const registers = Array.from({ length: panel.registers }, (_, register) => {
      const [row, column] = placed(register);
      const halves = Array.from({ length: panel.halves }, (_, half) => {
        const node = button(panel, at.get(`${lane},${register},${half}`), register, "", actions);
        cells.push({
          node,
          row: Math.floor(lane / LANES_ACROSS) * down + row,
          column: ((lane % LANES_ACROSS) * 2 + column) * panel.halves + half,
        });
        return node;
      });
      return element(
        "span",
        { class: "register", style: `grid-area: ${row + 1} / ${column + 1}` },
        ...halves,
      );
    });
    const box = element("span", { class: "registers" }, ...registers);
    return element(
      "div",
      { class: "lane", "data-lane": lane },
      element("span", { class: "axis" }, `lane ${lane}`),
      box,
    );
  });
  cells.sort((a, b) => a.row - b.row || a.column - b.column);
  arrowKeys(cells);
  const key = Array.from({ length: panel.registers }, (_, i) =>
    element("span", {}, element("i", { class: `swatch c${i}` }), `${panel.prefix}${i}`),
  );
  return element(
    "div",
    {},
    element("div", { class: "lanes" }, ...boxes),
    element("div", { class: "key" }, ...key),
  );
}

function render({ model, el }) {
  const { root, close } = openRoot(el, "Register tiling", STYLE);
  const change = (values) => {
    for (const [key, value] of Object.entries(values)) model.set(key, value);
    model.save_changes();
  };
  const viewChoice = choices("View", (view) => change({ view, chosen: 0 }));
  const routeChoice = choices("", (route) =>
    change({ routes: { ...model.get("routes"), [model.get("view")]: route } }),
  );
  const note = element("p", { class: "quiet" });
  const words = element("p", { class: "words", role: "status", "aria-live": "polite" });
  const stage = element("div", { class: "panels" });
  root.append(element("div", { class: "controls" }, viewChoice.node, routeChoice.node), note, words, stage);

  const current = () => {
    const views = model.get("views");
    const view = views.find(({ name }) => name === model.get("view")) ?? views[0];
    const route = view.routes.find(({ name }) => name === model.get("routes")[view.name]) ?? view.routes[0];
    return { view, route, panels: [...view.panels, ...route.panels] };
  };

  // Marks an element in all panels, and what goes with it: the same lane, the same row of 16 bytes.
  function mark(e) {
    const { panels } = current();
    stage.querySelectorAll(".panel").forEach((figure, i) => {
      const panel = panels[i];
      for (const node of figure.querySelectorAll("[data-elements]")) {
        const held = node.dataset.elements.split(" ").map(Number);
        node.classList.toggle("here", held.includes(e));
        node.classList.toggle("kin", panel.kind === "grid" && panel.group[held[0]] === panel.group[e]);
      }
      for (const node of figure.querySelectorAll("[data-lane]")) {
        node.classList.toggle("kin", Number(node.dataset.lane) === panel.lane[e]);
      }
    });
    words.textContent = panels.map((panel) => sentence(panel, e)).join(" ");
  }

  const actions = {
    point: (elements) => mark(elements ? elements[0] : model.get("chosen")),
    choose: (elements) => {
      if (!elements.includes(model.get("chosen"))) change({ chosen: elements[0] });
    },
  };

  let drawn = "";
  function draw() {
    const { view, route, panels } = current();
    viewChoice.fill(
      model.get("views").map(({ name, title }) => [name, title]),
      view.name,
    );
    routeChoice.node.hidden = view.routes.length < 2;
    routeChoice.node.querySelector("legend").textContent = view.route_label;
    routeChoice.fill(
      view.routes.map(({ name }) => [name, name]),
      route.name,
    );
    note.textContent = route.note;
    // Panels are kept while only the chosen element changes: the focus stays where it is.
    if (drawn !== `${view.name} ${route.name}`) {
      stage.replaceChildren(
        ...panels.map((panel) =>
          element(
            "figure",
            { class: "panel" },
            element("figcaption", {}, panel.title),
            (panel.kind === "grid" ? gridPanel : lanesPanel)(panel, actions),
          ),
        ),
      );
    }
    drawn = `${view.name} ${route.name}`;
    mark(model.get("chosen"));
  }

  const stop = onChanges(model, ["views", "view", "routes", "chosen"], draw);
  draw();
  return () => {
    stop();
    close();
  };
}

export default { render };
