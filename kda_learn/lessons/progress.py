"""What a reader has done: predictions and exercises, kept in one JSON file, and the word `progress`.

The file lies in the user's data folder, or where the environment variable KDA_LEARN_PROGRESS says. Deleting
it begins anew. Keys start with the chapter's number or stage: "s02.blocks" belongs to chapter s02.
"""

import json
import os
import re
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..display.parts import Cell, Part, Sentence, Shown, Table, Value
from ..ground.errors import BadInput
from ..ground.files import NOTEBOOKS, home_folder, write_atomically
from ..records.store import now

VARIABLE = "KDA_LEARN_PROGRESS"
KEY = re.compile(r"[\w.-]{1,80}")
Guess = str | int | float
Status = Literal["attempted", "passed"]


def path() -> Path:
    """The progress file; it may not exist yet."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else _data_folder() / "kda-learn" / "progress.json"


def load() -> dict[str, dict[str, Any]]:
    """{"predictions": {key: {guess, date}}, "exercises": {key: {status, date}}}.

    A file that is missing counts as empty. Raises BadInput for one that is damaged: it is not overwritten.
    """
    empty: dict[str, dict[str, Any]] = {"predictions": {}, "exercises": {}}
    try:
        text = path().read_text(encoding="utf-8")
    except FileNotFoundError:
        return empty
    except OSError as error:
        raise BadInput(
            f"The progress file {path()} cannot be read ({error.strerror}): set {VARIABLE}."
        ) from None
    try:
        values = json.loads(text)
        return {name: dict(values.get(name, {})) for name in empty}
    except (ValueError, AttributeError, TypeError):
        raise BadInput(
            f"The progress file {path()} is damaged: mend it or delete it, which begins anew."
        ) from None


def guess_of(key: str) -> Guess | None:
    """What the reader guessed; None if nothing yet."""
    return load()["predictions"].get(key, {}).get("guess")


def keep_guess(key: str, guess: Guess | None) -> None:
    """Keep a guess, or forget it (None). Raises BadInput for a key that is none."""
    _keep("predictions", key, None if guess is None else {"guess": guess})


def status_of(exercise: str) -> Status | None:
    """How far an exercise is; None if it was not attempted."""
    return load()["exercises"].get(exercise, {}).get("status")


def keep_status(exercise: str, status: Status) -> None:
    """Keep how far an exercise is; one that has passed stays so. Raises BadInput for a key that is none."""
    if status_of(exercise) != "passed":
        _keep("exercises", exercise, {"status": status})


def forget() -> None:
    """Begin anew: delete the progress file."""
    path().unlink(missing_ok=True)


@dataclass(frozen=True)
class Chapter:
    """One notebook and what is kept of it."""

    name: str  # its file without the ending, "s02_no_t1"
    part: str  # its folder, "2-kernel-a"
    title: str
    predictions: tuple[int, int]  # made, and how many there are
    exercises: tuple[int, int]  # passed, and how many there are

    @property
    def touched(self) -> bool:
        """Whether anything is kept of it."""
        return self.predictions[0] + self.exercises[0] > 0

    @property
    def done(self) -> bool:
        """Whether it has predictions or exercises, and all of them are made and passed."""
        total = self.predictions[1] + self.exercises[1]
        return total > 0 and self.predictions[0] + self.exercises[0] == total


@dataclass(frozen=True, repr=False)
class Progress(Shown):
    """All chapters, in the order of the course."""

    chapters: list[Chapter]
    file: Path

    @property
    def next(self) -> Chapter | None:
        """The first chapter with something left to do; None if there is none."""
        return next((one for one in self.chapters if not one.done and _things(one)), None)

    def parts(self) -> list[Part]:
        rows: list[list[Value]] = [
            [
                one.title,
                Cell(_of(*one.predictions), right=True),
                Cell(_of(*one.exercises), right=True),
                _mark(one),
            ]
            for one in self.chapters
        ]
        parts: list[Part] = [Table(["chapter", "predictions made", "exercises passed", ""], rows)]
        if self.next is not None:
            parts.append(Sentence(f"Next: {self.next.title} ({self.next.part}/{self.next.name}.ipynb)."))
        return [*parts, Sentence(f"Kept in {self.file}.", quiet=True)]


def progress() -> Progress:
    """What you have done, chapter by chapter. Raises BadInput if the progress file is damaged."""
    kept = load()
    chapters = [_chapter(one, kept) for one in notebooks()]
    return Progress(chapters, path())


def notebooks() -> list[Path]:
    """The course's notebooks, in order: those of the checkout, or those that came with the package."""
    found = (path for path in NOTEBOOKS.glob("[0-9]*/*.ipynb") if not path.name.startswith("."))
    return sorted(found)


def _chapter(notebook: Path, kept: dict[str, dict[str, Any]]) -> Chapter:
    """A notebook's predictions and exercises, read from its cells, and how many of them are kept."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    code = [text for cell, text in zip(cells, texts, strict=True) if cell["cell_type"] == "code"]
    heading = next((text for text in texts if text.startswith("# ")), notebook.stem)
    guesses = {key for text in code for key in re.findall(r"\bpredict\(\s*[\"']([^\"']+)[\"']", text)}
    tasks = {key for text in code for key in _exercises(text)}
    guessed = guesses & kept["predictions"].keys()
    passed = {key for key in tasks if kept["exercises"].get(key, {}).get("status") == "passed"}
    return Chapter(
        name=notebook.stem,
        part=notebook.parent.name,
        title=heading.splitlines()[0].removeprefix("# ").strip(),
        predictions=(len(guessed), len(guesses)),
        exercises=(len(passed), len(tasks)),
    )


def _exercises(code: str) -> list[str]:
    """The key of a cell's exercise: "s03b.store" of `%%kernel s03b region=store`."""
    match = re.match(r"%%kernel\s+(\w+)\s+region=(\w+)", code)
    return [] if match is None else [f"{match[1]}.{match[2]}"]


def checked(key: str) -> str:
    """The key, if something can be kept under it; else BadInput."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise BadInput(
            f"The key {key!r} was given: give a short one of letters, digits, dots and hyphens, such as "
            "'s02.blocks'."
        )
    return key


def _keep(kind: str, key: str, entry: dict[str, Any] | None) -> None:
    checked(key)
    kept = load()
    if entry is None:
        kept[kind].pop(key, None)
    else:
        kept[kind][key] = entry | {"date": now()}
    try:
        write_atomically(path(), (json.dumps(kept, indent=1) + "\n").encode())
    except OSError as error:
        raise BadInput(
            f"The progress file {path()} cannot be written ({error.strerror}): set {VARIABLE} to another."
        ) from None


def _data_folder() -> Path:
    """The system's folder for what a program keeps; a few lines, so that the package needs only NumPy."""
    home = partial(home_folder, f"{VARIABLE} to a file that can be written")
    if sys.platform == "darwin":
        return home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home() / "AppData" / "Local")
    return Path(os.environ.get("XDG_DATA_HOME") or home() / ".local" / "share")


def _things(chapter: Chapter) -> int:
    return chapter.predictions[1] + chapter.exercises[1]


def _of(done: int, total: int) -> str:
    return f"{done} of {total}" if total else ""


def _mark(chapter: Chapter) -> Value:
    if chapter.done:
        return Cell("done", "good")
    return "begun" if chapter.touched else ""
