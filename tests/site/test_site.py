"""The built site in a real browser: nothing missing, nothing from elsewhere, every explorer alive."""

import importlib.util
import os
import re
import subprocess
import sys
from html import unescape

import pytest
from browser.harness import browser, serve
from paths import REPOSITORY
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from site_pages import ORIGIN, broken_links, parts_from_elsewhere, read_pages

NOTEBOOKS = sorted((REPOSITORY / "notebooks").rglob("*.ipynb"))
KERNELS = sorted(path for path in (REPOSITORY / "kernels").rglob("*.cu*") if path.suffix in (".cu", ".cuh"))
BUILD_SECONDS = 600  # where others use the processor too; on two free cores it takes less than 180
SECONDS = 20
PHONE = 360  # CSS pixels
SVG = "http://www.w3.org/2000/svg"  # a name, never asked for


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site, built once."""
    if importlib.util.find_spec("material") is None and not os.environ.get("CI"):
        pytest.skip("MkDocs is not installed: pip install -e '.[site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    run = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def pages(folder):
    return read_pages(folder)


@pytest.fixture(scope="module")
def chromium():
    with browser() as one:
        yield one


@pytest.fixture(scope="module")
def origin(folder):
    with serve(folder) as address:
        yield address


@pytest.fixture(scope="module")
def open_page(chromium, origin):
    """A function that opens a page in a large window and waits for its explorers."""

    def opened(address):
        chromium.look()
        chromium.open(f"{origin}/{address}")
        wait_for(chromium.driver, "return document.body.dataset.explorers")
        return chromium.driver

    return opened


@pytest.fixture(scope="module")
def problems(chromium, origin):
    """A function that gives what went wrong on the open page."""
    return lambda: chromium.console_errors() + chromium.outside_requests(origin)


@pytest.fixture
def show(open_page, problems):
    """The same as open_page; afterwards nothing must have gone wrong."""
    yield open_page
    assert problems() == []


@pytest.fixture(scope="module")
def visits(open_page, problems, chromium, pages):
    """Every page opened once: address to what went wrong there, and to its width in a phone's window."""
    wrong, widths = {}, {}
    for address in pages:
        open_page(address)
        wrong[address] = problems()
        chromium.look(width=PHONE, height=700)
        widths[address] = chromium.page_width()
    return wrong, widths


def wait_for(driver, script, *arguments):
    """Waits until a script gives something, and gives it."""
    return WebDriverWait(driver, SECONDS).until(lambda _: driver.execute_script(script, *arguments))


def test_every_source_has_its_page(pages):
    chapters = {path.relative_to(REPOSITORY / "notebooks").with_suffix("") for path in NOTEBOOKS}
    kernels = {path.relative_to(REPOSITORY / "kernels") for path in KERNELS}
    expected = {f"chapters/{name}/" for name in chapters} | {f"kernels/{name}/" for name in kernels}
    assert expected <= set(pages)
    named = {
        link.removeprefix(ORIGIN) for index in ("chapters/", "kernels/") for _, link in pages[index].links
    }
    assert expected <= named


def test_links_lead_somewhere(folder, pages):
    assert broken_links(folder, pages) == []


def test_nothing_is_loaded_from_elsewhere(folder, pages):
    assert parts_from_elsewhere(pages) == []
    ours = [*folder.glob("assets/*.*"), *folder.glob("assets/widgets/*")]
    assert [path.name for path in ours if "http" in path.read_text(encoding="utf-8").replace(SVG, "")] == []


def test_no_page_has_errors_or_asks_another_host(visits):
    assert {address: wrong for address, wrong in visits[0].items() if wrong} == {}


def test_no_page_is_wider_than_a_phone(visits):
    assert {address: width for address, width in visits[1].items() if width > PHONE} == {}


EXPLORERS = """
return [...document.querySelectorAll("[data-widget]")].map((el) => el.querySelector("div")?.shadowRoot ?? el)
"""
CONTROLS = "input:not([type=hidden]), select, button, [tabindex='0']"
DRAWING = "return arguments[0].innerHTML"
FOCUS = """
const controls = [...arguments[0].querySelectorAll(arguments[1])].filter((one) => one.checkVisibility());
controls[arguments[2]]?.focus();
return arguments[2] < controls.length
"""


def move(driver, explorer):
    """Works the controls of an explorer with the keyboard, one after the other, until it draws anew."""
    before = driver.execute_script(DRAWING, explorer)
    number = 0
    while driver.execute_script(FOCUS, explorer, CONTROLS, number):
        for key in (Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.SPACE, Keys.ENTER):
            driver.switch_to.active_element.send_keys(key)
            if driver.execute_script(DRAWING, explorer) != before:
                return
        number += 1


def still_explorers(driver):
    """Moves every explorer of a page; the numbers of those that look as before.

    One without controls, such as a guess beside the truth, must have followed another.
    """
    explorers = driver.execute_script(EXPLORERS)
    before = [driver.execute_script(DRAWING, explorer) for explorer in explorers]
    for explorer in explorers:
        move(driver, explorer)
    after = [driver.execute_script(DRAWING, explorer) for explorer in explorers]
    return [number for number, drawing in enumerate(before) if drawing == after[number]]


def test_every_explorer_redraws_when_it_is_moved(open_page, problems, pages, folder):
    still, wrong = {}, {}
    for address in pages:
        if "data-widget" not in (folder / address / "index.html").read_text(encoding="utf-8"):
            continue
        driver = open_page(address)
        still[address] = still_explorers(driver)
        wrong[address] = problems()
    assert "" in still
    assert {address: each for address, each in still.items() if each} == {}
    assert {address: each for address, each in wrong.items() if each} == {}


def test_the_front_page_does_what_it_says(show):
    driver = show("")
    explorer = driver.execute_script(EXPLORERS)[0]
    figures = "return [...arguments[0].querySelectorAll('.figure b')].map((one) => Number(one.textContent))"
    assert driver.execute_script(figures, explorer) == [32, 1, 31]
    fields = explorer.find_elements(By.CSS_SELECTOR, ".field")
    padding = next(field for field in fields if "Padding" in field.text)
    control = padding.find_element(By.CSS_SELECTOR, "input")
    control.send_keys(Keys.CONTROL, "a")
    control.send_keys("4")
    assert driver.execute_script(figures, explorer) == [1, 1, 0]


def test_light_and_dark_are_switched_and_kept(show):
    scheme = "return document.body.dataset.mdColorScheme"
    is_dark = """
        const root = document.querySelector("[data-widget] > div").shadowRoot.querySelector(".root");
        return root.classList.contains("dark")
    """

    def switch(driver, title):
        driver.find_element(By.CSS_SELECTOR, f"label[title='{title}']").click()
        return driver.execute_script(scheme), wait_for(driver, f"return [(() => {{{is_dark}}})()]")[0]

    assert switch(show(""), "Switch to dark") == ("slate", True)
    driver = show("run/")
    assert driver.execute_script(scheme) == "slate"
    assert switch(show(""), "Switch to light") == ("default", False)


@pytest.mark.parametrize(("word", "where"), [("wavefront", "/chapters/"), ("combine", "/kernels/")])
def test_search_finds_words_of_chapters_and_kernels(show, word, where):
    driver = show("run/")
    driver.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys(word)
    wait_for(driver, f"return document.querySelector('.md-search-result__link[href*=\"{where}\"]')")


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.name)
def test_every_line_of_a_kernel_has_its_address(folder, source):
    page = folder / "kernels" / source.relative_to(REPOSITORY / "kernels") / "index.html"
    code = page.read_text(encoding="utf-8").partition('class="highlight source"')[2]
    found = re.findall(r'<span id="L(\d+)"><a [^>]*></a>(.*)\n', code)
    shown = {int(number): unescape(re.sub(r"<[^>]+>", "", line)) for number, line in found}
    assert shown == dict(enumerate(source.read_text(encoding="utf-8").splitlines(), start=1))


def test_the_address_of_a_line_leads_there(show):
    driver = show("kernels/gpu.cuh/#L80")
    place = "return document.querySelector('#L80').getBoundingClientRect().top"
    assert 0 < wait_for(driver, place) < 900


def test_a_chapter_says_how_it_was_made_and_how_to_run_it(show):
    driver = show("chapters/1-foundations/00_start_here/")
    text = driver.find_element(By.TAG_NAME, "article").text
    assert "computed on the CPU machine" in text
    assert "make learn" in text and "work/1-foundations/00_start_here.ipynb" in text
    links = [one.get_attribute("href") for one in driver.find_elements(By.CSS_SELECTOR, ".how-made a")]
    assert any("kernels/kernel_a/s12_odd_half_stride.cu" in link for link in links)
