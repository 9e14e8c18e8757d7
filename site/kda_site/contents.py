"""A page's table of contents, gathered while the page is written."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any

LOWEST_LEVEL = 3  # headings below it are left out


@dataclass
class Contents:
    """Headings of a page, nested, in the form that MkDocs makes its table of contents from."""

    tokens: list[dict[str, Any]] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def add(self, level: int, title: str) -> str:
        """Takes in a heading (`title` as HTML) and gives the anchor for it, unlike all before."""
        words = re.sub(r"[^\w\s-]", "", html.unescape(re.sub(r"<[^>]+>", "", title))).lower().split()
        wanted = anchor = "-".join(words) or "section"
        count = 1
        while anchor in self.anchors:
            count += 1
            anchor = f"{wanted}-{count}"
        self.anchors.add(anchor)
        if level <= LOWEST_LEVEL:
            self.add_line(level, title, anchor)
        return anchor

    def add_line(self, level: int, title: str, anchor: str) -> None:
        """Takes in an entry for a place in the page that has an anchor of its own."""
        self.anchors.add(anchor)
        siblings = self.tokens
        while siblings and siblings[-1]["level"] < level:
            siblings = siblings[-1]["children"]
        siblings.append({"level": level, "id": anchor, "name": title, "children": []})
