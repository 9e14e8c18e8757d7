"""A plain page with explorers on it, as the site has them: no Python behind it."""

from __future__ import annotations

import html
import json
import shutil
from pathlib import Path
from typing import Any

from kda_learn.widgets.explorer import SCRIPTS, bundle

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>Explorers</title>
<style>
  body {{ margin: 12px; font-family: sans-serif; }}
  @media (prefers-color-scheme: dark) {{ body {{ background: #0d1117; color: #e6edf3; }} }}
</style>
</head><body><main><h1>Explorers</h1>
{explorers}
</main><script type="module">
  import {{ mountAll }} from "./{scripts}/mount.js";
  await mountAll();
  document.body.dataset.ready = "true";
</script>
</body></html>
"""


def write_page(folder: Path, name: str, explorers: list[tuple[str, dict[str, Any]]], scripts: str) -> None:
    """Writes `<name>.html` with explorers (script name, state), whose scripts lie in the folder `scripts`."""
    divs = [
        f'<div data-widget="{script}" data-state="{html.escape(json.dumps(values))}"></div>'
        for script, values in explorers
    ]
    text = PAGE.format(explorers="\n".join(divs), scripts=scripts)
    (folder / f"{name}.html").write_text(text, encoding="utf-8")


def write_scripts(folder: Path) -> None:
    """Puts the scripts in `modules` as they are, and in `bundled` each as the one text that Jupyter gets."""
    modules, bundled = folder / "modules", folder / "bundled"
    modules.mkdir()
    bundled.mkdir()
    for script in SCRIPTS.glob("*.js"):
        shutil.copy(script, modules)
    for name in ("bank_map", "tiles", "mount"):
        (bundled / f"{name}.js").write_text(bundle(name), encoding="utf-8")
