"""Is a kernel faster than its parent? A decision with its grounds, never a bare ratio.

* On a device with noise: both kernels measured in turns, in random order, until a sequential test
  decides. It looks at 4, 8, 16 and 32 pairs, and each look may spend a quarter of the error that is
  allowed, so that looking often does not make luck likelier (Bonferroni). Both kernels are run
  afresh; the measurements that made the kernel win the search are not used, since picking the
  luckiest of many makes them too good (the winner's curse; row 26 of the known reward hacks).
* On the deterministic simulator the doubt lies in the calibration: the kernel must be faster under
  every leave-one-out fit, and by more than the least effect in the median.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.kernel import KernelSource, KernelTask

MINIMUM_EFFECT = 1.01
"""Ratios closer to 1 are a tie, however sure they are."""
CONFIDENCE = 0.95
LOOKS = (4, 8, 16, 32)
"""Pairs after which the sequential test looks at what it has."""

Measure = Callable[[], float]
"""One fresh measurement, in microseconds."""


class Outcome(StrEnum):
    """What the comparison says of the second kernel."""

    FASTER = "faster"
    SLOWER = "slower"
    TIE = "tie"


class Comparison(BaseModel):
    """A kernel against its parent.

    Attributes:
        outcome: of the kernel.
        ratio: parent's latency / kernel's latency, the median; above 1 is faster.
        low, high: confidence interval of the ratio, or its range over the calibrations.
        parent_us, child_us: medians of these fresh latencies, in microseconds.
        method: how it was decided, in words.
        measured: whether these are measurements, which then replace earlier ones, or predictions.
        parent_samples_us, child_samples_us: every latency that was used, in pairs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    outcome: Outcome
    ratio: float
    low: float
    high: float
    parent_us: float
    child_us: float
    method: str
    measured: bool = False
    parent_samples_us: tuple[float, ...] = ()
    child_samples_us: tuple[float, ...] = ()


def over_calibrations(
    parent_us: Sequence[float], child_us: Sequence[float], method: str
) -> Comparison:
    """The decision for a deterministic backend: one pair of latencies per calibration.

    Args:
        parent_us, child_us: predicted under the same calibrations, in the same order.
        method: what the calibrations are.
    """
    ratios = [parent / child for parent, child in zip(parent_us, child_us, strict=True)]
    ratio = statistics.median(ratios)
    outcome = Outcome.TIE
    if min(ratios) > 1 and ratio > MINIMUM_EFFECT:
        outcome = Outcome.FASTER
    elif max(ratios) < 1 and ratio < 1 / MINIMUM_EFFECT:
        outcome = Outcome.SLOWER
    return Comparison(
        outcome=outcome,
        ratio=ratio,
        low=min(ratios),
        high=max(ratios),
        parent_us=statistics.median(parent_us),
        child_us=statistics.median(child_us),
        method=method,
        parent_samples_us=tuple(parent_us),
        child_samples_us=tuple(child_us),
    )


def by_measurement(
    parent: Measure,
    child: Measure,
    *,
    rng: random.Random,
    confidence: float = CONFIDENCE,
    minimum_effect: float = MINIMUM_EFFECT,
    looks: Sequence[int] = LOOKS,
) -> Comparison:
    """Measure two kernels in turns until a sequential test decides.

    Args:
        parent, child: one fresh measurement each.
        rng: decides who goes first in each pair.
        confidence: of the whole procedure.
        minimum_effect: least ratio that counts.
        looks: numbers of pairs at which it may stop; the last one ends it.
    """
    parents: list[float] = []
    children: list[float] = []
    outcome, low, high = Outcome.TIE, 0.0, math.inf
    for look in looks:
        while len(parents) < look:
            if rng.random() < 0.5:
                parents.append(parent())
                children.append(child())
            else:
                children.append(child())
                parents.append(parent())
        low, high = _interval(parents, children, (1 - confidence) / len(looks))
        if low > minimum_effect:
            outcome = Outcome.FASTER
        elif high < 1 / minimum_effect:
            outcome = Outcome.SLOWER
        elif not (low > 1 / minimum_effect and high < minimum_effect):
            continue
        break
    ratios = [p / c for p, c in zip(parents, children, strict=True)]
    return Comparison(
        outcome=outcome,
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        parent_us=statistics.median(parents),
        child_us=statistics.median(children),
        measured=True,
        method=f"{len(parents)} fresh pairs measured in turns, sequential t test of the log ratio, "
        f"confidence {100 * confidence:g} %, least effect {100 * (minimum_effect - 1):g} %",
        parent_samples_us=tuple(parents),
        child_samples_us=tuple(children),
    )


def _interval(
    parents: Sequence[float], children: Sequence[float], error: float
) -> tuple[float, float]:
    """Two-sided confidence interval of the ratio, from the mean of the log ratios."""
    from scipy.stats import t

    logs = [math.log(p / c) for p, c in zip(parents, children, strict=True)]
    mean, spread = statistics.fmean(logs), statistics.stdev(logs)
    margin = float(t.ppf(1 - error / 2, len(logs) - 1)) * spread / math.sqrt(len(logs))
    return math.exp(mean - margin), math.exp(mean + margin)


def compare_by_measuring(
    backend: Backend, task: KernelTask, parent: KernelSource, child: KernelSource, seed: int = 0
) -> Comparison:
    """`by_measurement` with a backend's own latency measurement.

    Raises:
        AcceloptError: a kernel that was measured before can't be measured any more.
    """
    from accelopt.errors import AcceloptError
    from accelopt.evaluation import ESTIMATE_STAGES

    def measure(source: KernelSource) -> float:
        result = backend.evaluate(task, source, stages=ESTIMATE_STAGES, seeds=())
        if not result.ok or result.latency_us is None:
            why = result.diagnostics[0].message if result.diagnostics else result.status.value
            raise AcceloptError(
                f"{backend.name} can't measure {source.filename} again: {why}",
                hint="run accelopt evaluate on it to see more",
            )
        return result.latency_us

    return by_measurement(lambda: measure(parent), lambda: measure(child), rng=random.Random(seed))
