"""Fits the latency model to measured latencies, with leave-one-kernel-out cross-validation.

A coordinate search over the values that each parameter may take, from the priors. The objective is
the mean of the absolute log error of the latency, its root mean square, and, with a small weight,
the log error of the HBM bytes (which only `keep_bytes` moves), and a small cost of leaving a prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from accelopt.device import DeviceSpec
from accelopt_simulator.hardware import Timing
from accelopt_simulator.latency.compiled import Compiled, compile_trace, durations, makespan_ns, run
from accelopt_simulator.latency.counters import hbm_bytes
from accelopt_simulator.latency.parameters import FITTED, names, with_values
from accelopt_simulator.trace.analysis import Analysis
from accelopt_simulator.trace.schema import Trace

Values = tuple[float, ...]

STRUCTURAL = frozenset({"keep_bytes", "sequential_barrier"})
"""Parameters that change what is compiled, not only how fast it runs."""

BYTES_WEIGHT = 0.1
PRIOR_WEIGHT = 0.005
"""Cost of moving a parameter through its whole range: without evidence it stays at its prior."""
ROUNDS = 4
KEPT = 4
"""Sets of compiled kernels that are kept: they are large, and the search returns to a few."""


@dataclass(frozen=True)
class Measured:
    """One measured kernel.

    Attributes:
        name: what it is called.
        trace: the kernel.
        latency_us: measured.
        hbm_bytes: read and written, measured; None when not published.
    """

    name: str
    trace: Trace
    latency_us: float
    hbm_bytes: float | None


@dataclass(frozen=True)
class Fit:
    """A fit and its cross-validation.

    Attributes:
        values: fitted parameters by name.
        predicted_us: in-sample prediction of each kernel.
        held_out_us: prediction of each kernel by a fit that has not seen it.
        folds: the parameters of each such fit, by the kernel left out.
    """

    values: dict[str, float]
    predicted_us: dict[str, float]
    held_out_us: dict[str, float]
    folds: dict[str, dict[str, float]]


class Predictor:
    """Predictions of a set of kernels under different parameters; each is computed once."""

    def __init__(self, kernels: Sequence[Measured], device: DeviceSpec, base: Timing) -> None:
        self.kernels, self.device, self.base = kernels, device, base
        self._analyses = [Analysis(kernel.trace) for kernel in kernels]
        self._compiled: dict[tuple[float, ...], list[Compiled]] = {}
        self._log_errors: dict[Values, np.ndarray] = {}
        self._byte_errors: dict[tuple[float, ...], np.ndarray] = {}
        self._spans: dict[Values, np.ndarray] = {}

    def timing(self, values: Values) -> Timing:
        """The base timing with these parameters."""
        return with_values(self.base, dict(zip(names(), values, strict=True)))

    def log_errors(self, values: Values) -> np.ndarray:
        """ln(predicted / measured) of each kernel."""
        found = self._log_errors.get(values)
        if found is None:
            measured = np.array([kernel.latency_us for kernel in self.kernels])
            overhead = dict(zip(names(), values, strict=True))["overhead_us"]
            found = np.log((self._span_us(values) + overhead) / measured)
            self._log_errors[values] = found
        return found

    def _span_us(self, values: Values) -> np.ndarray:
        # The overhead is added, so it need not be run again.
        key = tuple(v for n, v in zip(names(), values, strict=True) if n != "overhead_us")
        found = self._spans.get(key)
        if found is None:
            timing = self.timing(values)
            spans = []
            for compiled in self._structure(values):
                busy, latency = durations(compiled, timing, fresh_costs=True)
                schedule = run(compiled, busy, latency, timing)
                spans.append(makespan_ns(schedule, latency) / 1e3)
            found = np.array(spans)
            self._spans[key] = found
        return found

    def byte_errors(self, values: Values) -> np.ndarray:
        """ln(predicted / measured) of the HBM bytes of each kernel, 0 where none are published."""
        key = self._key(values)
        if key not in self._byte_errors:
            self._byte_errors[key] = np.array(
                [
                    0.0 if k.hbm_bytes is None else math.log(hbm_bytes(c) / k.hbm_bytes)
                    for k, c in zip(self.kernels, self._structure(values), strict=True)
                ]
            )
        return self._byte_errors[key]

    def _key(self, values: Values) -> tuple[float, ...]:
        return tuple(v for n, v in zip(names(), values, strict=True) if n in STRUCTURAL)

    def _structure(self, values: Values) -> list[Compiled]:
        key = self._key(values)
        if key not in self._compiled:
            timing = self.timing(values)
            while len(self._compiled) >= KEPT:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[key] = [
                compile_trace(analysis, self.device, timing) for analysis in self._analyses
            ]
        return self._compiled[key]


def fit(
    kernels: Sequence[Measured],
    device: DeviceSpec,
    base: Timing,
    progress: Callable[[str], None] = lambda text: None,
) -> Fit:
    """Fit all parameters, once with all kernels and once without each.

    Raises:
        ValueError: fewer than three kernels.
    """
    if len(kernels) < 3:
        raise ValueError("a fit takes at least three measured kernels")
    predictor = Predictor(kernels, device, base)
    everything = np.ones(len(kernels), dtype=np.bool_)
    best = _search(predictor, everything, progress)
    progress(f"all {len(kernels)} kernels fitted")
    held_out, folds = {}, {}
    for index, kernel in enumerate(kernels):
        mask = everything.copy()
        mask[index] = False
        found = _search(predictor, mask, progress)
        held_out[kernel.name] = kernel.latency_us * math.exp(predictor.log_errors(found)[index])
        folds[kernel.name] = dict(zip(names(), found, strict=True))
        progress(f"without {kernel.name}: {held_out[kernel.name]:.0f} us")
    predicted = {
        kernel.name: kernel.latency_us * math.exp(error)
        for kernel, error in zip(kernels, predictor.log_errors(best), strict=True)
    }
    return Fit(dict(zip(names(), best, strict=True)), predicted, held_out, folds)


def _search(predictor: Predictor, mask: np.ndarray, progress: Callable[[str], None]) -> Values:
    """Coordinate search from the priors: each parameter in turn, until none moves."""
    current = tuple(parameter.prior for parameter in FITTED)
    best = _loss(predictor, current, mask)
    for _ in range(ROUNDS):
        moved = False
        for at, parameter in enumerate(FITTED):
            for value in parameter.values:
                trial = (*current[:at], float(value), *current[at + 1 :])
                loss = _loss(predictor, trial, mask)
                if loss < best - 1e-9:
                    best, current, moved = loss, trial, True
            progress(f"{parameter.name} = {current[at]:g} (loss {best:.4f})")
        if not moved:
            break
    return current


def _loss(predictor: Predictor, values: Values, mask: np.ndarray) -> float:
    errors = predictor.log_errors(values)[mask]
    of_bytes = np.minimum(1.0, np.abs(predictor.byte_errors(values)[mask]))
    spread = np.abs(errors).mean() + math.sqrt(float((errors**2).mean()))
    return float(0.5 * spread + BYTES_WEIGHT * of_bytes.mean() + _distance(values))


def _distance(values: Values) -> float:
    """How far from their priors the parameters are."""
    total = 0.0
    for parameter, value in zip(FITTED, values, strict=True):
        width = max(parameter.values) - min(parameter.values)
        total += ((value - parameter.prior) / width) ** 2
    return PRIOR_WEIGHT * total
