"""Where a kernel is launched: a GPU, or the CPU machine (the emulator, which also finds races and says so).

And what this computer is, child processes, compute-sanitizer. A *runnable* (`runnable.py`) is a source file,
an entry, arguments, the shape of a launch, and a judge of the answer; which kernel it is nobody here knows.
Imports compilers and the rooms below.
"""
