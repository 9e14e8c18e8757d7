"""What axe-core finds and we know of: each rule with the reason why it stays. Anything else fails a test."""

from __future__ import annotations

from .harness import Browser

KNOWN = {
    ("landmark-unique", "nav[aria-labelledby="): "Material for MkDocs names a section's two lists alike",
}
"""(Rule, how the place's selector begins) -> why it stays."""


def is_known(rule: str, place: str) -> bool:
    """Whether a place is one of those that stay."""
    return any(rule == known and place.startswith(start) for known, start in KNOWN)


def new_violations(browser: Browser) -> list[str]:
    """What is wrong with the open page for readers with a screen reader, a keyboard or weak eyes."""
    new = []
    for found in browser.accessibility_violations():
        places = [place for place in found["places"] if not is_known(found["rule"], place)]
        if places:
            new.append(f"{found['rule']} ({found['help']}): {len(places)} places, such as {places[:3]}")
    return new
