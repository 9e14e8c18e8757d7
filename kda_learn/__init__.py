"""kda-learn: one CUDA kernel, optimised step by step, on a Hopper GPU or on any CPU.

These are the words a notebook uses: what they give displays itself. Each is loaded when it is first named,
so that `import kda_learn` costs nothing. A program that wants plain data takes the function of the same name
from the room that works it out, such as `from kda_learn.checking.check import check`.
"""

import sys
from importlib import import_module
from typing import Any

_HOME_OF = {
    "bank_map": "lessons.interactive",
    "card": "lessons.cards",
    "check": "lessons.running",
    "compile": "lessons.compiling",
    "diff": "lessons.changes",
    "dstate_scan": "kernel_a.scan",
    "grade": "exercises.words",
    "hint": "exercises.words",
    "ladder_chart": "display.ladder_charts",
    "measure": "lessons.measuring",
    "occupancy_chart": "display.ladder_charts",
    "predict": "lessons.interactive",
    "profile": "lessons.profiling",
    "progress": "lessons.progress",
    "random_problem": "kernel_a.problem",
    "run": "lessons.running",
    "run_file": "lessons.own_kernels",
    "stage": "sources.stages",
    "tiles": "lessons.interactive",
    "trace": "lessons.tracing",
}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


if "IPython" in sys.modules:  # a notebook: `%%kernel` is known as soon as this package is imported
    import_module(f"{__name__}.exercises.words").register_magic()
