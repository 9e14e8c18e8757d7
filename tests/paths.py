"""Where things lie, for all tests."""

from pathlib import Path

TESTS = Path(__file__).resolve().parent
REPOSITORY = TESTS.parent
NOTEBOOKS = REPOSITORY / "notebooks"
