"""The prediction in a real browser: on a page without Python, and in JupyterLab."""

import json
import time

import pytest

from kda_learn import predict
from kda_learn.widgets.explorer import state

from .explorer import Explorer
from .harness import PROGRAMS, serve, started
from .jupyterlab import run_cell, serve_notebook
from .known_violations import new_violations
from .widget_page import write_page, write_scripts

STALLS = ["barrier", "MIO throttle"]
SAID = "[aria-live]"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A page with a number, what it is compared with, and a choice whose answer is known; its address."""
    folder = tmp_path_factory.mktemp("site")
    write_scripts(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KDA_LEARN_PROGRESS", str(folder / "progress.json"))
        number = predict("s02.blocks", "How many blocks of s02 fit an SM?", unit="blocks")
        choice = predict("s02.stall", "What binds?", choices=STALLS, answer="MIO throttle")
    widgets = [number, number.compare(4), choice]
    write_page(folder, "index", [("predict", state(one)) for one in widgets], "modules")
    with serve(folder) as address:
        yield address


@pytest.fixture
def open_page(browser, site):
    """A function that opens the page and gives its three predictions; afterwards nothing has gone wrong."""

    def opened(**look):
        browser.open(f"{site}/index.html", **look)
        return [Explorer(browser, number) for number in range(3)]

    yield opened
    browser.evaluate("localStorage.clear()")
    assert browser.problems(site) == []


def wait_for(explorer, text):
    """Waits until a prediction says this."""
    script = "return document.querySelectorAll('[data-widget] > div')[number].shadowRoot"
    script += ".querySelector('[aria-live]').textContent.includes(text)"
    explorer.browser.wait_for(script, number=explorer.number, text=text)


def test_a_guess_on_a_page_lasts_and_is_compared(open_page):
    number, compared, choice = open_page()
    assert number.text(SAID).startswith("A guess is enough")
    assert compared.text(SAID) == "It is 4 blocks."
    assert "none yet" in compared.text(".sides")
    number.click("input")
    number.browser.type("3")
    number.press("Enter")
    wait_for(number, "Kept: 3 blocks.")
    wait_for(compared, "You predicted 3 blocks. It is 4 blocks: your guess was too low.")
    choice.focus("input", 0)
    choice.press(" ")
    wait_for(choice, "You chose “barrier”. It is “MIO throttle”.")
    number, compared, choice = open_page()
    assert number.text(SAID).startswith("Kept: 3 blocks.") and "too low" in compared.text(SAID)
    assert "You chose “barrier”" in choice.text(SAID)


def test_the_button_keeps_a_guess_too(open_page):
    number, _, _ = open_page()
    number.click("input")
    number.browser.type("5")
    number.click("button")
    wait_for(number, "Kept: 5 blocks.")


def test_words_are_no_number(open_page):
    number, _, _ = open_page()
    before = number.text(SAID)
    number.click("input")
    number.browser.type("many")
    number.press("Enter")
    assert number.text(SAID) == before


@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_a_narrow_page_in_light_and_dark(open_page, dark):
    number, _, _ = open_page(width=360, dark=dark)
    assert number.browser.page_width() <= 360
    assert ("255, 255, 255" in number.style(".root", "backgroundColor")) == (not dark)
    assert new_violations(number.browser) == []


IN_LAB = """
const host = document.querySelector(".jp-OutputArea [data-lm-suppress-shortcuts]");
const one = (css) => host?.shadowRoot.querySelector(css);
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a notebook with a prediction: its address, and the file that the guess goes to."""
    folder = tmp_path_factory.mktemp("lab")
    source = "from kda_learn import predict\npredict('s02.blocks', 'How many blocks?', unit='blocks')"
    with serve_notebook(folder, source) as address:
        yield address, folder / "progress.json"


@pytest.mark.parametrize("name", PROGRAMS)
def test_enter_keeps_a_guess_in_jupyterlab(name, lab):
    address, progress = lab
    with started(
        name
    ) as own:  # JupyterLab asks before it lets its page go: no later test can have this browser
        keep_a_guess_in_jupyterlab(own, address, progress)


def keep_a_guess_in_jupyterlab(browser, address, progress):
    progress.unlink(missing_ok=True)
    browser.open(address)
    run_cell(browser)
    browser.wait_for(IN_LAB + "return one('input') != null")
    browser.click(IN_LAB + "return one('input')")
    browser.type("3")
    browser.press("Enter")
    browser.wait_for(IN_LAB + "return one('[aria-live]').textContent.includes('Kept: 3 blocks.')")
    end = time.monotonic() + 20
    while not progress.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert json.loads(progress.read_text())["predictions"]["s02.blocks"]["guess"] == 3
