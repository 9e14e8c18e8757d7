"""The ladder's figures in README.md, written from the record: `python -m kda_learn.readme_table`."""

from __future__ import annotations

import re
from pathlib import Path

from . import records
from .records import Record
from .stages import LADDER, STAGES

README = Path(__file__).resolve().parent.parent / "README.md"
BEGIN = "<!-- ladder: written by `python -m kda_learn.readme_table` -->"
END = "<!-- end of ladder -->"
CONFIG = "B32/T8192"
H200_SMS = 132


def ladder_table(record: Record | None) -> str:
    """The record's times at B32/T8192 as a Markdown table; without a record, a list of the stages."""
    titles = {stage.id: stage.title for stage in STAGES}
    if record is None:
        return "\n".join(
            [
                "| stage | what it is |",
                "|---|---|",
                *(f"| {name} | {title} |" for name, title in titles.items()),
            ]
        )
    where = record.provenance
    lines = [
        f"One launch at {CONFIG} with {record.content['heads']} heads, recorded on {where.date[:10]} on an "
        f"{where.gpu} with {where.sms} SMs (driver {where.driver}, CUDA {where.cuda}); changes are against "
        "the base. `kda-learn ladder` says which sources have changed since.",
        "",
        "| stage | what it is | base | ms | change | article, H20 | verdict |",
        "|---|---|---|---|---|---|---|",
    ]
    order = [stage.id for stage in LADDER]
    rows = [row for row in record.content["rows"] if row["config"] == CONFIG and row["median_us"] is not None]
    for row in sorted(rows, key=lambda row: order.index(row["stage"])):
        cells = [
            row["stage"],
            titles.get(row["stage"], ""),
            row["base"] or "",
            f"{row['median_us'] / 1000:.1f}",
            _percent(row["delta_pct"]),
            _percent(row["article_delta_pct"]),
            row["verdict"] or "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(readme: str, table: str) -> str:
    """The README's text with the table between its two marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    return pattern.sub(lambda _: f"{BEGIN}\n{table}\n{END}", readme)


def expected_readme(readme: str) -> str:
    """The README as it should be: with the newest ladder of a whole H200, or else the newest there is."""
    return with_table(readme, ladder_table(records.find("ladder", sms=H200_SMS) or records.find("ladder")))


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.1f} %"


def main() -> None:
    README.write_text(expected_readme(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
