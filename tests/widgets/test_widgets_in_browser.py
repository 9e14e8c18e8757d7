"""The explorers in a real browser, on plain pages with no Python behind them: moved, and seen to redraw."""

import numpy as np
import pytest
from browser.harness import browser, serve
from browser.widget_page import write_page, write_scripts
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from kda_learn.tracing.patterns import access
from kda_learn.widgets import bank_map, tiles
from kda_learn.widgets.explorer import state

LANES = np.arange(32)
SECONDS = 20
NARROW = 360
TIMES = "\u00d7"
RECORDED = [
    access("lds", 2, LANES % 16 * 256, line=101, text="lds<bf16>(row)", section="r1", count=8),
    access("lds", 2, LANES % 16 * 272, line=101, text="lds<bf16>(row)", section="r1", count=2),
    access(
        "stmatrix.x4.trans",
        16,
        LANES * 16,
        line=212,
        text="stmatrix_x4_trans(at, x)",
        section="combine",
        region="DS",
    ),
]


def pages():
    """Page name -> explorers on it."""
    return {
        "bank": [("bank_map", state(bank_map()))],
        "recorded": [("bank_map", state(bank_map(RECORDED)))],
        "both": [("bank_map", state(bank_map(width=16))), ("tiles", state(tiles("dS", v_split=2)))],
    } | {f"tiles-{view}": [("tiles", state(tiles(view)))] for view in ("A", "B", "C", "dS", "dual")}


class Explorer:
    """One explorer on the open page."""

    def __init__(self, driver, number=0):
        self.driver = driver
        WebDriverWait(driver, SECONDS).until(
            lambda _: driver.execute_script("return document.body.dataset.ready")
        )
        host = driver.find_elements(By.CSS_SELECTOR, "[data-widget] > div")[number]
        self.shadow = host.shadow_root

    def all(self, css):
        return self.shadow.find_elements(By.CSS_SELECTOR, css)

    def one(self, css):
        return self.shadow.find_element(By.CSS_SELECTOR, css)

    def text(self, css):
        """The text of an element, without the marks that keep "0-7" on one line."""
        return self.one(css).text.replace("\u2060", "").replace("\u2013", "-")

    def labelled(self, label):
        """The control under a label."""
        field = next(field for field in self.all("label.field") if field.text.startswith(label))
        return field.find_element(By.CSS_SELECTOR, "select, input")

    def select(self, label, text):
        Select(self.labelled(label)).select_by_visible_text(text)

    def type(self, label, number):
        control = self.labelled(label)
        control.send_keys(Keys.CONTROL, "a")
        control.send_keys(str(number))

    def choose(self, text):
        """Clicks a button of a row of choices."""
        next(one for one in self.all(".choice") if one.text == text).click()

    def focused(self):
        return self.driver.execute_script("return arguments[0].activeElement", self.shadow)

    def figures(self):
        """The printed wavefronts, least and excess."""
        return [int(one.text) for one in self.all(".figure b")]

    def drawing(self, css):
        """The drawn part as text: two drawings that differ look different."""
        return self.driver.execute_script("return arguments[0].innerHTML", self.one(css))

    def here(self):
        """Texts and positions of the places that are marked, one for each panel."""
        return [one.get_attribute("aria-label") for one in self.all(".here")]


@pytest.fixture(scope="module")
def chromium():
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    write_scripts(folder)
    for scripts in ("modules", "bundled"):
        for name, explorers in pages().items():
            write_page(folder, f"{name}-{scripts}", explorers, scripts)
    with serve(folder) as address:
        yield address


@pytest.fixture
def show(chromium, origin):
    """A function that opens a page and gives its explorer; afterwards nothing must have gone wrong there."""

    def open_page(name, *, number=0, scripts="modules", **look):
        chromium.look(**look)
        chromium.open(f"{origin}/{name}-{scripts}.html")
        return Explorer(chromium.driver, number)

    yield open_page
    assert chromium.console_errors() == []
    assert chromium.outside_requests(origin) == []


@pytest.mark.parametrize("scripts", ["modules", "bundled"])
def test_two_explorers_share_a_page(show, scripts):
    assert show("both", scripts=scripts).figures() == [32, 4, 28]
    assert "VSplit" in show("both", number=1, scripts=scripts).text(".root")


def test_a_pattern_is_built(show):
    explorer = show("bank")
    assert explorer.figures() == [32, 1, 31]
    assert "32 wavefronts where 1 would do: 31 in excess" in explorer.text("[role=status]")
    before = explorer.drawing(".halves + .caption + .halves, .tall")

    explorer.type("Padding", 4)
    assert explorer.figures() == [1, 1, 0]
    assert "1 wavefront, the least possible" in explorer.text("[role=status]")
    assert f"row {TIMES} 132" in explorer.text("code")
    assert len(explorer.all("[data-word]")) == 32
    assert explorer.drawing("[role=group]") != before

    explorer.select("Lane map", f"16 tokens {TIMES} 2 halves")
    explorer.type("Padding", 0)
    explorer.type("Row", 256)
    explorer.select("Bytes per lane", "2")
    assert explorer.figures() == [16, 1, 15]
    explorer.type("Halves apart", 2)
    assert explorer.figures() == [16, 1, 15]
    assert explorer.all("[data-word]")[0].text == f"{TIMES}2"

    explorer.select("Swizzle", "SW128")
    assert explorer.figures() == [2, 1, 1]
    assert not explorer.labelled("Row").is_enabled()


def test_what_the_hardware_refuses_is_said(show):
    explorer = show("bank")
    explorer.select("Lane map", "ldmatrix / stmatrix .x4 rows")
    explorer.type("Row", 260)
    assert "lane 1 would reach for 16 bytes at byte 260" in explorer.text("[role=status]")
    assert not any(one.is_displayed() for one in explorer.all("[data-lane], .figure"))
    explorer.type("Row", 272)
    assert explorer.figures() == [4, 4, 0]


def test_phases_are_moved_with_the_keyboard(show):
    explorer = show("both")
    busy = [one.text for one in explorer.all(".lane:not(.idle)")]
    assert busy == [str(lane) for lane in range(8)]
    explorer.all(".choice input")[2].send_keys(Keys.ARROW_RIGHT)
    explorer.focused().send_keys(Keys.ARROW_RIGHT)
    busy = [one.text for one in explorer.all(".lane:not(.idle)")]
    assert busy == [str(lane) for lane in range(16, 24)]
    assert "Lanes 16-23" in explorer.text("[role=status]")


def test_lanes_are_looked_at_with_the_keyboard(show):
    explorer = show("bank")
    first = next(one for one in explorer.all("[data-lane]") if one.get_attribute("tabindex") == "0")
    assert first.text == "0"
    first.send_keys(Keys.ARROW_RIGHT)
    explorer.focused().send_keys(Keys.ARROW_RIGHT)
    assert explorer.focused().text == "2"
    assert explorer.text(".detail").startswith("Lane 2: byte 256, bank 0, served in wavefront 3. Collides")
    assert [one.text for one in explorer.all(".word.mine")] == ["2"]
    assert len(explorer.all(".word.rival")) == 31
    assert "none" not in explorer.focused().value_of_css_property("outline-style")
    explorer.focused().send_keys(Keys.END)
    assert explorer.focused().text == "31"


def test_recorded_accesses_are_chosen(show):
    explorer = show("recorded")
    assert explorer.text("code") == "lds<bf16>(row)"
    assert explorer.figures() == [16, 1, 15]
    assert "101: lds, 2 bytes, (r1): 15 excess" in explorer.text(".root")
    assert "Pattern 1 of 2, seen 8 times" in explorer.text(".root")
    explorer.labelled("Pattern").send_keys(Keys.ARROW_RIGHT)
    assert "Pattern 2 of 2, seen 2 times" in explorer.text(".root")
    assert explorer.figures() == [2, 1, 1]
    explorer.select("Source line", "212: stmatrix.x4.trans, 16 bytes, DS (combine)")
    assert explorer.text("code") == "stmatrix_x4_trans(at, x)"
    assert explorer.figures() == [4, 4, 0]
    explorer.choose("Build your own")
    assert explorer.figures() == [32, 1, 31]
    explorer.choose("Recorded in a run")
    assert explorer.figures() == [4, 4, 0]


def test_numbers_stand_in_a_table_too(show):
    explorer = show("bank")
    explorer.one("summary").click()
    rows = [one.text for one in explorer.all("tr")]
    assert rows[0] == "lane byte word bank wavefront"
    assert rows[4] == "3 384 96 0 4"
    assert len(rows) == 33


def test_an_element_is_found_in_registers_and_back(show):
    explorer = show("tiles-A")
    grid, lanes = explorer.all(".panel")
    grid.find_element(By.CSS_SELECTOR, '[data-elements="58"]').click()
    assert explorer.text("[role=status]") == "Element m 3, k 10 of A: lane 13, register a2, low half."
    assert len(explorer.all(".here")) == 2
    assert len(explorer.all(".grid .kin")) == 8
    assert explorer.one(".lane.kin").text == "lane 13"
    grid.find_element(By.CSS_SELECTOR, '[data-elements="58"]').send_keys(Keys.ARROW_RIGHT, Keys.NULL)
    assert "k 11 of A: lane 13, register a2, high half" in explorer.text("[role=status]")
    lanes.find_element(By.CSS_SELECTOR, '.lane[data-lane="31"] .cell').click()
    assert "m 7, k 6 of A: lane 31, register a0, low half" in explorer.text("[role=status]")


def test_arrows_move_over_lanes_and_registers(show):
    explorer = show("tiles-C")
    first = explorer.all(".panel")[1].find_element(By.CSS_SELECTOR, ".cell")
    first.click()
    for key, held in (
        (Keys.ARROW_RIGHT, "lane 0, register c1"),
        (Keys.ARROW_DOWN, "lane 0, register c3"),
        (Keys.ARROW_RIGHT, "lane 1, register c2"),
        (Keys.ARROW_DOWN, "lane 5, register c0"),
    ):
        explorer.focused().send_keys(key)
        assert held in explorer.text("[role=status]")
    first_in_grid = explorer.all(".panel")[0].find_elements(By.CSS_SELECTOR, '.cell[tabindex="0"]')
    assert len(first_in_grid) == 1


@pytest.mark.parametrize(
    ("view", "route", "words"),
    [
        ("A", "ldmatrix.x4", "row m 0, column k 0, matrix 0 of the instruction; lane 0 gives"),
        ("B", "ldmatrix.x2.trans", "row k 0, column n 0, matrix 0"),
        ("C", "stmatrix.x2", "In shared memory: row m 0, column n 0"),
        ("C", "movmatrix", "After movmatrix: lane 0, register b0, low half."),
        ("dS", "8", "Warp 0 of block 0 owns these 16 columns"),
    ],
)
def test_routes_add_a_panel(show, view, route, words):
    explorer = show(f"tiles-{view}")
    before = explorer.drawing(".panels")
    explorer.choose(route)
    assert explorer.drawing(".panels") != before
    assert words in explorer.text("[role=status]")
    panels = explorer.all(".panel")
    assert len(explorer.all(".here")) == len(panels)


def test_warps_that_have_no_columns_are_idle(show):
    explorer = show("tiles-dS")
    assert len(explorer.all(".none")) == 0
    explorer.choose("4")
    assert len(explorer.all(".none")) == 4 * 6
    explorer.all(".panel")[1].find_element(By.CSS_SELECTOR, ".cell[data-elements]").click()
    assert len(explorer.all(".panel:first-child .kin")) == 8


def test_one_byte_is_marked_in_both_readings(show):
    explorer = show("tiles-dual")
    explorer.one('[data-elements="58"]').click()
    text = explorer.text("[role=status]")
    assert "Element v 3, k 10 of dS lies at byte 2100." in text
    assert "ldmatrix.x4 brings it to lane 13, r1, low half" in text
    assert "ldmatrix.x4.trans brings it to lane 9, r1, high half" in text
    assert len(explorer.all(".here")) == 5


def test_views_are_switched(show):
    explorer = show("tiles-A")
    for text in ("B, 16 x 8", "C, 16 x 8", "dS over the warps", "One byte, two readings", "A, 16 x 16"):
        before = explorer.drawing(".panels")
        explorer.choose(text)
        assert explorer.drawing(".panels") != before


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
for (const node of arguments[0].querySelectorAll("*")) {
  const owns = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  if (!owns || node.tagName === "STYLE" || !node.checkVisibility() || node.closest(".off, .word b")) continue;
  const [a, b] = [luminance(getComputedStyle(node).color), luminance(background(node))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < 4.5) faint.push(`${node.tagName}.${node.className} ${node.textContent} ${ratio.toFixed(1)}`);
}
return [...new Set(faint)];
"""


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", pages())
def test_texts_stand_out_from_what_is_behind_them(show, name, dark):
    explorer = show(name, dark=dark)
    assert explorer.driver.execute_script(CONTRAST, explorer.shadow) == []


def test_the_page_decides_on_light_and_dark(show):
    explorer = show("bank")
    background = "return getComputedStyle(arguments[0]).backgroundColor"

    def is_dark():
        colour = explorer.driver.execute_script(background, explorer.one(".root"))
        return colour != "rgb(255, 255, 255)"

    def mark(name, value):
        explorer.driver.execute_script("document.body.setAttribute(arguments[0], arguments[1])", name, value)

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
const root = arguments[0].querySelector(".root").getBoundingClientRect();
return [...arguments[0].querySelectorAll(".root *")]
  .filter((node) => node.checkVisibility() && !node.closest("option, .choice input"))
  .filter((node) => {
    const { left, right, width } = node.getBoundingClientRect();
    return width > 0 && (left < root.left - 0.5 || right > root.right + 0.5);
  }).map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 40)}`);
"""


@pytest.mark.parametrize("name", pages())
def test_nothing_sticks_out_of_a_narrow_page(show, chromium, name):
    explorer = show(name, width=NARROW)
    assert chromium.page_width() <= NARROW
    assert explorer.driver.execute_script(OUTSIDE, explorer.shadow) == []


@pytest.mark.parametrize("reduced_motion", [False, True])
def test_motion_is_left_out_on_request(show, reduced_motion):
    explorer = show("bank", reduced_motion=reduced_motion)
    duration = explorer.one(".word").value_of_css_property("transition-duration")
    assert (duration == "0s") == reduced_motion


def test_an_explorer_can_be_taken_away(show, chromium):
    show("bank")
    left = chromium.driver.execute_async_script("""
        const done = arguments[0];
        Promise.all([import("/modules/mount.js"), import("/modules/bank_map.js")]).then(([mount, bank]) => {
          const el = document.createElement("div");
          const model = mount.makeModel(JSON.parse(document.querySelector("[data-widget]").dataset.state));
          document.body.append(el);
          const close = bank.default.render({ model, el });
          const before = el.children.length;
          close();
          model.set("phase", 0);
          done([before, el.children.length]);
        });
    """)
    assert left == [1, 0]


def test_choices_are_told_to_the_model(show, chromium):
    """What a reader picks is set and saved, so that a notebook's Python can read it."""
    show("bank")
    saved = chromium.driver.execute_async_script("""
        const done = arguments[0];
        Promise.all([import("/modules/mount.js"), import("/modules/bank_map.js")]).then(([mount, bank]) => {
          const el = document.createElement("div");
          const model = mount.makeModel(JSON.parse(document.querySelector("[data-widget]").dataset.state));
          model.save_changes = () => done(model.get("pattern"));
          document.body.append(el);
          bank.default.render({ model, el });
          const select = el.firstChild.shadowRoot.querySelector("option[value=accumulator]").parentElement;
          select.value = "accumulator";
          select.dispatchEvent(new Event("change"));
        });
    """)
    assert saved["lanes"] == "accumulator"
