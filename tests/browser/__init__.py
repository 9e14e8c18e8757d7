"""A real browser for tests: see `harness`."""
