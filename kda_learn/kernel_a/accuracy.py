"""How far a kernel's results are from the truth, and how far they may be.

No absolute limit works: rounding alone costs 0.2 % to 1 %, by problem, tile and stage. So each snapshot may
be at most 1.3 times as wrong as a simulation that rounds where the kernel rounds (`reference.simulate`).
"""

from dataclasses import dataclass

import numpy as np

from ..ground.errors import BadInput

ALLOWED_FACTOR = 1.3
_FLOOR_FRACTION = 0.1

Results = tuple[np.ndarray, np.ndarray]
"""snapshots [H * total_tiles, K, V] and ds0 [N, H, K, V]."""


@dataclass(frozen=True)
class Errors:
    """Errors of a stack of [K, V] matrices against the truth, one figure per matrix.

    An all-zero truth demands exact zeros: the error is then 0 or infinite. NaN counts as infinite.
    """

    relative_rms: np.ndarray  # [matrices]  root mean square of the error over that of the truth
    relative_max: np.ndarray  # [matrices]  largest error over the truth's largest element

    @property
    def worst(self) -> float:
        """The largest relative RMS; 0 where there are no matrices."""
        return float(self.relative_rms.max(initial=0.0))

    @property
    def max_error(self) -> float:
        """The largest relative_max; 0 where there are no matrices."""
        return float(self.relative_max.max(initial=0.0))


def errors(actual: np.ndarray, truth: np.ndarray) -> Errors:
    """Compare [..., K, V] arrays of one shape, matrix by matrix. Raises BadInput if the shapes differ."""
    if actual.shape != truth.shape:
        raise BadInput(f"errors got results of shape {actual.shape}: give {truth.shape}, the truth's shape.")
    matrix_shape = truth.shape[-2:]
    actual = actual.reshape(-1, *matrix_shape)
    truth = truth.reshape(-1, *matrix_shape)
    relative_rms = np.empty(len(truth))
    relative_max = np.empty(len(truth))
    # One matrix at a time: a float64 copy of all of them could be gigabytes.
    for index, (actual_matrix, truth_matrix) in enumerate(zip(actual, truth, strict=True)):
        difference = actual_matrix.astype(np.float64) - truth_matrix
        relative_rms[index] = _ratio(np.linalg.norm(difference), np.linalg.norm(truth_matrix))
        relative_max[index] = _ratio(np.abs(difference).max(), np.abs(truth_matrix).max())
    return Errors(relative_rms, relative_max)


def _ratio(error: float, size: float) -> float:
    """error / size, where no error at all is 0, and NaN or any error against zero is infinite."""
    if error == 0.0:
        return 0.0
    if size == 0.0 or not np.isfinite(error):
        return np.inf
    return float(error / size)


@dataclass(frozen=True)
class GateResult:
    """Whether a kernel's results pass, and the figures to print."""

    ok: bool
    rel_rms: float  # worst relative RMS of any snapshot or ds0
    simulated_rel_rms: float  # the simulation's worst
    max_err: float  # worst relative_max
    worst_ratio: float  # the largest relative RMS over what the simulation's would be there; passes up to 1.3
    message: str  # one sentence: which matrix is worst


def gate(actual: Results, truth: Results, simulated: Results) -> GateResult:
    """Pass results whose every snapshot and ds0 is at most 1.3 times as wrong as the simulation's.

    Where the simulation's own error is below a tenth of its median over the problem, a tenth of the median
    counts instead. Two correct kernels differ where a value lies almost midway between two bf16 numbers; in a
    matrix that happens to be nearly exact, such a flip is a large part of a tiny error. Elsewhere it is
    nothing: simulations whose operands differ in the last float32 bits agree within 3 % per matrix, at weak
    and at strong gates. The floor is far below one bf16 rounding, so it hides no mistake, and it does not
    soften an all-zero truth, where only exact zeros pass.
    """
    snapshot_count = len(truth[0])
    actual_errors = [
        errors(actual_part, truth_part) for actual_part, truth_part in zip(actual, truth, strict=True)
    ]
    simulated_errors = [errors(part, truth_part) for part, truth_part in zip(simulated, truth, strict=True)]
    rel_rms = np.concatenate([part.relative_rms for part in actual_errors])
    simulated_rel_rms = np.concatenate([part.relative_rms for part in simulated_errors])
    inexact = simulated_rel_rms[simulated_rel_rms > 0]
    floor = _FLOOR_FRACTION * float(np.median(inexact)) if len(inexact) else 0.0
    yardstick = np.maximum(simulated_rel_rms, floor)
    ratios = np.array([_ratio(error, size) for error, size in zip(rel_rms, yardstick, strict=True)])
    worst = int(ratios.argmax())
    where = f"snapshot {worst}" if worst < snapshot_count else f"ds0 matrix {worst - snapshot_count}"
    return GateResult(
        ok=bool(ratios[worst] <= ALLOWED_FACTOR),
        rel_rms=float(rel_rms.max()),
        simulated_rel_rms=float(simulated_rel_rms.max()),
        max_err=max(part.max_error for part in actual_errors),
        worst_ratio=float(ratios[worst]),
        message=(
            f"{where} has the error {rel_rms[worst]:.2e} (relative RMS), {ratios[worst]:.2f} times that by "
            f"rounding, {yardstick[worst]:.2e}; up to {ALLOWED_FACTOR} times passes."
        ),
    )
