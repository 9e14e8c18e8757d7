"""A profile as plain text, for terminals."""

from collections.abc import Mapping

from ..ground.text_table import table
from ..performance.profile import Profile
from ..profiling.counters import COUNTERS

MOST_LINES = 20
MOST_REASONS = 3


def as_text(profile: Profile) -> str:
    """The whole profile: counters, stalls, wavefronts measured and simulated, lines."""
    title = (
        f"{profile.stage}, VSplit {profile.v_split}, {profile.config} with {profile.heads} heads: "
        f"{profile.blocks_per_sm} blocks per SM, {profile.dynamic_smem_bytes} B of shared memory each"
    )
    parts = [
        profile.banner(),
        title,
        counter_table(profile),
        "Warps waiting per instruction issued: " + _reasons(profile.stalls, len(profile.stalls), ".2f"),
        "Wavefronts of shared memory per tile. LDS (load), LDSM (ldmatrix), STS (store), STSM (stmatrix),\n"
        "LDGSTS (cp.async): added up over their instructions, as ncu counts them in code that it patches.\n"
        "Loads, stores, copies: the hardware's own counters, to which a .cg copy is nothing.",
        comparison_table(profile),
        "Lines that move shared memory, per tile (start and finish: per sequence and head).",
        shared_table(profile),
        "Where the sampler found most warps, and what they waited for.",
        line_table(profile),
    ]
    return "\n\n".join(part for part in parts if part)


def counter_table(profile: Profile) -> str:
    """The counters of the whole kernel."""
    rows = [
        (counter.name, _figure(profile.counters[counter.name]), counter.unit, counter.meaning)
        for counter in COUNTERS
        if counter.name in profile.counters
    ]
    return table(("counter", "value", "unit", "what it counts"), rows)


def comparison_table(profile: Profile) -> str:
    """Wavefronts measured and simulated."""
    rows = [
        (
            row.name,
            _figure(row.instructions),
            _figure(row.measured),
            _figure(row.simulated),
            _percent(row.difference_pct),
        )
        for row in profile.comparisons
    ]
    return table(("wavefronts of", "instr.", "measured", "simulated", "difference"), rows)


def shared_table(profile: Profile) -> str:
    """Lines that move shared memory."""
    rows = [
        (
            row.line,
            row.section,
            ", ".join(row.regions),
            row.op,
            _figure(row.instructions),
            _figure(row.wavefronts),
            _figure(row.simulated),
            _figure(row.excess),
            row.samples,
        )
        for row in profile.shared
    ]
    headers = ("line", "section", "region", "op", "instr.", "measured", "simulated", "excess", "samples")
    return table(headers, rows)


def line_table(profile: Profile) -> str:
    """The lines with the most samples."""
    most = sorted(profile.lines, key=lambda row: -row.samples)[:MOST_LINES]
    rows = [
        (row.line, row.section, row.samples, f"{row.share_pct:.1f} %", _reasons(row.stalls, MOST_REASONS))
        for row in most
        if row.samples
    ]
    return table(("line", "section", "samples", "share", "waiting for"), rows)


def _figure(value: float | None) -> float | None:
    """Large numbers without a fraction: the table shows others with three digits."""
    return round(value) if value is not None and abs(value) >= 100 else value


def _reasons(stalls: Mapping[str, float], most: int, form: str = "") -> str:
    """The largest few, largest first."""
    return ", ".join(f"{name} {count:{form}}" for name, count in list(stalls.items())[:most])


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:+.2f} %"
