"""This computer, its GPU, the CPU machine, child processes: where a runnable is launched.

Imports the rooms below (ground, hardware, sources, compilers). Knows no kernel by name.
"""
