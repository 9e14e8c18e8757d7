"""One explorer on an open page, moved as a reader would move it."""

from __future__ import annotations

from typing import Any

from .harness import Browser

# What the scripts of an Explorer see: its root, and what is found in it.
PRELUDE = """
const root = document.querySelectorAll("[data-widget] > div")[number].shadowRoot;
const all = (css) => [...root.querySelectorAll(css)];
const one = (css) => root.querySelector(css) ?? (() => { throw new Error(`nothing is ${css}`) })();
// As a reader sees it, without the marks that keep "0-7" on one line.
const seen = (node) => node.innerText.trim().replaceAll("\\u2060", "").replaceAll("\\u2013", "-")
  .replaceAll(/\\s+/g, " ");
const labelled = (label) =>
  all("label.field").find((field) => seen(field).startsWith(label)).querySelector("select, input");
"""


class Explorer:
    """The explorer with this number, counted from 0, on the page that is open."""

    def __init__(self, browser: Browser, number: int = 0) -> None:
        self.browser = browser
        self.number = number
        browser.wait_for("return document.body.dataset.ready")

    def get(self, script: str, **values: Any) -> Any:
        """What a script returns that sees PRELUDE and these values."""
        return self.browser.evaluate(PRELUDE + script, number=self.number, **values)

    def texts(self, css: str) -> list[str]:
        """The texts of all that a selector finds."""
        return self.get("return all(css).map(seen)", css=css)

    def text(self, css: str) -> str:
        """The text of the first that a selector finds."""
        return self.get("return seen(one(css))", css=css)

    def count(self, css: str) -> int:
        """How many a selector finds."""
        return self.get("return all(css).length", css=css)

    def drawing(self, css: str) -> str:
        """The drawn part as text: two drawings that differ look different."""
        return self.get("return one(css).innerHTML", css=css)

    def style(self, css: str, name: str) -> str:
        """The value of a style of the first that a selector finds."""
        return self.get("return getComputedStyle(one(css))[name]", css=css, name=name)

    def figures(self) -> list[int]:
        """The printed wavefronts, least and excess."""
        return [int(text) for text in self.texts(".figure b")]

    def click(self, css: str) -> None:
        self.browser.click(PRELUDE + "return one(css)", number=self.number, css=css)

    def hover(self, css: str) -> None:
        self.browser.hover(PRELUDE + "return one(css)", number=self.number, css=css)

    def choose(self, text: str) -> None:
        """Clicks a button of a row of choices."""
        script = PRELUDE + "return all('.choice').find((choice) => seen(choice) === text)"
        self.browser.click(script, number=self.number, text=text)

    def select(self, label: str, text: str) -> None:
        """Chooses an entry of the drop-down under a label."""
        option = "[...labelled(label).options].find((option) => option.text === text)"
        value = self.get(f"return {option}.value", label=label, text=text)
        script = PRELUDE + "return labelled(label)"
        self.browser.select(value, script, number=self.number, label=label)

    def type(self, label: str, number: int) -> None:
        """Types a number into the field under a label, in place of what is there."""
        self.get("labelled(label).focus()", label=label)
        self.browser.press("Control+a")
        self.browser.type(str(number))

    def focus(self, css: str, number: int = 0) -> None:
        """Gives the focus to one of those that a selector finds."""
        self.get("all(css)[which].focus()", css=css, which=number)

    def focused(self) -> str:
        """The text of what has the focus."""
        return self.get("return seen(root.activeElement)")

    def press(self, *keys: str) -> None:
        self.browser.press(*keys)
