// How the bank map looks; colours come from common.js.
export const STYLE = `
  .figures { display: flex; flex-wrap: wrap; gap: 8px 22px; margin: 8px 0; align-items: flex-end; }
  .figure { display: flex; flex-direction: column; }
  .figure b { font-size: 24px; line-height: 1.1; }
  .figure span { font-size: 12px; color: var(--quiet); }
  .figure.bad b { color: var(--warn); }
  .halves { display: flex; flex-wrap: wrap; gap: 8px 10px; }
  .half { flex: 1 1 284px; display: grid; grid-template-columns: 22px repeat(16, minmax(0, 1fr));
    gap: 2px 1px; }
  .head, .side { font-size: 10px; color: var(--quiet); text-align: center; line-height: 18px; }
  .side { text-align: right; padding-right: 4px; }
  .lane, .word, .free { height: 20px; border-radius: 3px; font: 600 10.5px/20px system-ui, sans-serif;
    text-align: center; padding: 0; border: 0; min-width: 0; overflow: hidden; }
  .tall .word, .tall .free, .tall .side { height: 15px; line-height: 15px; }
  .lane { height: 24px; line-height: 24px; margin-bottom: 6px; cursor: pointer; position: relative;
    overflow: visible; }
  .lane.idle { background: var(--empty); color: var(--quiet); font-weight: 400; }
  .lane.waits::after { content: ""; position: absolute; left: 0; right: 0; bottom: -6px;
    border-bottom: 4px solid var(--warn); }
  .free { background: var(--empty); }
  .excess.free { background: repeating-linear-gradient(135deg, var(--empty) 0 4px,
    var(--warn-back) 4px 6px); }
  .side.excess { color: var(--warn); font-weight: 700; }
  .word { cursor: pointer; }
  .shared { border: 1px solid var(--edge); display: flex; flex-direction: column; }
  .shared b { background: var(--surface); color: var(--ink); flex: 1; font-weight: 700; line-height: 14px; }
  .shared::after { content: ""; flex: none; height: 5px; }
  .tall .shared b { font-size: 9px; line-height: 9px; } .tall .shared::after { height: 4px; }
  .word.mine, .lane.mine { outline: 3px solid var(--accent); outline-offset: 1px; z-index: 1; }
  .word.rival { outline: 2px dashed var(--warn); outline-offset: 1px; }
  .word.dim { opacity: .35; }
  .caption { font-size: 12px; color: var(--quiet); margin: 10px 0 3px; }
  .key { display: flex; flex-wrap: wrap; gap: 2px 16px; font-size: 12px; color: var(--quiet);
    margin-top: 8px; }
  .swatch { display: inline-block; width: 22px; height: 12px; border-radius: 3px; vertical-align: -1px;
    margin-right: 5px; }
  .swatch.waits { border-radius: 0; border-bottom: 4px solid var(--warn); height: 10px; }
  .illegal { border-left: 4px solid var(--warn); padding: 6px 10px; background: var(--warn-back); }
  .detail { min-height: 3em; margin: 2px 0; }
  details { margin-top: 8px; font-size: 13px; } summary { cursor: pointer; color: var(--quiet); }
  .scroll { overflow-x: auto; max-height: 320px; } table { border-collapse: collapse; font-size: 12.5px; }
  th, td { padding: 2px 10px 2px 0; text-align: right; } th { color: var(--quiet); font-weight: 600; }
  @container (min-width: 640px) { .half + .half { grid-template-columns: 0 repeat(16, minmax(0, 1fr)); }
    .half + .half .side { visibility: hidden; } }
  @media (prefers-reduced-motion: no-preference) { .word, .lane { transition: opacity .15s; } }
`;

// Viridis, which runs from dark to light for every kind of colour vision.
const RAMP = [
  [68, 1, 84],
  [65, 68, 135],
  [42, 120, 142],
  [34, 168, 132],
  [122, 209, 81],
  [253, 231, 37],
];

// A lane's colour by its place among the lanes of the phase, and an ink that can be read on it.
export function laneColour(lanes, lane) {
  const place = lanes.length > 1 ? lanes.indexOf(lane) / (lanes.length - 1) : 0;
  const at = Math.max(0, place) * (RAMP.length - 1);
  const below = Math.min(Math.floor(at), RAMP.length - 2);
  const channels = RAMP[below].map((low, i) => Math.round(low + (RAMP[below + 1][i] - low) * (at - below)));
  const [red, green, blue] = channels.map((value) => (value / 255) ** 2.2);
  const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return { back: `rgb(${channels})`, ink: luminance > 0.18 ? "#000" : "#fff" };
}
