// What the explorers share: a themed root of their own, small builders of HTML, and arrow keys in a grid.

const THEME_ATTRIBUTES = ["data-jp-theme-light", "data-md-color-scheme", "data-vscode-theme-kind"];

// The page's own switch decides (JupyterLab, mkdocs-material, VS Code); without one the system's setting.
export function isDark() {
  const body = document.body.dataset;
  if (body.jpThemeLight) return body.jpThemeLight === "false";
  if (body.mdColorScheme) return body.mdColorScheme === "slate";
  if (body.vscodeThemeKind) return body.vscodeThemeKind.includes("dark");
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

const BASE_STYLE = `
  .root {
    --ink: #1b1f24; --quiet: #57606a; --surface: #ffffff; --empty: #f0f2f5; --line: #c4cad1;
    --edge: #6e7781; --accent: #0550ae; --warn: #a8480b; --warn-back: #f2c79f;
    container-type: inline-size; color: var(--ink); background: var(--surface);
    border: 1px solid var(--line); border-radius: 8px; padding: 12px; margin: 4px 0; box-sizing: border-box;
    font: 14px/1.45 system-ui, sans-serif; text-align: left;
  }
  .root.dark {
    --ink: #e6edf3; --quiet: #a3adb8; --surface: #161b22; --empty: #21272f; --line: #3d444d;
    --edge: #8b949e; --accent: #79b8ff; --warn: #ffa657; --warn-back: #5d3a18; color-scheme: dark;
  }
  .root *, .root *::before { box-sizing: border-box; }
  .controls { display: flex; flex-wrap: wrap; gap: 8px 14px; align-items: flex-end; margin-bottom: 10px; }
  .field { display: flex; flex-direction: column; gap: 2px; min-width: 0; max-width: 100%; font-size: 12px;
    color: var(--quiet); }
  .field.off { opacity: .5; }
  select, input[type=number] { font: 14px system-ui, sans-serif; color: var(--ink);
    background: var(--surface);
    border: 1px solid var(--edge); border-radius: 5px; padding: 4px 6px; min-height: 32px; max-width: 100%; }
  input[type=number] { width: 6em; } input:invalid { outline: 2px solid var(--warn); }
  input[type=range] { accent-color: var(--accent); width: 180px; min-height: 32px; max-width: 100%;
    margin: 0; }
  fieldset { border: 0; margin: 0; padding: 0; min-width: 0; }
  legend { font-size: 12px; color: var(--quiet); padding: 0; margin-bottom: 2px; }
  .choices { display: flex; flex-wrap: wrap; gap: 4px; }
  .choice { position: relative; border: 1px solid var(--edge); border-radius: 5px; padding: 4px 9px;
    cursor: pointer; font-size: 13px; min-height: 32px; display: flex; align-items: center; }
  .choice input { position: absolute; inset: 0; opacity: 0; margin: 0; cursor: pointer; }
  .choice:has(:checked) { background: var(--accent); border-color: var(--accent); color: var(--surface); }
  :focus-visible, .choice:has(:focus-visible) { outline: 3px solid var(--accent); outline-offset: 2px; }
  .choice:has(:focus-visible) input { outline: none; }
  p { margin: 6px 0; }
  .quiet { color: var(--quiet); font-size: 13px; }
  code { display: block; font: 12.5px/1.5 ui-monospace, "DejaVu Sans Mono", monospace;
    background: var(--empty);
    padding: 5px 8px; border-radius: 4px; margin-bottom: 10px; overflow-wrap: anywhere;
    white-space: pre-wrap; }
  [hidden] { display: none !important; }
`;

// An element with attributes ("onclick" and the like are listeners) and children.
export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// A root with its own style sheet: a shadow tree, so that the page's styles and ours do not meet.
// Returns the root to fill and a function that removes it.
export function openRoot(parent, label, style) {
  // JupyterLab leaves the keys alone below this attribute: arrows belong to the explorer.
  const host = element("div", { "data-lm-suppress-shortcuts": "true" });
  const shadow = host.attachShadow({ mode: "open" });
  // A group, not a section: the landmarks of a page need names of their own, and explorers come twice.
  const root = element("div", { class: "root", role: "group", "aria-label": label });
  shadow.append(element("style", {}, BASE_STYLE + style), root);
  parent.append(host);

  const follow = () => root.classList.toggle("dark", isDark());
  const system = matchMedia("(prefers-color-scheme: dark)");
  const observer = new MutationObserver(follow);
  observer.observe(document.body, { attributes: true, attributeFilter: THEME_ATTRIBUTES });
  system.addEventListener("change", follow);
  follow();
  const close = () => {
    observer.disconnect();
    system.removeEventListener("change", follow);
    host.remove();
  };
  return { root, close };
}

// A labelled drop-down. `fill(options, value)` takes a list of [value, text].
export function dropDown(label, onChoice) {
  const select = element("select", { onchange: () => onChoice(select.value) });
  const node = element("label", { class: "field" }, label, select);
  const fill = (options, value) => {
    select.replaceChildren(...options.map(([key, text]) => element("option", { value: key }, text)));
    select.value = value;
  };
  return { node, select, fill };
}

// A labelled number or range. `set(value, enabled)` shows a value without calling back.
export function numberField(label, attributes, onValue) {
  const input = element("input", {
    type: "number",
    ...attributes,
    oninput: () => {
      if (input.value !== "" && input.checkValidity()) onValue(input.valueAsNumber);
    },
  });
  const text = element("span", {}, label);
  const node = element("label", { class: "field" }, text, input);
  const set = (value, enabled = true) => {
    if (input.valueAsNumber !== value) input.value = value;
    input.disabled = !enabled;
    node.classList.toggle("off", !enabled);
  };
  return { node, input, text, set };
}

let groups = 0;

// One choice of a few, as a row of buttons; arrow keys move it. `fill(options, value)` takes [value, text].
export function choices(label, onChoice) {
  const group = `choice-${groups++}`;
  const row = element("div", { class: "choices" });
  const node = element("fieldset", {}, element("legend", {}, label), row);
  let shown = "";
  const fill = (options, value) => {
    const key = JSON.stringify(options);
    // Buttons are kept while their texts stay the same, so that the focus is kept too.
    if (key !== shown) {
      row.replaceChildren(
        ...options.map(([name, text]) =>
          element(
            "label",
            { class: "choice" },
            element("input", { type: "radio", name: group, value: name, onchange: () => onChoice(name) }),
            text,
          ),
        ),
      );
    }
    shown = key;
    for (const input of row.querySelectorAll("input")) input.checked = input.value === String(value);
  };
  return { node, fill };
}

// Lets arrow keys, Home and End move the focus over `cells`, a list of {node, row, column}; one of them is
// reached by Tab. Empty places are skipped.
export function arrowKeys(cells) {
  const at = new Map(cells.map((cell) => [`${cell.row},${cell.column}`, cell]));
  const rows = Math.max(...cells.map((cell) => cell.row)) + 1;
  const columns = Math.max(...cells.map((cell) => cell.column)) + 1;
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const next = (cell, key) => {
    const inRow = cells.filter((other) => other.row === cell.row);
    if (key === "Home") return inRow[0];
    if (key === "End") return inRow[inRow.length - 1];
    const [down, right] = steps[key] ?? [0, 0];
    let [row, column] = [cell.row + down, cell.column + right];
    while ((down || right) && row >= 0 && row < rows && column >= 0 && column < columns) {
      const found = at.get(`${row},${column}`);
      if (found) return found;
      [row, column] = [row + down, column + right];
    }
    return undefined;
  };
  for (const cell of cells) {
    cell.node.tabIndex = -1;
    cell.node.addEventListener("focus", () => {
      for (const other of cells) other.node.tabIndex = other === cell ? 0 : -1;
    });
    cell.node.addEventListener("keydown", (event) => {
      if (!(event.key in steps) && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      event.stopPropagation();
      next(cell, event.key)?.node.focus();
    });
  }
  if (cells.length) cells[0].node.tabIndex = 0;
}

// Calls `draw` once after any change of these keys of the model. Returns a function that stops it.
export function onChanges(model, keys, draw) {
  let isDue = false;
  const request = () => {
    if (isDue) return;
    isDue = true;
    queueMicrotask(() => {
      isDue = false;
      draw();
    });
  };
  for (const key of keys) model.on(`change:${key}`, request);
  return () => {
    for (const key of keys) model.off(`change:${key}`, request);
  };
}
