"""An engine: runnables watched by ncu, NVIDIA's profiler, and its counts mapped to source lines.

Imports tracing, machines and the rooms below.
"""
