"""JavaScript modules of the explorers run by node, with no browser."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from node import node

from kda_learn.widgets.explorer import bundle

SECONDS = 60


def evaluate(modules: str, expression: str, value: Any = None) -> Any:
    """The value of a JavaScript expression.

    modules: names of scripts, with blanks between; the expression sees all they export as `module`, and
    `value` as `value`.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = modules.split()
        for name in names:
            (Path(folder) / f"{name}.mjs").write_text(bundle(name), encoding="utf-8")
        (Path(folder) / "value.json").write_text(json.dumps(value), encoding="utf-8")
        main = Path(folder) / "main.mjs"
        main.write_text(
            "import { readFileSync } from 'node:fs';\n"
            + "".join(f"import * as {name} from './{name}.mjs';\n" for name in names)
            + f"const module = {{ ...{', ...'.join(names)} }};\n"
            + "const value = JSON.parse(readFileSync(new URL('./value.json', import.meta.url)));\n"
            + f"console.log(JSON.stringify({expression}));\n",
            encoding="utf-8",
        )
        command = [node(), str(main)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
