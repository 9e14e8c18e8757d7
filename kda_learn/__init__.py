"""kda-learn: one CUDA kernel, optimised step by step, on a Hopper GPU or on any CPU.

These are the words a notebook uses. Each is loaded when it is first named, so that `import kda_learn` costs
nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_HOME_OF = {
    "check": "check",
    "compile": "compile",
    "diff": "stages",
    "dstate_scan": "kernel_a",
    "profile": "profile",
    "random_problem": "problem",
    "run": "run",
    "stage": "stages",
    "trace": "tile_trace",
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
