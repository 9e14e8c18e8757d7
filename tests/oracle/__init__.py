"""A second opinion on the CPU machine: random small kernels, judged by it and by a few rules in Python.

    language.py        what a kernel is made of, and its CUDA text
    programs.py        random kernels: sound ones, most of them then spoilt in one place
    happens_before.py  the oracle: which accesses are ordered, by the rules of PTX's memory model;
    conflicts.py       and which of them should be
    compare.py         both opinions on many kernels, and where they differ
    __main__.py        `make oracle ARGS='--count 2000'`
    planted.py         mistakes put into the CPU machine: are they found?
    on_gpu.py          the same kernels under compute-sanitizer's racecheck

The oracle was written from PTX's rules, by someone who had not read `kernels/emulator`. When the two differ,
ask PTX, never the other one.
"""
