"""Records: written, read back, found, and flagged when the source has changed."""

import json

import pytest

from kda_learn.ground.errors import BadInput
from kda_learn.machines.device import Gpu
from kda_learn.records import store as records
from kda_learn.records.store import Provenance, Record

GPU = Gpu(0, "NVIDIA H20", 78, (9, 0), "550.54", "12.4", 96 * 10**9, 232448, "0000:00:00.0")


def record(kind="ladder", gpu="NVIDIA H200", sms=132, date="2026-11-30T10:00:00+00:00", digest=None):
    where = Provenance(gpu, sms, "580.1", "13.0", "13.0", date, digest if digest is not None else {})
    return Record(kind, where, {"rows": [1, 2.5, None]})


def test_what_is_saved_is_read_back(tmp_path):
    path = tmp_path / "new folder" / "record.json"
    records.save(record(), path)
    assert records.load(path) == record()


def test_the_provenance_of_now():
    found = records.provenance(GPU, ["s00", "s12", "s99"], nvrtc="12.4")
    assert (found.gpu, found.sms, found.driver, found.cuda) == ("NVIDIA H20", 78, "550.54", "12.4")
    assert set(found.digest) == {"s00", "s12"}
    assert found.date.endswith("+00:00")
    assert records.provenance(GPU, [], nvrtc="12.4", sms=40).sms == 40


def test_the_newest_of_its_kind_is_found(tmp_path):
    records.save(record(date="2026-11-30T10:00:00+00:00"), tmp_path / "b.json")
    records.save(record(date="2026-12-01T10:00:00+00:00"), tmp_path / "a.json")
    records.save(record(kind="check", date="2026-12-24T10:00:00+00:00"), tmp_path / "c.json")
    (tmp_path / "figures.json").write_text(json.dumps({"about": "something else"}))
    (tmp_path / "broken.json").write_text("{")
    assert records.find("ladder", folder=tmp_path).provenance.date[:10] == "2026-12-01"
    assert records.find("check", folder=tmp_path).provenance.date[:10] == "2026-12-24"
    assert records.find("profile", folder=tmp_path) is None


@pytest.mark.parametrize(("wanted", "found"), [(80, 80), (78, 80), (132, 132), (114, 132), (None, 132)])
def test_the_nearest_number_of_sms_is_found(tmp_path, wanted, found):
    records.save(record(sms=80, date="2026-11-30T10:00:00+00:00"), tmp_path / "part.json")
    records.save(record(sms=132, date="2026-11-30T11:00:00+00:00"), tmp_path / "whole.json")
    assert records.find("ladder", sms=wanted, folder=tmp_path).provenance.sms == found


def test_a_record_of_the_present_source_is_not_outdated():
    fresh = record(digest=records.digests(["s00", "s12"]))
    assert fresh.outdated() == []
    assert fresh.banner() == (
        "Recorded on 2026-11-30 on an NVIDIA H200 with 132 SMs (driver 580.1, CUDA 13.0), not measured now."
    )


def test_a_record_of_another_source_is_flagged():
    old = record(digest=records.digests(["s00"]) | {"s12": "0" * 64, "s98": "1" * 64})
    assert old.outdated() == ["s12", "s98"]
    assert old.banner().endswith("Recorded from another version of the source: s12, s98.")


def test_a_record_that_is_missing(tmp_path):
    with pytest.raises(BadInput, match=r"no record to read at .*none\.json"):
        records.load(tmp_path / "none.json")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "ladder", "provenance": {"gpu": 1}, "content": {}}']
)
def test_a_file_that_is_no_record(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"other\.json is not a record"):
        records.load(path)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(BadInput, match="cannot be written"):
        records.save(record(), tmp_path / "file" / "record.json")


def test_the_records_of_the_package_can_be_read():
    for path in records.DATA.glob("*.json"):
        if {"kind", "provenance", "content"} <= json.loads(path.read_text()).keys():
            assert records.load(path).kind
