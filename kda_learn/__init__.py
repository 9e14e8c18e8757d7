"""kda-learn: one CUDA kernel, optimised step by step, on a Hopper GPU or on any CPU.

These are the words a notebook uses: what they give displays itself. Each is loaded when it is first named,
so that `import kda_learn` costs nothing. A program that wants plain data takes the function of the same name
from the module of that name, `from kda_learn.check import check`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_HOME_OF = {
    "bank_map": "lessons.explorers",
    "card": "lessons.cards",
    "check": "lessons.running",
    "compile": "lessons.compiling",
    "diff": "lessons.changes",
    "dstate_scan": "kernel_a",
    "grade": "exercises",
    "hint": "exercises",
    "ladder_chart": "lessons.charts",
    "measure": "lessons.measuring",
    "occupancy_chart": "lessons.charts",
    "predict": "lessons.predicting",
    "profile": "lessons.profiling",
    "progress": "lessons.progress",
    "random_problem": "problem",
    "run": "lessons.running",
    "stage": "stages",
    "tiles": "lessons.explorers",
    "trace": "lessons.tracing",
}

__all__ = list(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


class _Package(ModuleType):
    """This package: its words win over its modules.

    Otherwise the first `from kda_learn.check import ...` would make `kda_learn.check` the module, and the
    word of that name would be gone. That kind of import still finds the module.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOME_OF or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

if "IPython" in sys.modules:  # a notebook: `%%kernel` is known as soon as this package is imported
    import_module(f"{__name__}.exercises").register_magic()
