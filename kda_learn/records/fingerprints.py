"""Whether a stage is still the kernel that was measured, though the text of its files may have changed.

What was measured is machine code, and that follows from the PTX, which has no comments and no functions that
nobody calls. data/fingerprints.json names for each stage the fingerprint of its PTX, made by one named
compiler, and every text that gave this PTX; `python -m kda_learn.maintain fingerprints` keeps it. So a record
names the text that it measured, and stays valid while the present text gives the same PTX.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..compilers.nvrtc import compile
from ..ground.errors import KdaError
from ..ground.files import DATA
from ..sources.includes import digest
from ..sources.stages import STAGES

FILE = DATA / "fingerprints.json"

_ONLY_TEXT = re.compile(r"^\s*(?://.*|\.loc\b.*|\.file\b.*|\$L__(?:tmp|func_)\w*:)?$")
_DEBUG_SECTION = re.compile(r"^\s*\.section\s+\.debug_\w+\s*\{.*?^\s*\}", re.MULTILINE | re.DOTALL)
_CONSTANT = re.compile(r"^\.global .*?(?P<name>[\w$]+)(?:\[\d+\])? = .*;$")


@cache
def table() -> dict[str, Any]:
    """The file: {nvrtc, entries, stages: {id: {ptx, texts}}}; entries: the variants whose PTX counts."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def is_same(stage: str, recorded: str) -> bool:
    """Whether a stage's kernel is the one of a recorded text (its `digest`); False if the stage is gone.

    Where the text is one that the file does not know, this computer's compiler decides, if it is the file's.
    """
    path = next((rung.path for rung in STAGES if rung.id == stage), None)
    if path is None:
        return False
    present, known = digest(path), table()["stages"].get(stage, {"ptx": "", "texts": []})
    if present == recorded:
        return True
    if recorded not in known["texts"]:
        return False
    if present in known["texts"]:
        return True
    try:
        nvrtc, ptx = ptx_digest(path, table()["entries"])
    except KdaError:  # no compiler here, or it refuses what the reader wrote
        return False
    return (nvrtc, ptx) == (table()["nvrtc"], known["ptx"])


def ptx_digest(path: Path, entries: Sequence[str]) -> tuple[str, str]:
    """The compiler's version, and a fingerprint of the PTX of a kernel's variants. Errors: as `compile`."""
    result = hashlib.sha256()
    for entry in entries:
        compiled = compile(path, entry=entry)
        result.update(bare(compiled.ptx).encode())
    return compiled.nvrtc, result.hexdigest()


def bare(ptx: str) -> str:
    """PTX without source lines, comments and constants that nothing names: they make no machine code."""
    text = _DEBUG_SECTION.sub("", ptx)
    lines = [line for line in text.splitlines() if not _ONLY_TEXT.match(line)]
    names = re.findall(r"[\w$]+", "\n".join(line for line in lines if not _CONSTANT.match(line)))
    used = set(names)
    return "\n".join(
        line for line in lines if (found := _CONSTANT.match(line)) is None or found["name"] in used
    )


def brought_up_to_date(known: dict[str, Any], entries: Sequence[str]) -> dict[str, Any]:
    """The table for the present sources and compiler; texts whose PTX is still the same stay in it."""
    stages = {}
    for stage in STAGES:
        text = digest(stage.path)
        nvrtc, ptx = ptx_digest(stage.path, entries)
        old = known["stages"].get(stage.id, {"ptx": "", "texts": []})
        same = (old["ptx"] == ptx and known["nvrtc"] == nvrtc) or text in old["texts"]
        texts = [*old["texts"], text] if same else [text]
        stages[stage.id] = {"ptx": ptx, "texts": list(dict.fromkeys(texts))}
    return {"nvrtc": nvrtc, "entries": list(entries), "stages": stages}
