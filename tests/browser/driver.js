// Drives one browser for harness.py: reads a command a line from standard input, answers each with a line.
// Arguments: "chromium" or "firefox", and where that program lies.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const [, , NAME, PROGRAM] = process.argv;
const LOADING_MILLISECONDS = 60_000;
const FLAGS = {
  chromium: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--hide-scrollbars"],
  firefox: [],
};
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");

let browser;
let page;
let preferred; // what the browser was told that the system prefers
let said = { console: [], requests: [] };

async function start(preferences) {
  await browser?.close();
  browser = await puppeteer.launch({
    browser: NAME === "firefox" ? "firefox" : "chrome",
    executablePath: PROGRAM,
    headless: true,
    args: FLAGS[NAME],
    extraPrefsFirefox: preferences,
  });
  page = await browser.newPage();
  page.setDefaultTimeout(LOADING_MILLISECONDS);
  page.on("console", (message) => {
    if (/^(error|warn)/.test(message.type())) said.console.push(message.text());
  });
  page.on("pageerror", (error) => said.console.push(String(error)));
  page.on("request", (request) => said.requests.push(request.url()));
  // Only Chromium writes a missing file to the console by itself.
  page.on("response", (response) => {
    if (response.status() >= 400) said.console.push(`${response.status()} ${response.url()}`);
  });
  // A request that the page itself gave up, by going elsewhere, is nobody's mistake.
  page.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "";
    if (!/ABORTED/i.test(reason)) said.console.push(`${reason} ${request.url()}`);
  });
}

// Tells the browser what the system prefers. Firefox learns that only when it starts.
async function prefer(dark, reducedMotion) {
  const wanted = JSON.stringify([dark, reducedMotion]);
  if (wanted === preferred) return;
  if (NAME === "firefox") {
    await start({
      "layout.css.prefers-color-scheme.content-override": dark ? 0 : 1,
      "ui.prefersReducedMotion": reducedMotion ? 1 : 0,
    });
  } else {
    if (!browser) await start({});
    await page.emulateMediaFeatures([
      { name: "prefers-color-scheme", value: dark ? "dark" : "light" },
      { name: "prefers-reduced-motion", value: reducedMotion ? "reduce" : "no-preference" },
    ]);
  }
  preferred = wanted;
}

// The element that a script gives.
async function elementOf(script) {
  const element = (await page.evaluateHandle(script)).asElement();
  if (!element) throw new Error(`no element: ${script}`);
  return element;
}

const COMMANDS = {
  async open({ url, width, height, dark, reducedMotion }) {
    await prefer(dark, reducedMotion);
    await page.setViewport({ width, height });
    said = { console: [], requests: [] };
    await page.goto(url, { waitUntil: "load" });
    await page.bringToFront(); // or Firefox moves the focus without telling the page
  },
  resize: ({ width, height }) => page.setViewport({ width, height }),
  evaluate: ({ script }) => page.evaluate(script),
  click: async ({ script }) => (await elementOf(script)).click(),
  hover: async ({ script }) => (await elementOf(script)).hover(),
  select: async ({ script, value }) => (await elementOf(script)).select(value),
  type: ({ text }) => page.keyboard.type(text),
  async press({ keys }) {
    // "Control+a" holds the first key while the second is pressed.
    const [last, ...held] = keys.split("+").reverse();
    for (const key of held) await page.keyboard.down(key);
    await page.keyboard.press(last);
    for (const key of held) await page.keyboard.up(key);
  },
  screenshot: ({ path }) => page.screenshot({ path, fullPage: true }).then(() => null),
  takeSaid() {
    const taken = said;
    said = { console: [], requests: [] };
    return taken;
  },
  async axe() {
    await page.evaluate(AXE);
    const violations = await page.evaluate(async () => {
      const found = await globalThis.axe.run(document, { resultTypes: ["violations"] });
      return found.violations.map(({ id, help, nodes }) => ({
        rule: id,
        help,
        places: nodes.map(({ target }) => target.flat().join(" ")),
      }));
    });
    return violations;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...given } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await COMMANDS[command](given)) ?? null };
  } catch (error) {
    answer = { error: String(error?.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser?.close();
