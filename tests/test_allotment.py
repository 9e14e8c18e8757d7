"""The table of parts, and how tests share the cores: no test without a part, long groups first."""

from pathlib import Path

import pytest
from parts import ALLOTTED, part_of, rows
from workers import LONG, group_of

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    ("nodeid", "part"),
    [
        ("tests/browser/test_tiles.py::test_views_are_switched[firefox]", "browsers"),
        ("tests/site/test_notebooks.py::test_it_runs_without_a_gpu[04_banks]", "notebooks and site"),
        ("tests/site/test_site_pages.py::test_tex_stops_the_build", "notebooks and site"),
        ("tests/oracle/test_oracle.py::test_x", "random kernels"),
        ("tests/sources/test_source.py::test_x", "tests"),
        ("tests/kernels/test_x.py::test_x", "tests"),
    ],
)
def test_every_test_belongs_to_a_part(nodeid, part):
    assert part_of(nodeid) == part


def test_a_part_takes_what_its_tests_take_by_the_number_of_workers():
    assert rows({"browsers": 30.0}, 2, None) == [("browsers", 15.0, 300)]
    assert rows({"browsers": 30.0}, 1, 400.0) == [("browsers", 30.0, 300), ("the rest", 400.0, 360)]
    assert len({part for part, *_ in ALLOTTED}) == len(ALLOTTED)


def test_the_site_is_built_in_one_worker_and_browsers_have_one_each():
    site = {
        group_of(f"tests/{name}::test_x[chromium]") for name in ("site/test_site.py", "browser/test_site.py")
    }
    assert {name for _, name in site} == {"site"}
    tiles = [group_of(f"tests/browser/test_tiles.py::test_x[{name}]") for name in ("firefox", "chromium")]
    assert [name for _, name in tiles] == ["firefox", "chromium"]
    assert group_of("tests/sources/test_source.py::test_x") == (len(LONG), "tests/sources/test_source.py")


def test_a_part_that_takes_too_long_is_said(pytester, monkeypatch):
    monkeypatch.delenv("CI_STARTED", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    folder = pytester.mkdir("tests")
    (folder / "conftest.py").write_text("import parts\nparts.ALLOTTED[:] = [('all', 0, ['*'])]\n")
    (folder / "test_slow.py").write_text("import time\ndef test_slow():\n    time.sleep(.01)\n")
    done = pytester.runpytest_subprocess("-p", "parts", f"--rootdir={pytester.path}", "tests")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["all: 0 s of 0 s allotted: too long, make it faster*"])
