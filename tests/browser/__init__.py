"""Real browsers for tests: see `harness`."""
