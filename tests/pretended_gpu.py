"""A GPU machine for tests without a GPU: a clock that only kernels move, and kernels written in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kda_learn.machines.device import ClockSample, Gpu
from kda_learn.machines.runnable import Runnable

H200 = Gpu(0, "NVIDIA H200", 132, (9, 0), "580.159.04", "13.0", 150 * 10**9, 232448, "0000:00:00.0")


@dataclass(frozen=True)
class Start:
    """One launch."""

    name: str
    runnable: Runnable
    stream: int


@dataclass
class PretendedMachine:
    """work: what a kernel does when it is launched; it returns the milliseconds that it takes.

    starts: all launches, in order. sampled_after: what had been waited for when clocks were sampled.
    """

    work: Callable[[Runnable], float]
    name_of: Callable[[Runnable], str] = lambda runnable: runnable.entry
    blocks: int = 3
    clocks: ClockSample | None = None
    now: float = 0.0
    starts: list[Start] = field(default_factory=list)
    sampled_after: list[float] = field(default_factory=list)
    waited_for: float = 0.0

    @property
    def order(self) -> list[str]:
        """The names of what was launched."""
        return [start.name for start in self.starts]

    def install(self, monkeypatch) -> PretendedMachine:
        """Put this machine in the place of the GPU behind the rounds of timing."""
        rounds = "kda_learn.timing.rounds"
        monkeypatch.setattr(f"{rounds}.kernel_of", lambda runnable, device: _Kernel(self, runnable))
        monkeypatch.setattr(f"{rounds}.record_event", lambda stream: self.now)
        monkeypatch.setattr(f"{rounds}.elapsed_ms", lambda start, end: end - start)
        monkeypatch.setattr(f"{rounds}.synchronize", lambda gpu: None)
        monkeypatch.setattr(f"{rounds}.wait", self._wait)
        monkeypatch.setattr(f"{rounds}.poison", _poison)
        monkeypatch.setattr(f"{rounds}.sample_clocks", self._sample)
        return self

    def _wait(self, event: float) -> None:
        self.waited_for = event

    def _sample(self, gpu: Gpu) -> ClockSample | None:
        self.sampled_after.append(self.waited_for)
        return self.clocks


@dataclass
class _Kernel:
    machine: PretendedMachine
    made_for: Runnable
    gpu: Gpu = H200

    def start(self, runnable: Runnable, stream: int) -> None:
        assert (runnable.source, runnable.entry) == (self.made_for.source, self.made_for.entry)
        self.machine.starts.append(Start(self.machine.name_of(runnable), runnable, stream))
        self.machine.now += self.machine.work(runnable)

    def blocks_per_sm(self, threads: int) -> int:
        return self.machine.blocks


def _poison(output: Any) -> None:
    """NaN in an array of NumPy or of PyTorch; every bit set in one of integers."""
    output[...] = float("nan") if "float" in str(output.dtype) else -1 % 2**32
