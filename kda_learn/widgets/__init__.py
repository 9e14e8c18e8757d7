"""Explorers for notebooks and for pages without Python. Needs anywidget; `import kda_learn` does not."""

from .bank_map import bank_map
from .explorer import bundle, state
from .tiles import tiles

__all__ = ["bank_map", "bundle", "state", "tiles"]
