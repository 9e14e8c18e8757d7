"""The files of the built site: a page for every source, links that lead somewhere, nothing from elsewhere.

browser/test_site.py opens the pages.
"""

import re
from html import unescape

import pytest
from paths import REPOSITORY
from site_pages import ORIGIN, broken_links, parts_from_elsewhere

NOTEBOOKS = sorted((REPOSITORY / "notebooks").rglob("*.ipynb"))
KERNELS = sorted(path for path in (REPOSITORY / "kernels").rglob("*.cu*") if path.suffix in (".cu", ".cuh"))
SVG = "http://www.w3.org/2000/svg"  # a name, never asked for


def test_every_source_has_its_page(site_pages):
    chapters = {path.relative_to(REPOSITORY / "notebooks").with_suffix("") for path in NOTEBOOKS}
    kernels = {path.relative_to(REPOSITORY / "kernels") for path in KERNELS}
    expected = {f"chapters/{name}/" for name in chapters} | {f"kernels/{name}/" for name in kernels}
    assert expected <= set(site_pages)
    indices = site_pages["chapters/"], site_pages["kernels/"]
    named = {link.removeprefix(ORIGIN) for index in indices for _, link in index.links}
    assert expected <= named


def test_links_lead_somewhere(site, site_pages):
    assert broken_links(site, site_pages) == []


def test_nothing_is_loaded_from_elsewhere(site, site_pages):
    assert parts_from_elsewhere(site_pages) == []
    ours = [*site.glob("assets/*.*"), *site.glob("assets/widgets/*")]
    assert [path.name for path in ours if "http" in path.read_text(encoding="utf-8").replace(SVG, "")] == []


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.name)
def test_every_line_of_a_kernel_has_its_address(site, source):
    page = site / "kernels" / source.relative_to(REPOSITORY / "kernels") / "index.html"
    code = page.read_text(encoding="utf-8").partition('class="highlight source"')[2]
    found = re.findall(r'<span id="L(\d+)"><a [^>]*></a>(.*)\n', code)
    shown = {int(number): unescape(re.sub(r"<[^>]+>", "", line)) for number, line in found}
    assert shown == dict(enumerate(source.read_text(encoding="utf-8").splitlines(), start=1))
