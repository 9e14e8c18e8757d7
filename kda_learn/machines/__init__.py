"""Where a kernel is launched: a GPU, or the CPU machine (the emulator, which also finds races and says so).

The emulator's instructions, the finding of races and the first words about them are C++, in
kernels/emulator/; what is made of them is in `causes.py`. Also what this computer is, child processes,
compute-sanitizer. A *runnable* (`runnable.py`) is a source file, an entry, arguments, the shape of a
launch, and a judge of the answer; which kernel it is nobody here knows. Imports compilers and the rooms
below.
"""
