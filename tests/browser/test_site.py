"""The built site in a real browser: nothing missing, nothing from elsewhere, every explorer alive."""

import pytest

from .harness import serve
from .known_violations import new_violations

PHONE = 360  # CSS pixels
CHAPTER = "chapters/1-foundations/00_start_here/"
KINDS = ["", CHAPTER, "chapters/2-kernel-a/s02_no_t1/", "kernels/kernel_a/s02_no_t1.cu/", "run/"]
"""One page of each kind, and the chapter with most in it."""


@pytest.fixture(scope="session")
def origin(site):
    with serve(site) as address:
        yield address


@pytest.fixture
def open_page(browser, origin):
    """A function that opens a page and waits for its explorers."""

    def opened(address, **look):
        browser.open(f"{origin}/{address}", **look)
        browser.wait_for("return document.body.dataset.explorers")
        return browser

    return opened


@pytest.fixture
def show(open_page, browser, origin):
    """The same as open_page; afterwards nothing must have gone wrong."""
    yield open_page
    assert browser.problems(origin) == []


def test_no_page_has_errors_or_is_wider_than_a_phone(open_page, browser, origin, site_pages):
    wrong, wide = {}, {}
    for address in site_pages if browser.name == "chromium" else KINDS:
        open_page(address)
        wrong[address] = browser.problems(origin)
        browser.resize(PHONE, 700)
        wide[address] = browser.page_width()
    assert {address: each for address, each in wrong.items() if each} == {}
    assert {address: width for address, width in wide.items() if width > PHONE} == {}


@pytest.mark.parametrize("address", KINDS)
@pytest.mark.parametrize(("dark", "width"), [(False, 1100), (True, 1100), (False, PHONE)])
def test_axe_finds_nothing_new(chromium, origin, address, dark, width):
    chromium.open(f"{origin}/{address}", dark=dark, width=width)
    chromium.wait_for("return document.body.dataset.explorers")
    assert new_violations(chromium) == []


EXPLORERS = """
const explorers = [...document.querySelectorAll("[data-widget]")]
  .map((el) => el.querySelector("div")?.shadowRoot ?? el);
"""
DRAWINGS = EXPLORERS + "return explorers.map((one) => one.innerHTML)"
FOCUS = (
    EXPLORERS
    + """
const controls = [...explorers[explorer].querySelectorAll(
  "input:not([type=hidden]), select, button, [tabindex='0']")].filter((one) => one.checkVisibility());
controls[number]?.focus();
return number < controls.length
"""
)


def move(browser, explorer):
    """Works the controls of an explorer with the keyboard, one after the other, until it draws anew."""
    before = browser.evaluate(DRAWINGS)[explorer]
    number = 0
    while browser.evaluate(FOCUS, explorer=explorer, number=number):
        for key in ("ArrowDown", "ArrowRight", "4", "Enter", " "):
            browser.press(key)
            if browser.evaluate(DRAWINGS)[explorer] != before:
                return
        number += 1


def still_explorers(browser):
    """Moves every explorer of a page; the numbers of those that look as before.

    One without controls, such as a guess beside the truth, must have followed another.
    """
    before = browser.evaluate(DRAWINGS)
    for explorer in range(len(before)):
        move(browser, explorer)
    after = browser.evaluate(DRAWINGS)
    return [number for number, drawing in enumerate(before) if drawing == after[number]]


def test_every_explorer_redraws_when_it_is_moved(open_page, browser, origin, site_pages, site):
    still, wrong = {}, {}
    for address in site_pages:
        if "data-widget" not in (site / address / "index.html").read_text(encoding="utf-8"):
            continue
        still[address] = still_explorers(open_page(address))
        wrong[address] = browser.problems(origin)
    assert "" in still
    assert {address: each for address, each in still.items() if each} == {}
    assert {address: each for address, each in wrong.items() if each} == {}


def test_the_front_page_does_what_it_says(show):
    browser = show("")
    figures = "return [...explorers[0].querySelectorAll('.figure b')].map((one) => Number(one.textContent))"
    figures = EXPLORERS + figures
    assert browser.evaluate(figures) == [32, 1, 31]
    browser.focus(
        EXPLORERS
        + """
        const fields = [...explorers[0].querySelectorAll(".field")];
        return fields.find((field) => field.textContent.includes("Padding")).querySelector("input")
        """
    )
    browser.press("Control+a")
    browser.type("4")
    assert browser.evaluate(figures) == [1, 1, 0]


def test_light_and_dark_are_switched_and_kept(show):
    scheme = "return document.body.dataset.mdColorScheme"
    is_dark = EXPLORERS + "return explorers[0].querySelector('.root').classList.contains('dark')"

    def switch(browser, title):
        browser.click(f"return document.querySelector('label[title=\"{title}\"]')")
        return browser.evaluate(scheme), browser.evaluate(is_dark)

    assert switch(show(""), "Switch to dark") == ("slate", True)
    browser = show("run/")
    assert browser.evaluate(scheme) == "slate"
    assert switch(show(""), "Switch to light") == ("default", False)
    browser.evaluate("localStorage.clear()")  # a choice outlives what the system prefers


@pytest.mark.parametrize(("word", "where"), [("wavefront", "/chapters/"), ("combine", "/kernels/")])
def test_search_finds_words_of_chapters_and_kernels(show, word, where):
    browser = show("run/")
    browser.focus("return document.querySelector('input.md-search__input')")
    browser.type(word)
    browser.wait_for(f"return document.querySelector('.md-search-result__link[href*=\"{where}\"]') !== null")


def test_the_address_of_a_line_leads_there(show):
    browser = show("kernels/gpu.cuh/#L80")
    place = "document.querySelector('#L80').getBoundingClientRect().top"
    browser.wait_for(f"return {place} > 0 && {place} < 900")


def test_a_chapter_says_how_it_was_made_and_how_to_run_it(show):
    browser = show(CHAPTER)
    text = browser.evaluate("return document.querySelector('article').innerText")
    assert "computed on the CPU machine" in text
    assert "make learn" in text and "work/1-foundations/00_start_here.ipynb" in text
    links = browser.evaluate("return [...document.querySelectorAll('.how-made a')].map((one) => one.href)")
    assert any("kernels/kernel_a/s12_odd_half_stride.cu" in link for link in links)
