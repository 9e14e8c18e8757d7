"""The word `trace`: what a stage does to shared memory in one tile, in wavefronts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..display.banners import machine_banner
from ..display.parts import Bar, Part, Sentence, Shown, Table, Value, whole
from ..ground.errors import BadInput
from ..hardware.banks import cost
from ..kernel_a.tile import traced_tile
from ..kernel_a.widths import comparison
from ..sources.includes import digest
from ..sources.kernel_source import KernelSource
from ..sources.stages import as_stage
from ..tracing.patterns import recorded
from ..tracing.rows import OUTSIDE_THE_TILE_LOOP, Row, kind_of, per_tile, rows
from ..tracing.widths import Comparison, Widths, in_source

if TYPE_CHECKING:
    from ..sources.stages import Stage


FIELDS = ("kind", "region", "section")
KINDS = {"load": "loads", "store": "stores", "copy": "copies"}
NOTE = (
    "One tile of 16 tokens, one head, all warps together. In capitals: the parts of the stage's shared "
    "memory. least: wavefronts that the same accesses need when no bank is asked twice; excess: those above, "
    "hatched in the bar. copy: an asynchronous copy from global memory (cp.async)."
)


@dataclass(frozen=True)
class Traffic:
    """Shared-memory accesses of one tile added up."""

    instructions: float
    wavefronts: float
    least: float

    @property
    def excess(self) -> float:
        """Wavefronts above the least."""
        return self.wavefronts - self.least


@dataclass(frozen=True, repr=False)
class Trace(Shown):
    """What a stage does to shared memory.

    Its items are the `kda_learn.tracing.rows.Row`s by line, those before and after the loop over tiles
    included (sections "start" and "finish"). Every figure that is shown or asked for is of one tile of the
    loop.

    All its methods choose accesses in one way, as in `wavefronts("store kr")`. words: any of a kind ("load",
    "store", "copy"), a region such as "kr", and a section such as "r1"; where: the same by name, kind=,
    region=, section= (for a name with blanks: section="g1 g2"). They raise BadInput for a word that nothing
    in the trace has.
    """

    stage: str
    v_split: int
    rows: list[Row]
    patterns: list[dict[str, Any]]  # as `tracing.patterns.recorded` gives them
    source: KernelSource
    widths: Widths  # of its accesses, as the source has them
    base: Trace | None = None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Row:
        return self.rows[index]

    def chosen(self, words: str = "", **where: str) -> list[Row]:
        """The rows of one tile that fit."""
        terms = self._terms(words, where)
        return [row for row in per_tile(self.rows, 1) if _fits(vars(row), terms)]

    def traffic(self, words: str = "", **where: str) -> Traffic:
        """Instructions, wavefronts, least and excess of the accesses that fit."""
        return _added(self.chosen(words, **where))

    def wavefronts(self, words: str = "", **where: str) -> int:
        """The wavefronts of a tile."""
        return int(self.traffic(words, **where).wavefronts)

    def excess(self, words: str = "", **where: str) -> int:
        """The wavefronts of a tile that bank conflicts cost."""
        return int(self.traffic(words, **where).excess)

    def accesses(self, words: str = "", *, line: int | None = None, **where: str) -> list[dict[str, Any]]:
        """The address patterns that fit, for `bank_map`; line: only this source line's.

        Those before and after the loop over tiles only if their section or line is named.
        """
        terms = self._terms(words, where)
        named = {value for _, value in terms}
        outside = [] if line is not None else [one for one in OUTSIDE_THE_TILE_LOOP if one not in named]
        return [
            pattern
            for pattern in self.patterns
            if _fits(pattern | {"kind": kind_of(pattern["op"])}, terms)
            and pattern["section"] not in outside
            and line in (None, pattern["line"])
        ]

    def access(self, words: str = "", *, line: int | None = None, **where: str) -> dict[str, Any]:
        """The warp instruction with the most wavefronts in excess, of those that fit.

        {op, bytes, addresses (in bytes, one for each lane; -1: it takes no part), line, text, section,
        region, count}. Raises BadInput if none fits.
        """
        found = self.accesses(words, line=line, **where)
        if not found:
            raise BadInput(
                f"Stage {self.stage} has no access that is all of this at once: give fewer words, "
                f"`trace({self.stage!r})` shows what there is."
            )
        return max(found, key=_excess_of)

    def by_line(self, words: str = "", *, top: int | None = None, **where: str) -> Lines:
        """A table by source line, most excess first; top: only so many lines."""
        in_order = sorted(self.chosen(words, **where), key=lambda row: (-row.excess, -row.wavefronts))
        return Lines(self.stage, in_order[:top], self.source)

    @cached_property
    def in_machine_code(self) -> Comparison:
        """Whether NVIDIA's compiler leaves the accesses as wide as they are in the source."""
        return comparison(self.source.path, self.widths, self.v_split)

    def parts(self) -> list[Part]:
        return [
            machine_banner("emulator", "It keeps the 32 addresses of every access to shared memory."),
            self._table(),
            Sentence(NOTE, quiet=True),
            *map(Sentence, self.in_machine_code.sentences()),
        ]

    def _table(self) -> Table:
        """Kinds and regions, the most wavefronts first, then sums; beside the base's if there is one."""
        traces = [one for one in (self.base, self) if one is not None]
        found = [_by_class(one.chosen()) for one in traces]
        names = list(dict.fromkeys(name for classes in found for name in classes))
        if self.base is not None:
            names = [name for name in names if any(_of(classes, name).wavefronts for classes in found)]
        names.sort(key=lambda name: -max(_of(classes, name).wavefronts for classes in found))
        widest = max((_of(classes, name).wavefronts for classes in found for name in names), default=1)
        kinds = [kind for kind in KINDS if sum(name[0] == kind for name in names) > 1]

        def cells(shown: list[Traffic]) -> list[Value]:
            now = shown[-1]
            bar = Bar(now.least / widest, now.excess / widest) if now.wavefronts <= widest else None
            if len(shown) == 1:
                return [*map(whole, (now.instructions, now.wavefronts, now.least, now.excess)), bar]
            return [*(whole(value) for one in shown for value in (one.wavefronts, one.excess)), bar]

        rows: list[list[Value]] = [
            [" ".join(filter(None, name)), *cells([_of(classes, name) for classes in found])]
            for name in names
        ]
        sums = [(f"all {KINDS[kind]}", kind) for kind in kinds] + [("all", "")]
        for label, kind in sums:
            total = [
                _added(row for name, row in classes.items() if kind in ("", name[0])) for classes in found
            ]
            rows.append([label, *cells(total)[:-1], None])
        headers = ["", "instructions", "wavefronts", "least", "excess"]
        if self.base is not None:
            headers = ["wavefronts", *(name for one in traces for name in (one.stage, "excess"))]
        return Table([*headers, ""], rows, totals=len(sums))

    def _terms(self, words: str, where: dict[str, str]) -> list[tuple[str, str]]:
        """(field or "", value) for each word; BadInput for one that nothing has."""
        for field in where:
            if field not in FIELDS:
                raise BadInput(f"{field}= was given: choose accesses by kind=, region= or section=")
        # "load" is a kind of access first, though a part of the kernel bears that name as well.
        terms = [("kind" if word in KINDS else "", word) for word in words.casefold().split()]
        terms += [(field, value.casefold()) for field, value in where.items()]
        for field, value in terms:
            known = {name for row in self.rows for name in _names(vars(row), field)}
            if value not in known:
                choice = ", ".join(sorted(name for name in known if name))
                raise BadInput(f"{value!r} was given, which no access of {self.stage} has: give {choice}")
        return terms


@dataclass(frozen=True, repr=False)
class Lines(Shown):
    """Some lines of a stage and what they cost; `rows` are `kda_learn.tracing.rows.Row`s of one tile."""

    stage: str
    rows: list[Row]
    source: KernelSource

    def parts(self) -> list[Part]:
        widest = max((row.wavefronts for row in self.rows), default=1)
        shown: list[list[Value]] = [
            [
                row.line,
                row.section,
                row.region,
                row.op,
                row.bytes,
                *map(whole, (row.instructions, row.wavefronts, row.least, row.excess)),
                Bar(row.least / widest, row.excess / widest),
            ]
            for row in self.rows
        ]
        headers = ["line", "section", "region", "operation", "bytes"]
        headers += ["instructions", "wavefronts", "least", "excess", ""]
        return [
            Table(headers, shown, caption=f"{self.source.path.name}, by line"),
            Sentence("bytes: of one lane, or of one row of a matrix.", quiet=True),
        ]


def trace(stage: Stage | str | Path, against: Stage | str | Path | None = None, *, v_split: int = 1) -> Trace:
    """Run a stage on the CPU machine for one tile, and count what it does to shared memory in wavefronts.

    against: another stage to set beside it. v_split: 1, 2, 4 or 8; counts are of all blocks together. Errors:
    as `kernel_a.run.run`.
    """

    def traced(one: Stage | str | Path) -> Trace:
        kernel = as_stage(one)
        return _traced(kernel, digest(kernel.path), v_split)

    return traced(stage) if against is None else replace(traced(stage), base=traced(against))


@lru_cache(maxsize=32)
def _traced(kernel: Stage, digest: str, v_split: int) -> Trace:
    """Kept, since several words ask for the same trace; `digest` changes when the source does."""
    launch = traced_tile(kernel, v_split=v_split)
    source = kernel.source
    return Trace(
        stage=kernel.id,
        v_split=v_split,
        rows=rows(launch, source, VSPLIT=v_split),
        patterns=recorded(launch, source, VSPLIT=v_split),
        source=source,
        widths=in_source(launch),
    )


def _names(named: dict[str, Any], field: str) -> list[str]:
    """What an access is called in one field, or in all of them."""
    return [str(named[name]).casefold() for name in ([field] if field else FIELDS)]


def _fits(named: dict[str, Any], terms: list[tuple[str, str]]) -> bool:
    return all(value in _names(named, field) for field, value in terms)


def _added(rows: Iterable[Row | Traffic]) -> Traffic:
    total = Traffic(0, 0, 0)
    for row in rows:
        total = Traffic(
            total.instructions + row.instructions,
            total.wavefronts + row.wavefronts,
            total.least + row.least,
        )
    return total


def _by_class(rows: Iterable[Row]) -> dict[tuple[str, str], Traffic]:
    """The rows added up by kind and region."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.kind, row.region), []).append(row)
    return {name: _added(some) for name, some in found.items()}


def _of(classes: dict[tuple[str, str], Traffic], name: tuple[str, str]) -> Traffic:
    return classes.get(name, Traffic(0, 0, 0))


def _excess_of(pattern: dict[str, Any]) -> int:
    """Wavefronts in excess of one access pattern."""
    mask = sum(1 << lane for lane, address in enumerate(pattern["addresses"]) if address >= 0)
    taken = cost(pattern["op"], [pattern["addresses"]], [mask], pattern["bytes"])
    return int(taken.wavefronts[0] - taken.least[0])
