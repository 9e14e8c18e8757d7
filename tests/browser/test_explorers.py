"""What all explorers have in common: colours, a narrow page, motion, their model, accessibility."""

import pytest

from .known_violations import new_violations
from .sample_pages import PAGES

NARROW = 360


@pytest.mark.parametrize("scripts", ["modules", "bundled"])
def test_two_explorers_share_a_page(show, scripts):
    assert show("both", scripts=scripts).figures() == [32, 4, 28]
    assert "VSplit" in show("both", number=1, scripts=scripts).text(".root")


CONTRAST = """
const luminance = (text) => {
  const [r, g, b] = text.match(/\\d+/g).slice(0, 3).map((part) => part / 255)
    .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const background = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const { backgroundColor, backgroundImage } = getComputedStyle(at);
    const gradient = backgroundImage.match(/^linear-gradient.*?(rgb\\([^)]*\\))/);
    const colour = gradient ? gradient[1] : backgroundColor;
    if (colour !== "rgba(0, 0, 0, 0)") return colour;
  }
};
const faint = [];
for (const node of root.querySelectorAll("*")) {
  const owns = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!owns || node.tagName === "STYLE" || !node.checkVisibility() || node.closest(".off, .word b")) continue;
  const [a, b] = [luminance(getComputedStyle(node).color), luminance(background(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.push(`${node.tagName}.${node.className} ${node.textContent} ${ratio.toFixed(1)}`);
}
return [...new Set(faint)];
"""


# The name changes first: Firefox has to start anew for dark.
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_texts_stand_out_from_what_is_behind_them(show, name, dark):
    explorer = show(name, dark=dark)
    assert explorer.get(CONTRAST) == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(show, name, dark):
    assert new_violations(show(name, dark=dark).browser) == []


def test_the_page_decides_on_light_and_dark(show):
    explorer = show("bank")

    def is_dark():
        return explorer.style(".root", "backgroundColor") != "rgb(255, 255, 255)"

    def mark(name, value):
        explorer.get("document.body.setAttribute(name, value)", name=name, value=value)

    assert not is_dark()
    mark("data-md-color-scheme", "slate")
    assert is_dark()
    mark("data-md-color-scheme", "default")
    assert not is_dark()
    mark("data-jp-theme-light", "false")
    assert is_dark()
    mark("data-jp-theme-light", "true")
    assert not is_dark()


OUTSIDE = """
const edges = one(".root").getBoundingClientRect();
return all(".root *")
  .filter((node) => node.checkVisibility() && !node.closest("option, .choice input"))
  .filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    return width > 0 && (left < edges.left - 0.5 || right > edges.right + 0.5);
  }).map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`);
"""


@pytest.mark.parametrize("name", PAGES)
def test_nothing_sticks_out_of_a_narrow_page(show, name):
    explorer = show(name, width=NARROW)
    assert explorer.browser.page_width() <= NARROW
    assert explorer.get(OUTSIDE) == []


@pytest.mark.parametrize("reduced_motion", [False, True])
def test_motion_is_left_out_on_request(show, reduced_motion):
    explorer = show("bank", reduced_motion=reduced_motion)
    assert (explorer.style(".word", "transitionDuration") == "0s") == reduced_motion


# A bank map of our own making, with a model that tells what it was told.
OWN_EXPLORER = """
const [mount, bank] = await Promise.all([import("/modules/mount.js"), import("/modules/bank_map.js")]);
const el = document.createElement("div");
const model = mount.makeModel(JSON.parse(document.querySelector("[data-widget]").dataset.state));
document.body.append(el);
const close = bank.default.render({ model, el });
"""


def test_an_explorer_can_be_taken_away(show):
    script = """
        const before = el.children.length;
        close();
        model.set("phase", 0);
        return [before, el.children.length];
    """
    assert show("bank").get(OWN_EXPLORER + script) == [1, 0]


def test_choices_are_told_to_the_model(show):
    """What a reader picks is set and saved, so that a notebook's Python can read it."""
    script = """
        const saved = new Promise((resolve) => { model.save_changes = () => resolve(model.get("pattern")); });
        const select = el.firstChild.shadowRoot.querySelector("option[value=accumulator]").parentElement;
        select.value = "accumulator";
        select.dispatchEvent(new Event("change"));
        return saved;
    """
    assert show("bank").get(OWN_EXPLORER + script)["lanes"] == "accumulator"
