"""A matplotlib figure that shows itself as SVG, readable on light and on dark pages.

Its text is a middle grey that can be read on white and on black, and nothing is drawn behind it. In a page it
takes the page's own colour of text.
"""

import io
from html import escape
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from ..ground.errors import BadInput
from .parts import page

GREY = "#7c7c7c"
FAINT = "#7c7c7c55"
OURS = "#2f7fd6"
ARTICLE = "#d9822b"
SIZES = {
    "svg.fonttype": "none",
    "font.size": 10,
    "text.color": GREY,
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "axes.titlecolor": GREY,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "hatch.linewidth": 0.6,
}
STYLE = """
.kda figure.kda-chart { margin: .4em 0; max-width: 100%; overflow-x: auto; }
.kda figure.kda-chart svg { display: block; min-width: 500px; width: 100%; height: auto; }
.kda figure.kda-chart svg text { font-family: inherit; }
.kda figure.kda-chart figcaption { font-size: .92em; opacity: .85; min-width: 0; position: sticky; left: 0; }
"""


class Chart(Figure):
    """A matplotlib figure that shows itself as SVG, with `alt`, what it says in words, and a caption."""

    alt: str = ""
    caption: str = ""

    def svg(self) -> str:
        """The figure as an SVG element, with a transparent background."""
        file = io.StringIO()
        with rc_context(SIZES | {"svg.hashsalt": self.alt}):
            self.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
        text = file.getvalue()
        return text[text.index("<svg") :]

    def _repr_html_(self) -> str:
        width = round(self.get_figwidth() * 100)  # CSS pixels
        label = f'<svg role="img" aria-label="{escape(self.alt, quote=True)}" style="max-width: {width}px" '
        drawing = self.svg().replace("<svg ", label, 1).replace(GREY, "currentColor")
        caption = f"<figcaption>{escape(self.caption)}</figcaption>" if self.caption else ""
        return page(f'<figure class="kda-chart">{drawing}{caption}</figure>', STYLE)

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.alt, self.caption]))

    __repr__ = __str__


FORMATS = (".svg", ".png")


def save(chart: Chart, path: Path) -> None:
    """Write a figure, with a transparent background. Raises BadInput for another ending than .svg or .png,
    and for a file that cannot be written.
    """
    check_format(path)
    try:
        if path.suffix == ".svg":
            path.write_text(chart.svg() + "\n", encoding="utf-8")
        else:
            with rc_context(SIZES):
                chart.savefig(path, dpi=160, transparent=True)
    except OSError as error:
        raise BadInput(
            f"The chart cannot be written to {path} ({error.strerror}): give another file."
        ) from None


def check_format(path: Path) -> None:
    """Raise BadInput unless a figure can be written in the format that the file's ending asks for."""
    if path.suffix not in FORMATS:
        raise BadInput(f"The chart's file is {str(path)!r}: let it end in {' or '.join(FORMATS)}.")
