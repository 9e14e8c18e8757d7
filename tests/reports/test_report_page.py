"""The page of a reproduction: what it says, and that it stands alone."""

from dataclasses import replace

from pretended_reproduction import B32, NO_NCU, TWO

from kda_learn.ground.errors import MachineUnavailable
from kda_learn.reports import parts as reproduce_parts
from kda_learn.reports.page import page
from kda_learn.reports.reproduce import reproduce


def missing():
    raise MachineUnavailable("No GPU can be used, the NVIDIA driver does not answer.")


def measured_page(machine, tmp_path, **changes):
    found = reproduce(tmp_path, **changes)
    return found, (tmp_path / "report.html").read_text()


def test_the_page_stands_alone(machine, tmp_path):
    found, text = measured_page(machine, tmp_path)
    assert "<script" not in text and " src=" not in text and "@import" not in text and "url(" not in text
    assert text.count("<svg") == 3 + 2
    for row in found.rows:
        assert f"<dt>{row.stage}</dt>" in text
    assert "H200, 132 SMs" in text and "H200, 80 SMs" in text
    assert "same sign, other size" in text
    assert "1.2" in text and "its products would take" in text
    assert "yuyanqi.com" in text
    assert "Driver 570.1, CUDA 12.8, NVRTC 12.9." in text


def test_only_the_same_comparison_stands_beside(machine, tmp_path, monkeypatch):
    """s11 against s02, which is not what the record compares it with."""
    ladders = machine.ladders

    def against_s02(stages, configs, sms, heads):
        (found,) = ladders(stages, configs, sms, heads)
        rows = [replace(row, base="s02") if row.stage == "s11" else row for row in found.rows]
        return [replace(found, rows=rows)]

    monkeypatch.setattr(reproduce_parts, "measured_ladders", against_s02)
    _, text = measured_page(machine, tmp_path, **TWO)
    cells = {
        stage: text.split(f'<th scope="row">{stage}</th>')[1].split("</tr>")[0].count("%")
        for stage in TWO["stages"]
    }
    assert cells == {"s11": 2, "s12": 4}  # its own change and the article's; and those of two records


def test_the_page_says_whose_counters(machine, tmp_path):
    machine.failing["profile"] = MachineUnavailable(NO_NCU)
    _, text = measured_page(machine, tmp_path, **TWO)
    assert "They are recorded ones, not this GPU's." in text


def test_a_page_without_any_figures(tmp_path, machine):
    """A stage that was not timed, no ceilings, no counters: nothing fails, nothing is drawn from nothing."""
    found = reproduce(tmp_path, stages=["s12"], configs=[B32])
    nothing = {"median_us": None, "delta_pct": None, "delta_ci_pct": None, "verdict": None}
    rows = [replace(row, **nothing, reason="not timed, its check fails") for row in found.rows]
    found.ladders = [replace(found.ladders[0], rows=rows)]
    found.roofline, found.limits, found.profiles = [], None, []
    text = page(found)
    assert "not timed, its check fails" in text
    assert "<svg" not in text
