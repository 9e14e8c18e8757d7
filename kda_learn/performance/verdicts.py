"""Whether a change measured here is the article's: four verdicts."""

from ..timing.statistics import Estimate

REPRODUCED = "reproduced"
OTHER_SIZE = "same sign, other size"
WITHIN_NOISE = "within noise"
OPPOSITE = "opposite"

SMALL_PCT = 1.5
"""Two changes below this are both counted as none."""

WITHIN_FACTOR = 2.0
"""A change counts as the article's if neither is more than this many times the other."""


def verdict(delta: Estimate, article_pct: float | None) -> tuple[str | None, str]:
    """Whether a measured change (percent, with its interval) is the article's, and why: (verdict, reason).

    Within noise: the interval holds zero, or both changes are small. Reproduced: the same sign, and neither
    more than twice the other. None where the article gives no figure.
    """
    here = f"{delta.median:+.1f} %"
    if article_pct is None:
        return None, "the article gives no figure"
    there = f"{article_pct:+.1f} %"
    if delta.holds_zero:
        return WITHIN_NOISE, f"the interval {delta.low:+.1f} to {delta.high:+.1f} % holds zero"
    if abs(delta.median) < SMALL_PCT and abs(article_pct) < SMALL_PCT:
        return WITHIN_NOISE, f"{here} here and {there} in the article are both below {SMALL_PCT} %"
    if delta.median * article_pct < 0:
        return OPPOSITE, f"{here} here, {there} in the article"
    small, large = sorted((abs(delta.median), abs(article_pct)))
    if large <= WITHIN_FACTOR * small:
        return REPRODUCED, f"{here} here, {there} in the article"
    return OTHER_SIZE, f"{here} here, {there} in the article: more than {WITHIN_FACTOR:g} times apart"
