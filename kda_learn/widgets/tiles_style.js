// How the register tiling looks. The eight colours of cells are Okabe and Ito's: colour-blind readers can
// tell them apart.
export const STYLE = `
  .panels { display: flex; flex-wrap: wrap; gap: 16px 22px; align-items: flex-start; }
  .panel { margin: 0; min-width: 0; max-width: 100%; }
  figcaption { font-size: 12px; font-weight: 600; color: var(--quiet); margin-bottom: 4px; }
  .grid { display: grid; gap: 1px; grid-template-columns: auto repeat(var(--columns), minmax(0, 1fr));
    width: calc(var(--columns) * var(--cell) + 34px); max-width: 100%; }
  .low .cell { height: 13px; } .low .axis { line-height: 13px; }
  .axis { font-size: 10px; color: var(--quiet); text-align: center; align-self: center; padding: 0 3px;
    white-space: nowrap; }
  .cell { min-width: 0; height: 22px; padding: 0; border: 0; border-radius: 2px; cursor: pointer;
    position: relative;
    font: 600 10.5px/1 system-ui, sans-serif; overflow: hidden; }
  .c0 { background: #0072b2; color: #fff; } .c1 { background: #e69f00; color: #111; }
  .c2 { background: #009e73; color: #111; } .c3 { background: #cc79a7; color: #111; }
  .c4 { background: #56b4e9; color: #111; } .c5 { background: #d55e00; color: #000; }
  .c6 { background: #f0e442; color: #111; } .c7 { background: #8a8f98; color: #111; }
  .none { background: var(--empty); color: var(--quiet); font-weight: 400; cursor: default; display: grid;
    place-items: center; }
  .after-column { margin-left: 4px; } .after-cut { margin-left: 9px; } .after-row { margin-top: 4px; }
  .cell.kin { box-shadow: inset 0 0 0 2px var(--ink); }
  .cell.here { outline: 3px solid var(--accent); outline-offset: 1px; z-index: 2;
    box-shadow: inset 0 0 0 2px var(--surface); }
  .lanes { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: 4px; width: 316px;
    max-width: 100%; }
  .lane { border: 1px solid var(--line); border-radius: 4px; padding: 1px 3px 3px; text-align: center; }
  .lane.kin { border-color: var(--accent); box-shadow: 0 0 0 2px var(--accent); }
  .registers { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 3px; }
  .register { display: grid; grid-auto-columns: minmax(0, 1fr); grid-auto-flow: column; gap: 1px; }
  .register .cell { height: 14px; }
  .key { display: flex; gap: 14px; font-size: 12px; color: var(--quiet); margin-top: 6px; }
  .swatch { display: inline-block; width: 14px; height: 12px; border-radius: 2px; margin-right: 5px;
    vertical-align: -1px; }
  .words { min-height: 3em; font-weight: 500; }
  @container (max-width: 420px) { .cell { font-size: 9px; } }
  @media (prefers-reduced-motion: no-preference) { .cell { transition: box-shadow .12s; } }
`;
