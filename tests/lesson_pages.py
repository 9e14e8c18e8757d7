"""Looking at what the lessons show: is the HTML well formed, and are its colours those of the page?"""

from __future__ import annotations

import re
from html.parser import HTMLParser

VOID = {"br", "img", "input", "meta", "link", "hr"}
COLOUR = re.compile(r"(?<![-\w])(?:color|background(?:-color)?):\s*([^;}\"]+)")


class _Reader(HTMLParser):
    """Collects text, and complains about tags that are not closed in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.headers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script") and data.strip():
            self.texts.append(data.strip())


def words(html: str) -> str:
    """The text that a reader sees, with blanks between its pieces. Fails for HTML that is not well formed."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    return " ".join(reader.texts)


def fixed_colours(html: str) -> list[str]:
    """Colours of text and opaque backgrounds in the style sheets, which would fight with a page's theme."""
    styles = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    found = [value.strip() for style in styles for value in COLOUR.findall(style)]
    allowed = ("inherit", "none", "currentColor", "transparent")
    return [
        value for value in found if value not in allowed and not value.startswith(("rgba(", "repeating-"))
    ]
