"""Shared-memory wavefronts: what a warp instruction costs, worked out from its 32 lane addresses.

Shared memory has 32 banks of 4 bytes; word w (address // 4) lies in bank w % 32. The hardware serves a warp
instruction in phases of at most 128 bytes. Within a phase each bank delivers one word per wavefront, and a
word that several lanes ask for is delivered once and broadcast. So a phase takes as many wavefronts as the
busiest bank has distinct words, and an instruction takes the sum over its phases. A phase of more than one
wavefront is a bank conflict. `least` is the count without conflicts: one for each phase with an active lane.

Provenance: equal to the counters l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld/_st.sum in every one of 56
single-warp micro-kernels on an H200, all with full warps. `copy_wavefronts` holds the rule for cp.async.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadInput
from .layouts import BANK_BYTES, BANKS

LANES = 32
COPY_OVERHEAD = 3  # wavefronts that a cp.async takes besides its writes
CHUNK = 1 << 13  # warp instructions counted at a time: a long trace then needs little memory
NO_WORD = -1

_MATRIX_OPERATIONS = {
    f"{name}.x{matrices}{transposed}": matrices
    for name in ("ldmatrix", "stmatrix")
    for matrices in (1, 2, 4)
    for transposed in ("", ".trans")
}


@dataclass(frozen=True)
class Service:
    """How the hardware cuts a warp instruction into phases."""

    phases: int
    lanes: int  # that share a phase: phase p serves lanes p * lanes and up
    words: int  # of 4 bytes, per lane


@dataclass(frozen=True)
class Cost:
    """What n warp instructions cost, each array int64 [n]."""

    wavefronts: NDArray[np.int64]
    least: NDArray[np.int64]
    max_way: NDArray[np.int64]  # the distinct words of the busiest bank in the worst phase


@dataclass(frozen=True)
class Phase:
    """One phase of one warp instruction, as data for pictures."""

    lanes: list[int]  # the active ones
    words: list[list[int]]  # for each of these lanes the words it touches (address // 4)
    banks: list[list[int]]  # and the banks in which they lie
    shared: dict[int, list[int]]  # words that several lanes touch, one broadcast each: word -> lanes
    wavefronts: int


def service(op: str, width: int) -> Service:
    """How an operation is served: op is its traced name, such as "lds", "ldmatrix.x4.trans", "cp.async.ca".

    width: the bytes a lane moves: 2, 4, 8 or 16. Raises BadInput for other operations and widths.
    """
    if width not in (2, 4, 8, 16):
        raise BadInput(f"an access of {width} bytes per lane was given: shared memory serves 2, 4, 8 or 16")
    words = max(1, width // BANK_BYTES)
    if op in _MATRIX_OPERATIONS:
        return Service(phases=_MATRIX_OPERATIONS[op], lanes=8, words=4)
    if op in ("cp.async.cg", "cp.async.ca"):
        return Service(phases=4, lanes=8, words=words)
    if op in ("lds", "sts"):
        return Service(phases=words, lanes=LANES // words, words=words)
    raise BadInput(
        f"operation {op!r} was given: choose lds, sts, ldmatrix.xN, stmatrix.xN or cp.async.cg/.ca"
    )


def wavefronts(addresses: ArrayLike, mask: ArrayLike, bytes: int, matrices: int = 0) -> NDArray[np.int64]:
    """Wavefronts of n warp loads or stores, int64 [n].

    addresses: byte addresses [n, 32], of inactive lanes anything. mask: uint32 [n], bit l set for an active
    lane l. bytes: what a lane moves. matrices: 1, 2 or 4 for ldmatrix and stmatrix, whose row addresses come
    from lanes 0-7, 8-15 and so on; 0 for all other accesses.
    """
    return ways(addresses, mask, _plain_service(bytes, matrices)).sum(axis=1)


def least(mask: ArrayLike, bytes: int, matrices: int = 0) -> NDArray[np.int64]:
    """The fewest wavefronts such accesses can take, int64 [n]: one for each phase with an active lane.

    For a full warp that is 1, 1, 2, 4 at 2, 4, 8, 16 bytes, and the number of matrices.
    """
    return _active_phases(mask, _plain_service(bytes, matrices))


def copy_wavefronts(addresses: ArrayLike, mask: ArrayLike, bytes: int, op: str) -> NDArray[np.int64]:
    """Wavefronts of n cp.async warp instructions from their destinations, int64 [n]; op: "cp.async.cg"/".ca".

    The counter is l1tex__data_pipe_lsu_wavefronts_mem_shared.sum: those of loads and stores see no copies.

    Provenance: four figures from an H200. A 16-byte .cg copy takes 3 wherever it goes. A 4-byte .ca copy
    takes 7 when linear and 35 when its lanes are 256 bytes apart (the hardware calls 3 and 31 of these
    conflicts). The rule that gives all four: 3 for the instruction, and for .ca its writes on top, eight
    lanes a phase. Copies of 8 and 16 bytes by .ca, and inactive lanes, follow the same rule unmeasured.
    """
    served = service(op, bytes)
    if op == "cp.async.cg":
        return _copy_overhead(mask)
    return _copy_overhead(mask) + ways(addresses, mask, served).sum(axis=1)


def copy_least(mask: ArrayLike, bytes: int, op: str) -> NDArray[np.int64]:
    """The fewest wavefronts such copies can take, int64 [n]: for a full warp 3 (.cg) or 7 (.ca)."""
    served = service(op, bytes)
    if op == "cp.async.cg":
        return _copy_overhead(mask)
    return _copy_overhead(mask) + _active_phases(mask, served)


def cost(op: str, addresses: ArrayLike, mask: ArrayLike, width: int) -> Cost:
    """What n warp instructions of one traced operation cost, whatever it is; arguments as above."""
    served = service(op, width)
    if op == "cp.async.cg":
        max_way = np.ones(np.size(mask), dtype=np.int64)
    else:
        max_way = ways(addresses, mask, served).max(axis=1)
    if op.startswith("cp.async"):
        return Cost(copy_wavefronts(addresses, mask, width, op), copy_least(mask, width, op), max_way)
    matrices = _MATRIX_OPERATIONS.get(op, 0)
    return Cost(wavefronts(addresses, mask, width, matrices), least(mask, width, matrices), max_way)


def ways(addresses: ArrayLike, mask: ArrayLike, served: Service) -> NDArray[np.int64]:
    """The distinct words of the busiest bank, for each phase of n warp instructions: int64 [n, phases].

    addresses and mask as in `wavefronts`.
    """
    all_addresses, all_active = _checked(addresses, mask)
    result = np.zeros((len(all_active), served.phases), dtype=np.int64)
    for start in range(0, len(all_active), CHUNK):
        chunk = slice(start, start + CHUNK)
        words = _words(all_addresses[chunk], all_active[chunk], served)
        result[chunk] = _busiest_bank(words)
    return result


def phases(addresses: ArrayLike, mask: int, op: str, bytes: int) -> list[Phase]:
    """One warp instruction, byte addresses [32], taken apart for a picture; phases without lanes left out."""
    served = service(op, bytes)
    one_address, one_active = _checked([addresses], [mask])
    words = _words(one_address, one_active, served)
    counts = _busiest_bank(words)[0]
    result = []
    for phase in range(served.phases):
        in_phase = np.flatnonzero(words[0, phase, :, 0] != NO_WORD)
        if in_phase.size == 0:
            continue
        lanes = (in_phase + phase * served.lanes).tolist()
        touched = words[0, phase, in_phase]
        lanes_of: dict[int, list[int]] = {}
        for lane, lane_words in zip(lanes, touched.tolist(), strict=True):
            for word in lane_words:
                lanes_of.setdefault(word, []).append(lane)
        shared = {word: sharers for word, sharers in lanes_of.items() if len(sharers) > 1}
        banks = (touched % BANKS).tolist()
        result.append(Phase(lanes, touched.tolist(), banks, shared, int(counts[phase])))
    return result


def _plain_service(bytes: int, matrices: int) -> Service:
    """The service of a load or store; loads and stores are served alike."""
    return service(f"ldmatrix.x{matrices}" if matrices else "lds", bytes)


def _checked(addresses: ArrayLike, mask: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Addresses as int64 [n, 32] and the mask as bool [n, 32]."""
    checked = np.asarray(addresses, dtype=np.int64)
    active = _active_lanes(mask)
    if checked.shape != active.shape:
        raise BadInput(
            f"addresses of shape {list(checked.shape)} and {len(active)} masks were given: "
            f"want addresses [n, {LANES}] and masks [n]"
        )
    return checked, active


def _active_lanes(mask: ArrayLike) -> NDArray[np.bool_]:
    """Masks [n] as bool [n, 32]."""
    masks = np.atleast_1d(np.asarray(mask)).astype(np.uint32)
    return (masks[:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)


def _active_phases(mask: ArrayLike, served: Service) -> NDArray[np.int64]:
    """How many phases of each instruction have an active lane, int64 [n]."""
    active = _active_lanes(mask)[:, : served.phases * served.lanes]
    return active.reshape(len(active), served.phases, served.lanes).any(axis=2).sum(axis=1)


def _copy_overhead(mask: ArrayLike) -> NDArray[np.int64]:
    """What a copy takes besides its writes, int64 [n]; nothing when no lane is active."""
    return np.where(_active_lanes(mask).any(axis=1), COPY_OVERHEAD, 0)


def _words(addresses: NDArray[np.int64], active: NDArray[np.bool_], served: Service) -> NDArray[np.int64]:
    """The words each lane touches, int64 [n, phases, lanes, words per lane]; NO_WORD for inactive lanes."""
    lanes = served.phases * served.lanes
    words = addresses[:, :lanes, None] // BANK_BYTES + np.arange(served.words)
    words = np.where(active[:, :lanes, None], words, NO_WORD)
    return words.reshape(len(addresses), served.phases, served.lanes, served.words)


def _busiest_bank(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """From words [n, phases, ...] the distinct words of the bank that has most of them, int64 [n, phases]."""
    count, phase_count = words.shape[:2]
    in_order = np.sort(words.reshape(count * phase_count, -1), axis=1)
    is_new = in_order != NO_WORD
    is_new[:, 1:] &= in_order[:, 1:] != in_order[:, :-1]
    phase_index, slot = np.nonzero(is_new)
    bank = in_order[phase_index, slot] % BANKS
    per_bank = np.bincount(phase_index * BANKS + bank, minlength=count * phase_count * BANKS)
    return per_bank.reshape(count, phase_count, BANKS).max(axis=2)
