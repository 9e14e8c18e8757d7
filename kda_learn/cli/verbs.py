"""What each verb of the command line has to say. The work is done in other modules, loaded when needed."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..ground.errors import BadInput, MachineUnavailable
from ..ground.say import heard_by
from ..ground.text_table import paragraph
from ..machines.device import CALLED
from ..sources.stages import as_stage

if TYPE_CHECKING:
    from ..checking.check import CheckRow


@dataclass(frozen=True)
class Answer:
    """What a verb has to say: to programs, to people, and to the shell."""

    data: dict[str, Any]
    text: str
    exit_code: int = 0


def doctor(request: argparse.Namespace) -> Answer:
    """What this computer can run."""
    from ..setup.doctor import doctor

    report = doctor()
    return Answer(report.as_dict(), str(report))


def stages(request: argparse.Namespace) -> Answer:
    """The ladder, from the compiler and the occupancy rule; needs no GPU."""
    from ..hardware.occupancy import blocks_per_sm
    from ..kernel_a.variants import compile_stage, shared_memory_of, threads_of
    from ..sources.stages import STAGES

    rows = []
    for stage in STAGES:
        compiled, smem = compile_stage(stage), shared_memory_of(stage)
        occupancy = blocks_per_sm(compiled.registers, smem, threads_of(stage))
        rows.append(
            {
                "id": stage.id,
                "slug": stage.slug,
                "title": stage.title,
                "idea": stage.idea,
                "base": stage.base,
                "registers": compiled.registers,
                "spill_bytes": compiled.spill_bytes,
                "dynamic_smem_bytes": smem,
                "blocks_per_sm": occupancy.blocks,
                "occupancy_pct": occupancy.percent,
                "limited_by": occupancy.limited_by,
            }
        )
    columns = {
        "id": "id",
        "title": "title",
        "base": "base",
        "registers": "regs",
        "spill_bytes": "spills",
        "dynamic_smem_bytes": "smem B",
        "blocks_per_sm": "blocks",
        "occupancy_pct": "occ %",
    }
    note = "At VSplit 1, fixed length, fp32 snapshots. blocks: per SM; occ: warps of the SM's 64."
    return Answer({"rows": rows}, f"{_table(rows, columns, wrap='title')}\n\n{note}")


def check(request: argparse.Namespace) -> Answer:
    """Whether stages may be trusted."""
    from ..checking.standard_set import record_check

    with heard_by(_counter()):
        checked = _checked(request)
    machine = checked[0].machine
    passed = sum(row.ok for row in checked)
    rows = [asdict(row) for row in checked]
    if request.record:
        record_check(checked, request.record)
    columns = {
        "stage": "stage",
        "problem": "problem",
        "v_split": "VSplit",
        "snapshot_dtype": "snapshots",
        "rel_rms": "error",
        "simulated_rel_rms": "by rounding",
        "max_err": "largest error",
        "verdict": "",
    }
    shown = [row | {"verdict": "passed" if row["ok"] else f"{len(row['faults'])} faults"} for row in rows]
    lines = [_table(shown, columns, wrap="problem"), ""]
    lines += [paragraph(f"{row.stage}, {row.problem}: {fault}") for row in checked for fault in row.faults]
    lines.append(f"{passed} of {len(rows)} checks passed on the {CALLED[machine]}.")
    own = [name for name in dict.fromkeys(row.stage for row in checked) if name.endswith(".cu")]
    if own and not request.like:
        lines.append(f"Of {', '.join(own)} wavefronts were not judged: --like s05 takes the budget of s05.")
    data = {"machine": machine, "ok": passed == len(rows), "rows": rows}
    return Answer(data, "\n".join(lines), exit_code=0 if passed == len(rows) else 1)


def _checked(request: argparse.Namespace) -> list[CheckRow]:
    """The rows of the checks that were asked for: of the standard set, or of random problems."""
    from ..checking.random_set import check_random
    from ..checking.standard_set import check_stages
    from ..sources.stages import STAGES

    named = list(dict.fromkeys(request.stages))
    if request.all and named:
        raise BadInput("--all and stages were given: name stages, such as s12, or give --all.")
    if request.random is not None:
        return check_random(
            request.random,
            first_seed=request.seed,
            stages=named or STAGES,
            machine=request.machine,
            like=request.like,
        )
    if request.seed is not None:
        raise BadInput("--seed was given without --random: it chooses the first of the random problems.")
    if not request.all and not named:
        raise BadInput("neither --all nor stages were given: name stages, such as s12, or give --all.")
    return check_stages(named or STAGES, machine=request.machine, like=request.like)


def trace(request: argparse.Namespace) -> Answer:
    """Each line's shared-memory traffic."""
    from ..kernel_a.tile import traced_tile
    from ..kernel_a.widths import comparison
    from ..tracing.rows import per_tile, totals
    from ..tracing.rows import rows as rows_of
    from ..tracing.widths import in_source

    stage = as_stage(request.stage)
    launch = traced_tile(stage, v_split=request.v_split)
    traced = rows_of(launch, stage.source, VSPLIT=request.v_split)
    widths = comparison(stage.path, in_source(launch), request.v_split)
    rows = [asdict(row) for row in traced]
    sums = [asdict(row) for row in totals(per_tile(traced, 1))]
    counts = {
        "instructions": "instr.",
        "wavefronts": "wavefronts",
        "least": "least",
        "excess": "excess",
    }
    by_line = {"line": "line", "section": "section", "region": "region", "op": "op", "bytes": "B"}
    by_line |= counts | {"max_way": "max way"}
    by_region = {"kind": "kind", "region": "region"} | counts
    data = {
        "stage": stage.id,
        "machine": "emulator",
        "v_split": request.v_split,
        "tiles": 1,
        "rows": rows,
        "totals": sums,
        "widths": asdict(widths),
    }
    heading = "One tile, without the sections start and finish:"
    parts = [_table(rows, by_line), heading, _table(sums, by_region), *_filled(widths.sentences())]
    return Answer(data, "\n\n".join(parts))


def diff(request: argparse.Namespace) -> Answer:
    """A stage against its base."""
    from ..sources.stages import diff, stage

    changed = stage(request.stage)
    difference = diff(changed.id)
    data = {
        "stage": changed.id,
        "base": changed.base,
        "code_lines": difference.code_lines,
        "hunks": [asdict(hunk) for hunk in difference.hunks],
        "text": difference.text,
    }
    summary = f"{difference.code_lines} changed lines of code in {len(difference.hunks)} hunks."
    return Answer(data, f"{difference.text}\n{summary}")


def ladder(request: argparse.Namespace) -> Answer:
    """What each stage gains."""
    from ..kernel_a.batch import CONFIGS
    from ..performance.explained import ladder
    from ..performance.ladder_text import as_markdown, as_text

    configs = request.config or list(CONFIGS)
    save = _chart_writer(request.chart)
    result = ladder(
        stages=request.stages,
        configs=configs,
        sms=request.sms,
        heads=request.heads,
        record=request.record,
    )
    if save is not None:
        from ..display.ladder_charts import ladder_chart

        save(ladder_chart(configs[0], result=result))
    return Answer(result.as_dict(), as_markdown(result) if request.markdown else as_text(result))


def split_v(request: argparse.Namespace) -> Answer:
    """How many blocks should share a state's columns."""
    from ..performance.split_v import split_v
    from .split_v_text import as_text

    save = _chart_writer(request.chart)
    result = split_v(sms=request.sms, record=request.record)
    if save is not None:
        from ..display.performance_charts import split_v_chart

        save(split_v_chart(result=result))
    return Answer(result, as_text(result))


def reproduce(request: argparse.Namespace) -> Answer:
    """The whole ladder on this GPU, as one page and one file."""
    from ..kernel_a.batch import CONFIGS
    from ..reports.reproduce import reproduce

    found = reproduce(
        request.out,
        stages=request.stages,
        configs=request.config or CONFIGS,
        heads=request.heads,
        sms=request.sms,
        fresh=request.fresh,
        minutes=request.minutes,
    )
    return Answer(found.as_dict(), found.as_text(request.out), exit_code=1 if found.faults else 0)


def profile(request: argparse.Namespace) -> Answer:
    """A stage's counters, or the recorded ones."""
    from ..performance.profile import save
    from ..performance.profile_measure import profile
    from .profile_text import as_text

    found = profile(request.stage, config=request.config, v_split=request.v_split, heads=request.heads)
    if request.record:
        save([found], request.record)
    return Answer(found.as_dict() | {"banner": found.banner()}, as_text(found))


def _chart_writer(path: Path | None) -> Callable[[Any], None] | None:
    """What writes a figure to a file, asked for before anything is measured; None if none is wanted.

    Raises BadInput for a file of another format, MachineUnavailable without matplotlib.
    """
    if path is None:
        return None
    try:
        from ..display.figure import check_format, save
    except ImportError as missing:
        raise MachineUnavailable(
            f"A chart cannot be drawn, the package {missing.name} is missing: `pip install matplotlib`, or "
            "leave out --chart."
        ) from None
    check_format(path)
    return partial(save, path=path)


def _table(rows: Sequence[dict[str, Any]], columns: dict[str, str], wrap: str | None = None) -> str:
    """A text table of rows; columns: key -> header, wrap: the header of the column that may be broken."""
    from ..ground.text_table import table

    return table(list(columns.values()), [[row[key] for key in columns] for row in rows], wrap=wrap)


def _filled(sentences: Sequence[str]) -> list[str]:
    """Sentences broken into lines."""
    from ..ground.text_table import WIDTH

    return [textwrap.fill(sentence, WIDTH) for sentence in sentences]


def _counter() -> Callable[[str], None]:
    """A listener that counts what it hears, in a line that goes; deaf where nobody watches the terminal."""
    done = 0

    def count(text: str) -> None:
        nonlocal done
        done += 1
        shown = f"{done} {'check' if done == 1 else 'checks'} done"
        print(f"\r{shown}\r", end="", file=sys.stderr, flush=True)

    return count if sys.stderr.isatty() else lambda text: None
