"""What every stage must cost, worked out by hand: wavefronts of one tile, class by class, with nothing run.

A class is a kind of access and a region of shared memory ("store KR"); reads of dS fall into those of G2 and
all others. Each prediction is a number of warp instructions times what one of them takes, and why. Counts are
of all blocks that share a head: VSplit blocks with 8 / VSplit warps each in the chain, so 8 in all, while
every block rebuilds qd, kd and kr for itself.
"""

from math import gcd

from kda_learn.sources.stages import stage

C = 16  # tokens of a tile
D = 128  # rows and columns of dS
WARPS = 8
FRAGMENTS = 8 * (D // 16)  # 16 x 16 pieces of dS, of qd, kd or kr for all warps of the chain: 64
ROW_OF_D = 2 * D  # bytes of a plain row of qd, kd, kr or dS
ROW_OF_CORE = 16  # bytes from row to row of an interleaved core matrix

Prediction = dict[str, int]


def since(name: str, milestone: str) -> bool:
    """Whether a stage is `milestone`, or was built on it."""
    if name == milestone:
        return True
    base = stage(name).base
    return base is not None and since(base, milestone)


def ways(rows: int, pitch: int) -> int:
    """How many of `rows` rows that are `pitch` bytes apart begin at the same place across the banks.

    The banks repeat every 128 bytes, so rows begin at 128 / gcd(pitch, 128) places. Lanes that read a short
    piece of each row then wait for that many words of one bank: so many wavefronts.
    """
    return max(1, rows * gcd(pitch, 128) // 128)


def predicted(name: str, v_split: int = 1) -> Prediction:
    """Class -> wavefronts of one tile of one head."""
    return {
        **operands(name, v_split),
        **state(name),
        **r1(name, v_split),
        **small(name, v_split),
        **copies(name, v_split),
        **products_in_memory(name, v_split),
        **producer_pass(name, v_split),
    }


def fragment(pitch: int, *, by_ldmatrix: bool, transposed: bool) -> int:
    """Reading one 16 x 16 operand from rows `pitch` bytes apart."""
    if by_ldmatrix:
        return 4 * ways(8, pitch)  # four 8 x 8 matrices, one after the other, 8 rows of 16 bytes each
    if transposed:
        # Eight 2-byte loads, lanes 4 tokens x 8 features: every second of 8 rows, 8 features in 4 banks.
        return 8 * ways(4, 2 * pitch)
    return 4 * ways(8, pitch)  # four 4-byte loads, lanes 8 rows x 4 pairs: 4 banks of each row


def operands(name: str, v_split: int) -> Prediction:
    """qd, kd, kr, do, mqk and inv as the products read them."""
    by_ldmatrix = since(name, "s03a")
    qd_kd = ROW_OF_CORE if since(name, "s03b") else ROW_OF_D
    kr = ROW_OF_CORE if since(name, "s04") else ROW_OF_D
    scattered = since(name, "s07") or since(name, "s09")
    mqk_inv = ROW_OF_CORE if scattered else 2 * C
    do = ROW_OF_CORE if scattered else 2 * D // v_split  # a block's own columns of do lie together
    # From s02 on a warp multiplies all 8 row blocks of qd and kd by its own columns. Before, each of a
    # block's 8 warps owns one of these row blocks, reads it once, and fetches do again for all columns.
    chain = since(name, "s02")
    qd_kd_fragments = FRAGMENTS if chain else WARPS * v_split
    do_fragments = WARPS if chain else WARPS + FRAGMENTS
    turned = {"by_ldmatrix": by_ldmatrix, "transposed": True}
    return {
        "load QD": qd_kd_fragments * fragment(qd_kd, **turned),
        "load KD": qd_kd_fragments * fragment(qd_kd, **turned),
        "load KR": FRAGMENTS * fragment(kr, by_ldmatrix=by_ldmatrix, transposed=False),
        "load DO": do_fragments * fragment(do, **turned),
        "load MQK": WARPS * fragment(mqk_inv, **turned),
        "load INV": WARPS * fragment(mqk_inv, **turned),
    }


def state(name: str) -> Prediction:
    """dS: read by G2, by the snapshot and by the combine, which writes it."""
    by_ldmatrix = since(name, "s03a")
    # SW32 in s10 spreads the 8 rows of a core matrix as well as interleaving does: over all banks, once.
    pitch = ROW_OF_CORE if since(name, "s05") else ROW_OF_D
    by_g2 = FRAGMENTS * fragment(pitch, by_ldmatrix=by_ldmatrix, transposed=False)
    turned = FRAGMENTS * fragment(pitch, by_ldmatrix=by_ldmatrix, transposed=True)
    # Before s03a a thread's 16-byte loads: 64 of them, 8 lanes of a phase along one row: 4 wavefronts each.
    snapshot = turned if by_ldmatrix else 64 * 4
    if since(name, "s05"):
        combine, stores = turned, FRAGMENTS * 4  # stmatrix, like ldmatrix
    elif since(name, "s02"):
        combine, stores = turned, FRAGMENTS * 8 * ways(4, 2 * pitch)  # one element a lane, as in `fragment`
    else:
        combine = stores = D * D // 32  # thread after thread along a row, 64 bytes: one wavefront
    return {"load DS in G2": by_g2, "load DS elsewhere": snapshot + combine, "store DS": stores}


def r1(name: str, v_split: int) -> Prediction:
    """R1: a warp's lanes are 16 tokens x 2 halves of features that are 32 apart, 8 features one by one."""
    loops = WARPS * 8 * v_split  # instructions that read or write one element a lane, per array and phase

    # Plain rows: 16 tokens in one bank; the other half, 64 bytes on, in another: 16. Interleaved: rows 16
    # bytes apart, tokens 0 and 8 meet, and the other half, 4 core matrices on, meets them too: 2 x 2.
    plain, interleaved = ways(16, ROW_OF_D), 2 * ways(16, ROW_OF_CORE)
    stores_qd_kd = loops * (interleaved if since(name, "s03b") else plain)
    stores_kr = loops * (interleaved if since(name, "s04") else plain)
    if since(name, "s06"):  # 16 bytes a lane: 8 tokens of a phase are one core matrix, 128 bytes
        stores_qd_kd = stores_kr = WARPS * v_split * 4
    result = {"store QD": stores_qd_kd, "store KD": stores_qd_kd, "store KR": stores_kr}

    if since(name, "s12"):
        # 65 words from token to token: 16 tokens in 16 neighbouring banks, the other half in the other 16.
        q_k = 1
    elif since(name, "s11"):
        # Padded by 16 bytes the tokens begin at 8 places; the other half lies in the same 8 banks. The XOR of
        # s12x gets no further: `xor_search.bound` says why.
        q_k = 2 * ways(16, ROW_OF_D + 16)
    else:
        q_k = ways(16, ROW_OF_D)
    if since(name, "s08"):
        # In fp32 the other half is 128 bytes on, in the same banks, whether rows are padded or not.
        gc = 2 * ways(16, 4 * D + 16 if since(name, "s11") else 4 * D)
        result |= {"load Q": 2 * loops * q_k, "load K": 2 * loops * q_k, "load GC": loops * gc}
    return result


def small(name: str, v_split: int) -> Prediction:
    """The scratch of the L2 norms, 2^gT and beta: neighbours lie in neighbouring banks, without conflict."""
    result = {
        "store NORMS": 2 * WARPS * v_split,  # half a warp writes 16 sums of q, then of k
        "load NORMS": 2 * 8 * WARPS * v_split,  # 8 partial sums each; the halves of a warp ask for the same
        # Lanes 15 and 31 write 8 floats, 16 bytes at a time: two phases, twice.
        "store GT": 2 * 2 * WARPS * v_split,
    }
    if since(name, "s02"):
        result["load GT"] = 2 * FRAGMENTS  # rows k and k + 8 of every piece of dS
    else:
        result["load GT"] = D * D // 32  # for every element, thread after thread
    if since(name, "s01"):
        result["load BETA"] = 2 * WARPS  # tokens c and c + 8
    else:
        result["load BETA"] = C * D // 32  # for every element
    return result


def copies(name: str, v_split: int) -> Prediction:
    """cp.async. Copies of 16 bytes (.cg) do not pass through the pipe that counts wavefronts: 0.

    So the 48 wavefronts up to s11 and 448 in s12 that the notes on the article give for copies of q and k do
    not stand. They came of a model with 3 for each .cg and 7 for each .ca copy. On an H200 the 3 turned out
    to be idle loads that ptxas puts in front of a group of copies, and a .ca copy costs what a store costs.
    """
    beta = {"copy BETA": v_split}  # 16 lanes, 64 bytes
    raw = "RAW_" if since(name, "s07") else ""
    result = beta | {f"copy {raw}{region}": 0 for region in ("DO", "MQK", "INV")}
    if since(name, "s08"):
        # s12 copies q and k 4 bytes a lane: half a row, 128 bytes, in one wavefront.
        q_k = v_split * C * D // 2 // 32 if since(name, "s12") else 0
        result |= {"copy Q": q_k, "copy K": q_k, "copy GC": 0}
    return result


def products_in_memory(name: str, v_split: int) -> Prediction:
    """T1, dU, dvcorr and beta dvcorr while they still travel through shared memory: s00 and s01."""
    if since(name, "s02"):
        return {}
    columns = D // v_split
    elementwise = C * D // 32  # thread after thread over 16 rows of all columns: one wavefront each
    bdv = fragment(2 * columns, by_ldmatrix=False, transposed=True)
    # An accumulator of T1: 4 columns v, two rows of 512 bytes apart, x 8 neighbours k. Two a fragment.
    t1 = FRAGMENTS * 2 * 4 * ways(4, 2 * 4 * D)
    result = {
        "store T1": 2 * t1,  # by G4, then by G5
        "load T1": t1 + D * D // 32,  # by G5, then by the combine, thread after thread
        "load BDV": FRAGMENTS * bdv,  # every warp reads all columns
    }
    if since(name, "s01"):
        # From a B fragment's registers, element by element: lanes 4 pairs of tokens x 8 columns.
        return result | {"store BDV": WARPS * 2 * 4 * ways(4, 2 * 2 * columns)}
    # dU and dvcorr as accumulators, two a warp: 8 bytes a lane, half a warp at a time, which is 4 tokens.
    accumulators = WARPS * 2 * 2 * 2 * ways(4, 4 * columns)
    return result | {
        "store DU": 2 * accumulators,  # by G1, then by G2
        "load DU": accumulators + elementwise,  # by G2, then to be rounded
        "store DU_BF16": elementwise,
        "load DU_BF16": WARPS * bdv,
        "store DVCORR": accumulators,
        "load DVCORR": elementwise,
        "store BDV": elementwise,
    }


def producer_pass(name: str, v_split: int) -> Prediction:
    """s07 carries mqk, inv and do from their raw twins to interleaved places, 16 bytes a lane."""
    if not since(name, "s07"):
        return {}
    # do's 16 x 128 elements are 8 instructions, mqk and inv one each, of 4 phases. A phase takes 8 rows of a
    # core matrix: from raw rows they come with conflicts, where they go they are 128 bytes.
    do = C * D // 8 // 32
    return {
        "load RAW_DO": do * 4 * ways(8, 2 * D // v_split),
        "load RAW_MQK": v_split * 4 * ways(8, 2 * C),
        "load RAW_INV": v_split * 4 * ways(8, 2 * C),
        "store DO": do * 4,
        "store MQK": v_split * 4,
        "store INV": v_split * 4,
    }
