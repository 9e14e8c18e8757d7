"""An engine: runnables timed in rounds on a GPU, and the statistics of times.

Imports machines and the rooms below.
"""
