"""JSON for programs in any language."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The same without numbers that JSON does not have: NaN and infinities become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
