"""What an SM has, and how wide its warps are: the numbers that all other rooms read from here.

From NVIDIA's CUDA C++ programming guide, "Compute capabilities" (technical specifications), and from its
occupancy calculator, which gives the portions in which registers and shared memory are dealt out.
"""

from dataclasses import dataclass

KIB = 1024

LANES = 32
"""Threads of a warp."""

BANKS = 32
"""Of shared memory; each delivers one word of `BANK_BYTES` in a cycle."""

BANK_BYTES = 4

MOST_THREADS = 1024
"""Of a block."""


@dataclass(frozen=True)
class Architecture:
    """What one SM has, and in which portions it deals it out. Shared memory in bytes."""

    shared_memory: int
    shared_memory_per_block: int
    threads: int
    blocks: int
    reserved_shared_memory: int = 1 * KIB  # the system's own part of every block
    shared_memory_unit: int = 128
    registers: int = 64 * KIB  # of 32 bits
    register_unit: int = 256  # a warp gets a multiple of this
    schedulers: int = 4  # a warp belongs to one of them, and the registers are split evenly among them


HOPPER = Architecture(shared_memory=228 * KIB, shared_memory_per_block=227 * KIB, threads=2048, blocks=32)
"""H100, H200 and H20: what the kernels are built for."""

ARCHITECTURES = {
    "sm_80": Architecture(
        shared_memory=164 * KIB, shared_memory_per_block=163 * KIB, threads=2048, blocks=32
    ),
    "sm_86": Architecture(shared_memory=100 * KIB, shared_memory_per_block=99 * KIB, threads=1536, blocks=16),
    "sm_89": Architecture(shared_memory=100 * KIB, shared_memory_per_block=99 * KIB, threads=1536, blocks=24),
    "sm_90": HOPPER,
    "sm_100": Architecture(
        shared_memory=228 * KIB, shared_memory_per_block=227 * KIB, threads=2048, blocks=32
    ),
}
