"""How many blocks share an SM: the rule by which the hardware divides its resources."""

from dataclasses import dataclass

from ..ground.given import one_of, whole
from .limits import ARCHITECTURES, LANES, MOST_THREADS, Architecture


@dataclass(frozen=True)
class Occupancy:
    """How many blocks of a kernel an SM holds at once, and why no more."""

    blocks: int
    limited_by: str  # the resource that runs out first; several are joined by " and "
    percent: float  # resident warps, of the most an SM can hold
    limits: dict[str, int]  # for each resource the blocks that it alone would allow


def blocks_per_sm(
    registers: int, dynamic_smem: int, threads: int, *, architecture: str = "sm_90"
) -> Occupancy:
    """Occupancy of a kernel with so many registers per thread, bytes of shared memory and threads per block.

    dynamic_smem: all shared memory that a block asks for; static shared memory counts in full too. Zero
    blocks means that the kernel cannot be launched there. architecture: "sm_80", "sm_86", "sm_89", "sm_90",
    "sm_100"; "sm_90a" counts as "sm_90". Raises BadInput for values that no kernel can have.
    """
    sm = _architecture(architecture)
    whole("registers (per thread)", registers, 1, 255)
    whole("threads (per block)", threads, 1, MOST_THREADS)
    whole("dynamic_smem (bytes)", dynamic_smem)
    warps = -(-threads // LANES)
    limits = {
        "shared memory": _blocks_by_shared_memory(dynamic_smem, sm),
        "registers": _warps_by_registers(registers, sm) // warps,
        "threads": sm.threads // (warps * LANES),
        "blocks": sm.blocks,
    }
    blocks = min(limits.values())
    limited_by = " and ".join(name for name, limit in limits.items() if limit == blocks)
    percent = 100 * blocks * warps * LANES / sm.threads
    return Occupancy(blocks, limited_by, percent, limits)


def room_for_blocks(blocks: int, dynamic_smem: int, *, architecture: str = "sm_90") -> int:
    """Bytes of shared memory that a block can ask for on top, at most, while so many blocks still fit an SM.

    Negative if they do not fit as it is. dynamic_smem, architecture: as in `blocks_per_sm`.
    """
    whole("blocks (per SM)", blocks, 1)
    whole("dynamic_smem (bytes)", dynamic_smem)
    sm = _architecture(architecture)
    share = sm.shared_memory // blocks // sm.shared_memory_unit * sm.shared_memory_unit
    return min(share - sm.reserved_shared_memory, sm.shared_memory_per_block) - dynamic_smem


def _architecture(name: str) -> Architecture:
    """The architecture of a name such as "sm_90" or "sm_90a". Raises BadInput for others."""
    base = name.removesuffix("a") if isinstance(name, str) else name
    return ARCHITECTURES[one_of("architecture", base, tuple(ARCHITECTURES))]


def _blocks_by_shared_memory(bytes_per_block: int, sm: Architecture) -> int:
    """Blocks that the SM's shared memory holds."""
    if bytes_per_block > sm.shared_memory_per_block:
        return 0
    taken = _round_up(bytes_per_block + sm.reserved_shared_memory, sm.shared_memory_unit)
    return sm.shared_memory // taken


def _warps_by_registers(registers: int, sm: Architecture) -> int:
    """Warps that the SM's registers hold."""
    registers_per_warp = _round_up(registers * LANES, sm.register_unit)
    registers_per_scheduler = sm.registers // sm.schedulers
    return registers_per_scheduler // registers_per_warp * sm.schedulers


def _round_up(value: int, unit: int) -> int:
    """The smallest multiple of unit that is not below value."""
    return -(-value // unit) * unit
