"""A progress bar below a cell of a notebook, or lines of text elsewhere, for work of several steps."""

from __future__ import annotations

import sys
from html import escape
from types import TracebackType
from typing import Any

from ..ground.say import print_line


class Steps:
    """`with Steps(3) as steps, heard_by(steps.step): ...` shows how far the work is, and goes when it ends.

    total: how many steps there will be, as far as one knows; more than that do no harm. The bar is plain HTML
    and not an ipywidget: it needs no extension, and a saved notebook keeps nothing of it.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._handle: Any = None

    def __enter__(self) -> Steps:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self._handle.update(_Bar(""))

    def step(self, text: str) -> None:
        """One more step begins; `text` says which."""
        self.done += 1
        if not _in_notebook():
            if self.total > 1 and sys.stderr.isatty():
                print_line(text)
            return
        share = (self.done - 1) / max(self.total, self.done)
        bar = _Bar(f'<progress max="1" value="{share:.2f}"></progress> {escape(text)}')
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bar, display_id=True)
        else:
            self._handle.update(bar)


class _Bar:
    """What is displayed; plain text has none of it."""

    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return ""


def _in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel, which can show HTML and change it later."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
