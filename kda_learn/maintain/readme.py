"""The ladder's figures in README.md, written from the newest record."""

import re
from pathlib import Path

from ..ground.files import PACKAGE
from ..performance.ladder import KIND
from ..performance.ladder_text import readme_table
from ..records import store as records

README = PACKAGE.parent / "README.md"
BEGIN = "<!-- ladder: written by `python -m kda_learn.maintain readme` -->"
END = "<!-- end of ladder -->"


def with_table(readme: str, table: str) -> str:
    """The README's text with the table between its two marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table}\n{END}", readme)


def record_shown() -> records.Record | None:
    """The ladder that the README and the site show: of those on the most SMs the newest."""
    return max(records.all_of(KIND), key=lambda one: (one.provenance.sms, one.provenance.date), default=None)


def expected_readme(readme: str) -> str:
    """The README as it should be."""
    return with_table(readme, readme_table(record_shown()))


def write(folder: Path) -> list[Path]:
    """Write README.md anew. folder: of records; not used, README.md lies beside the package."""
    README.write_text(expected_readme(README.read_text(encoding="utf-8")), encoding="utf-8")
    return [README]
