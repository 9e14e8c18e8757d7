// A prediction: a question with a place for a guess, or a guess beside the truth. State: see predict.py.
import { choices, element, onChanges, openRoot } from "./common.js";

const STYLE = `
  .question { font-weight: 600; margin: 0 0 8px; }
  form { display: flex; flex-wrap: wrap; gap: 8px 10px; align-items: center; margin: 0; }
  input[type=number] { width: 9em; }
  button { font: 14px system-ui, sans-serif; color: var(--surface); background: var(--accent); cursor: pointer;
    border: 1px solid var(--accent); border-radius: 5px; padding: 4px 12px; min-height: 32px; }
  .sides { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 6px; }
  .sides div { display: flex; flex-direction: column; min-width: 0; }
  .sides b { font-size: 22px; line-height: 1.25; overflow-wrap: anywhere; }
  .sides span { font-size: 12px; color: var(--quiet); }
  .choice { max-width: 100%; }
`;
const CHANGED = "kda-learn-prediction"; // an event on the window, when a guess was made anywhere on the page
const SIGNIFICANT = 10; // digits of a guess that are shown, as in predicting.py

const storageKey = (key) => `kda-learn.prediction.${key}`;

// With Python behind it the guess lies in the model, and Python keeps it; else in the browser.
const hasPython = (model) => model.widget_manager !== undefined;

function storedGuess(key) {
  try {
    return JSON.parse(localStorage.getItem(storageKey(key)));
  } catch {
    return null; // nothing there, or the browser keeps nothing for this page
  }
}

function keepGuess(model, guess) {
  const key = model.get("key");
  model.set("guess", guess);
  model.save_changes();
  if (!hasPython(model)) {
    try {
      localStorage.setItem(storageKey(key), JSON.stringify(guess));
    } catch {
      // The guess then lives as long as the page.
    }
  }
  window.dispatchEvent(new CustomEvent(CHANGED, { detail: { key, guess } }));
}

// A guess as it is written: numbers with commas, and the unit behind them.
export function guessText(guess, unit) {
  if (typeof guess !== "number") return guess;
  const number = guess.toLocaleString("en-US", { maximumSignificantDigits: SIGNIFICANT });
  return unit === "" ? number : `${number} ${unit}`;
}

// What to say about a guess, once there is an answer.
export function verdict(guess, unit, answer) {
  if (guess === null || guess === undefined) return answer.without;
  if (typeof guess !== "number") return answer.by_choice[guess] ?? answer.without;
  const [, text] = answer.bands.find(([bound]) => bound === null || guess < bound) ?? [null, answer.without];
  return text.replaceAll("{guess}", guessText(guess, unit));
}

function askNumber(model, unit) {
  const submit = (event) => {
    event.preventDefault();
    if (input.value !== "") keepGuess(model, input.valueAsNumber);
  };
  const input = element("input", {
    type: "number",
    step: "any",
    "aria-label": "Your prediction",
    // JupyterLab lets no key press end in a form's submit.
    onkeydown: (event) => {
      if (event.key === "Enter") submit(event);
    },
  });
  const button = element("button", { type: "submit" }, "Keep it");
  const form = element("form", { onsubmit: submit }, input, element("span", {}, unit), button);
  const show = (guess) => {
    if (typeof guess === "number" && input.valueAsNumber !== guess) input.value = guess;
  };
  return { node: form, show };
}

function askChoice(model, options) {
  const { node, fill } = choices("Your prediction", (name) => keepGuess(model, name));
  const show = (guess) =>
    fill(
      options.map((option) => [option, option]),
      guess,
    );
  return { node, show };
}

function side(value, caption) {
  return element("div", {}, element("b", {}, value), element("span", {}, caption));
}

function render({ model, el }) {
  const { root, close } = openRoot(el, model.get("question") || "Prediction and result", STYLE);
  const unit = model.get("unit");
  const options = model.get("choices");
  const compares = model.get("compares");
  const said = element("p", { "aria-live": "polite" });
  const sides = element("div", { class: "sides" });
  let control = null;
  if (model.get("question")) root.append(element("p", { class: "question" }, model.get("question")));
  if (compares) {
    root.append(sides);
  } else {
    control = options.length ? askChoice(model, options) : askNumber(model, unit);
    root.append(control.node);
  }
  root.append(said);

  if (!hasPython(model) && (model.get("guess") ?? null) === null) model.set("guess", storedGuess(model.get("key")));

  const draw = () => {
    const guess = model.get("guess") ?? null;
    const answer = model.get("answer");
    const isKnown = answer.truth !== undefined;
    if (control) control.show(guess);
    if (compares) {
      const mine = guess === null ? "none yet" : guessText(guess, unit);
      sides.replaceChildren(side(mine, "your prediction"), side(answer.truth, "it is"));
      said.textContent = verdict(guess, unit, answer);
    } else if (guess === null) {
      said.textContent = "A guess is enough. You can also go on without one.";
    } else {
      const kept = `Kept: ${guessText(guess, unit)}.`;
      said.textContent = isKnown ? verdict(guess, unit, answer) : `${kept} You can still change it.`;
    }
  };
  const follow = ({ detail }) => {
    if (detail.key === model.get("key") && detail.guess !== model.get("guess")) model.set("guess", detail.guess);
  };
  window.addEventListener(CHANGED, follow);
  const stop = onChanges(model, ["guess", "answer"], draw);
  draw();
  return () => {
    stop();
    window.removeEventListener(CHANGED, follow);
    close();
  };
}

export default { render };
