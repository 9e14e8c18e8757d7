"""The ladder's profiles recorded, and made again from the pages that were kept."""

import dataclasses
import json
import zipfile

import pytest
from ncu_pages_of import LAUNCH, lay_out, pretend_ncu
from pretended_gpu import H200

from kda_learn.ground.errors import KdaError, MachineUnavailable
from kda_learn.ground.say import heard_by
from kda_learn.kernel_a.tile import trace
from kda_learn.kernel_a.variants import compile_stage
from kda_learn.maintain import profiles as pack
from kda_learn.performance import profile_measure
from kda_learn.performance.profile import Target, load

S12, S02 = Target("s12"), Target("s02", 4, "B1/T8192")


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    """A computer with an H200 and ncu, on which the ladder has these two."""
    try:
        compile_stage(S12.kernel).sass()
        trace("s12")
    except MachineUnavailable as missing:
        pytest.skip(str(missing))
    for module in (profile_measure, pack):
        monkeypatch.setattr(module, "hopper", lambda index=0: H200)
    monkeypatch.setattr(pack, "targets", lambda: [S12, S02])
    return pretend_ncu(monkeypatch, tmp_path)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "not" / "yet"


def undated(profiles):
    """What was measured twice or read again differs in its date alone."""
    return [
        dataclasses.replace(one, provenance=dataclasses.replace(one.provenance, date="")) for one in profiles
    ]


def lay_out_both(pages):
    """The profiled program is of this computer, and so has its compiler."""
    lay_out(pages, [S12, S02], [LAUNCH | {"nvrtc": compile_stage(S12.kernel).nvrtc}] * 2)


def said_by(work, *arguments):
    said = []
    with heard_by(said.append):
        work(*arguments)
    return said


def test_the_pack_can_be_rebuilt_from_its_pages(fake_ncu, folder):
    lay_out_both(fake_ncu)
    assert pack.record(folder) == [folder / pack.RECORD, folder / pack.PAGES]
    measured = list(load(folder / pack.RECORD))
    assert [one.stage for one in measured] == ["s12", "s02"]
    (folder / pack.RECORD).unlink()
    assert pack.rebuild(folder) == [folder / pack.RECORD]
    assert undated(load(folder / pack.RECORD)) == undated(measured)


def test_how_each_went_is_said(fake_ncu, folder):
    lay_out_both(fake_ncu)
    first, second = (line for line in said_by(pack.record, folder) if "VSplit" in line and "|" in line)
    assert first.startswith("s12 VSplit 1: time_us 512 l1_pct 71")
    assert "LDS " in first and "(+0.00 %)" in first and "mio_throttle 4.50" in first
    assert second.startswith("s02 VSplit 4: ")


def test_a_stage_that_has_changed_is_left_out(fake_ncu, folder, monkeypatch):
    lay_out_both(fake_ncu)
    pack.record(folder)
    digests = pack.digests
    monkeypatch.setattr(
        pack, "digests", lambda names: {"s12": "another"} if names == ["s12"] else digests(names)
    )
    said = said_by(pack.rebuild, folder)
    assert "s12 at VSplit 1 FAILED: The source of s12 has changed since: profile it again." in said
    assert [one.stage for one in load(folder / pack.RECORD)] == ["s02"]


def test_a_launch_that_fails_is_said_and_left_out(fake_ncu, folder):
    lay_out(fake_ncu, [S12])  # the program ends before s02
    said = said_by(pack.record, folder)
    assert any(line.startswith("s02 at VSplit 4 FAILED: The profiled process ended") for line in said)
    assert [one.stage for one in load(folder / pack.RECORD)] == ["s12"]


@pytest.mark.parametrize("trouble", ["ncu fails", "pages lack a launch"])
def test_what_was_profiled_one_by_one_can_be_rebuilt_too(fake_ncu, folder, trouble):
    lay_out_both(fake_ncu)
    if trouble == "ncu fails":
        (fake_ncu / "most.txt").write_text("1")
    else:
        (fake_ncu / "lost.txt").write_text("1")
    pack.record(folder)
    measured = list(load(folder / pack.RECORD))
    assert [one.stage for one in measured] == ["s12", "s02"]
    with zipfile.ZipFile(folder / pack.PAGES) as archive:
        names = archive.namelist()
        assert len(names) == len(set(names))
        kept = [json.loads(archive.read(name)) for name in names if name.endswith("about.json")]
    assert [len(about["targets"]) for about in kept] == ([1, 1] if trouble == "ncu fails" else [2, 1, 1])
    pack.rebuild(folder)
    assert undated(load(folder / pack.RECORD)) == undated(measured)


def test_without_a_single_profile_the_record_stays_as_it_was(fake_ncu, folder):
    lay_out_both(fake_ncu)
    pack.record(folder)
    before = (folder / pack.RECORD).read_text()
    lay_out(fake_ncu, [S12, S02], [{"error": "no memory"}] * 2)
    with pytest.raises(KdaError, match="No profile could be made"):
        pack.record(folder)
    assert (folder / pack.RECORD).read_text() == before


def test_only_the_dates_of_what_is_recorded_together_are_one(fake_ncu, folder):
    """Each profile says which text of its own stage was measured."""
    lay_out_both(fake_ncu)
    pack.record(folder)
    s12, s02 = load(folder / pack.RECORD)
    assert (set(s12.provenance.digest), set(s02.provenance.digest)) == ({"s12"}, {"s02"})
    assert dataclasses.replace(s12.provenance, digest={}) == dataclasses.replace(s02.provenance, digest={})
