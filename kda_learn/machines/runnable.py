"""A runnable: a kernel and all that one launch of it takes. Every engine takes one.

A family of kernels (Kernel A, a lab kernel) makes runnables of its problems; the machines launch them, the
tracer and the profiler look at them, the timing rounds time them, and none of these knows which kernel it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

Judge = Callable[[Mapping[str, Any]], list[str]]
"""From the outputs by name to what is wrong with them, one sentence each; an empty list if all is well."""


def satisfied(outputs: Mapping[str, Any]) -> list[str]:
    """The judge of a runnable whose answer is looked at elsewhere."""
    return []


def on_host(array: Any) -> NDArray[Any]:
    """An output as NumPy's array: CuPy's is copied from the GPU."""
    return array.get() if hasattr(array, "get") else array


@dataclass(frozen=True)
class Runnable:
    """A kernel and one launch of it.

    arguments: in the order of the kernel's parameters: arrays (NumPy's, to be launched from host memory, or
    those of CuPy and PyTorch that lie on a GPU), None for a null pointer, NumPy scalars. outputs: the name of
    each array that the kernel writes, and its place among the arguments. in_place: those of them that hold
    something before the launch, which must stay. judge: says what is wrong with them.
    """

    source: Path
    entry: str  # the kernel's name, with its template arguments if it has any
    arguments: tuple[Any, ...]
    grid: tuple[int, int, int]
    threads: int | tuple[int, int, int]  # of a block: along x, or along x, y and z
    dynamic_smem_bytes: int = 0
    outputs: Mapping[str, int] = field(default_factory=dict)
    in_place: frozenset[str] = frozenset()
    judge: Judge = satisfied

    @property
    def block(self) -> tuple[int, int, int]:
        """Threads of a block along x, y and z."""
        return (self.threads, 1, 1) if isinstance(self.threads, int) else self.threads

    @property
    def written(self) -> dict[str, Any]:
        """The output arrays by name."""
        return {name: self.arguments[place] for name, place in self.outputs.items()}

    @property
    def poisoned(self) -> dict[str, Any]:
        """Those of them that hold nothing before the launch: poison shows what the kernel leaves out."""
        return {name: array for name, array in self.written.items() if name not in self.in_place}
