// Explorers on a page with no Python: every <div data-widget="bank_map" data-state="{...}"> comes alive.

// As much of a widget's model as an explorer uses, holding its state here in the page.
export function makeModel(state) {
  const values = { ...state };
  const listeners = new Map();
  return {
    get: (key) => values[key],
    set(key, value) {
      values[key] = value;
      for (const listener of listeners.get(`change:${key}`) ?? []) listener();
    },
    on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
    off: (event, listener) =>
      listeners.set(
        event,
        (listeners.get(event) ?? []).filter((other) => other !== listener),
      ),
    save_changes() {},
  };
}

// Fills the page's explorers. The modules are found beside this one.
export async function mountAll(root = document) {
  for (const el of root.querySelectorAll("[data-widget]:not([data-mounted])")) {
    el.dataset.mounted = "true";
    const { default: widget } = await import(`./${el.dataset.widget}.js`);
    el.replaceChildren();
    widget.render({ model: makeModel(JSON.parse(el.dataset.state)), el });
  }
}
