"""Reading compute-sanitizer's verdict, and the answer where it cannot run."""

import pytest

from kda_learn.errors import MachineUnavailable
from kda_learn.sanitize import findings, sanitize


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ("========= COMPUTE-SANITIZER\n75 launches\n========= ERROR SUMMARY: 0 errors\n", 0),
        ("========= Invalid __shared__ write\n========= ERROR SUMMARY: 1 error\n", 1),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0),
        ("========= RACECHECK SUMMARY: 3 hazards displayed (3 errors, 0 warnings)\n", 3),
        ("========= Error: process didn't terminate successfully\n", None),
    ],
)
def test_the_verdict_is_read(output, found):
    assert findings(output) == found


def test_without_a_gpu_one_sentence_says_so(monkeypatch):
    monkeypatch.setenv("KDA_LEARN_MACHINE", "emulator")
    with pytest.raises(MachineUnavailable, match="KDA_LEARN_MACHINE"):
        sanitize(["s12"])
