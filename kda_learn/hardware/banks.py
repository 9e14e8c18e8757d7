"""Shared-memory wavefronts: what a warp instruction costs, worked out from its 32 lane addresses.

Shared memory has 32 banks of 4 bytes; word w (address // 4) lies in bank w % 32. The hardware serves a warp
instruction in phases of at most 128 bytes. Within a phase each bank delivers one word per wavefront, and a
word that several lanes ask for is delivered once and broadcast. So a phase takes as many wavefronts as the
busiest bank has distinct words, and an instruction takes the sum over its phases. A phase of more than one
wavefront is a bank conflict. `least` is the count without conflicts: one for each phase with an active lane.
A load of 8 or 16 bytes has twice as many lanes in a phase if every lane n names the same address as its
partner (or one of the two is idle), the partner being n ^ 1 for all lanes or n ^ 2 for all lanes.

cp.async goes two ways. A .ca copy is served like a store to its destinations, if its warp copies one aligned
run of global memory, as every stage does. (Where its lanes copy from here and there, a phase takes as many
wavefronts as the busiest bank of its sources, if those are more.) A .cg copy does not pass through this pipe:
it counts as nothing here. That does not make it free, and no count of banks gives its price. Cycles that 8
warps of one SM took for 512 copies of 16 bytes a lane, sources in L2, by the distance of the destinations:

    bytes from lane to lane      16     32     64    128    144    256    272
    .ca                        5759   7849  10986  19965   5364  19240   5254
    .cg                        3500   4012   5463  27021   8078  24850   7414

.ca pays about one cycle a wavefront. .cg is cheaper where neighbours stay near each other and dearer where
they are spread over far lines: up to 46 cycles a copy above its best. ncu's count by instruction, taken in
code that it patches (smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts), gives .cg a store's
wavefronts, 4 at 16 bytes and 32 at 256; the pipe's own counter says 0 to both.

Provenance: counters of an H200 over kernels/lab/wavefronts.cu, all in
tests/data/hardware_answers_wavefronts.json. Loads, stores, ldmatrix and stmatrix, with whole warps and parts
of warps: l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld/_st.sum in every one of 242 cases. Copies of one
run: l1tex__data_pipe_lsu_wavefronts_mem_shared.sum in every case, less three for each straight piece of code
with copies: ptxas puts three loads that load nothing (`@!PT LDS RZ, [RZ]`) in front of the first. Lanes that
copy zeros (src-size 0) count as stores, those of .cg too; a trace does not tell them from other lanes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..ground.errors import BadInput
from ..ground.given import one_of, text, whole
from .given import whole_numbers
from .layouts import BANK_BYTES, BANKS
from .limits import LANES

CHUNK = 1 << 13  # warp instructions counted at a time: a long trace then needs little memory
NO_WORD = -1
_MASKS = (-(2 ** (LANES - 1)), 2**LANES - 1)  # of an int32 -1 is all lanes
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
    width = one_of("the width of an access, in bytes per lane,", width, (2, 4, 8, 16))
    words = max(1, width // BANK_BYTES)
    if text("op", op, "an operation's name, such as 'lds'") in _MATRIX_OPERATIONS:
        return Service(phases=_MATRIX_OPERATIONS[op], lanes=8, words=4)
    if op in ("lds", "sts", "cp.async.cg", "cp.async.ca"):
        return Service(phases=words, lanes=LANES // words, words=words)
    raise BadInput(
        f"operation {op!r} was given: choose lds, sts, ldmatrix.xN, stmatrix.xN or cp.async.cg/.ca"
    )


def wavefronts(addresses: ArrayLike, mask: ArrayLike, bytes: int, matrices: int = 0) -> NDArray[np.int64]:
    """Wavefronts of n warp loads, int64 [n]; `cost` tells those of any operation.

    addresses: byte addresses [n, 32], of inactive lanes anything. mask: uint32 [n], bit l set for an active
    lane l. bytes: what a lane moves. matrices: 1, 2 or 4 for ldmatrix, whose row addresses come from lanes
    0-7, 8-15 and so on; 0 for all other loads.
    """
    return cost(_load(matrices), addresses, mask, bytes).wavefronts


def least(addresses: ArrayLike, mask: ArrayLike, bytes: int, matrices: int = 0) -> NDArray[np.int64]:
    """The fewest wavefronts such loads can take, int64 [n]: one for each phase with an active lane.

    For a warp of 32 different addresses that is 1, 1, 2, 4 at 2, 4, 8, 16 bytes, and the number of matrices.
    """
    return cost(_load(matrices), addresses, mask, bytes).least


def cost(op: str, addresses: ArrayLike, mask: ArrayLike, width: int) -> Cost:
    """What n warp instructions of one traced operation cost, whatever it is; arguments as above.

    Of cp.async the addresses are the destinations; a .cg copy costs nothing here (see the module's text).
    """
    served = service(op, width)
    all_addresses, active = _checked(addresses, mask)
    counts = np.zeros((3, len(active)), dtype=np.int64)
    if op != "cp.async.cg":
        in_pairs = _in_pairs(op, width, all_addresses, active)
        for one_service, chosen in ((served, ~in_pairs), (_of_pairs(served), in_pairs)):
            counts[:, chosen] = _count(all_addresses[chosen], active[chosen], one_service)
    return Cost(*counts)


def phases(addresses: ArrayLike, mask: int, op: str, bytes: int) -> list[Phase]:
    """One warp instruction, byte addresses [32], taken apart for a picture; phases without lanes left out.

    Of a .cg copy it shows where the writes go: they cost nothing here.
    """
    served = service(op, bytes)
    whole("mask", mask, *_MASKS)
    one_address, one_active = _checked([addresses], [mask])
    if _in_pairs(op, bytes, one_address, one_active)[0]:
        served = _of_pairs(served)
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


def _load(matrices: int) -> str:
    """The traced name of a load."""
    matrices = one_of("matrices", matrices, (0, 1, 2, 4))
    return f"ldmatrix.x{matrices}" if matrices else "lds"


def _in_pairs(
    op: str, width: int, addresses: NDArray[np.int64], active: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which of n instructions serve a lane and its partner as one, bool [n]: see the module's text."""
    paired = np.zeros(len(active), dtype=bool)
    if op == "lds" and width > BANK_BYTES:
        for flip in (1, 2):
            partner = np.arange(LANES) ^ flip
            both = active & active[:, partner]
            paired |= (~both | (addresses == addresses[:, partner])).all(axis=1)
    return paired


def _of_pairs(served: Service) -> Service:
    """The same service with twice as many lanes in a phase."""
    return Service(served.phases // 2, served.lanes * 2, served.words)


def _count(addresses: NDArray[np.int64], active: NDArray[np.bool_], served: Service) -> NDArray[np.int64]:
    """Wavefronts, least and busiest bank of n instructions, int64 [3, n]."""
    result = np.zeros((3, len(active)), dtype=np.int64)
    for start in range(0, len(active), CHUNK):
        chunk = slice(start, start + CHUNK)
        distinct = _busiest_bank(_words(addresses[chunk], active[chunk], served))
        result[:, chunk] = distinct.sum(axis=1), (distinct > 0).sum(axis=1), distinct.max(axis=1)
    return result


def _checked(addresses: ArrayLike, mask: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Addresses as int64 [n, 32] and the mask as bool [n, 32]."""
    checked = whole_numbers("addresses", addresses).astype(np.int64)
    active = _active_lanes(mask)
    if checked.shape != active.shape:
        raise BadInput(
            f"addresses of shape {list(checked.shape)} and {len(active)} masks were given: "
            f"want addresses [n, {LANES}] and masks [n]"
        )
    return checked, active


def _active_lanes(mask: ArrayLike) -> NDArray[np.bool_]:
    """Masks [n] as bool [n, 32]."""
    masks = np.atleast_1d(whole_numbers("mask", mask, *_MASKS)).astype(np.uint32)
    if masks.ndim != 1:
        raise BadInput(f"mask has the shape {list(masks.shape)}: give one mask for each instruction, [n].")
    return (masks[:, None] >> np.arange(LANES, dtype=np.uint32) & 1).astype(bool)


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
