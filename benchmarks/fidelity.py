"""How near the latency model comes to published measurements.

    python benchmarks/fidelity.py [--json | --markdown] [--refit]
    python benchmarks/fidelity.py --kernels DIR --measurements FILE [--json]

The first form takes the 14 NKIBench baselines that the shipped calibration is fitted to, their
counters, and the kernels of benchmarks/fidelity_kernels, which the fit has not seen. `--markdown`
writes the tables of docs/latency-model.md and docs/fidelity.svg. The second form takes any kernels
with their latencies, in the format of nkibench/data/published_measurements.json or of
`accelopt calibrate --measurements`.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import fidelity_tables
from fidelity_cases import BASELINES, Case, baseline_cases, foreign_cases, own_cases
from fidelity_figures import EXTRA_PAIRS, Outcome, report

from accelopt.errors import AcceloptError, ConfigError
from accelopt_simulator import measurements
from accelopt_simulator.hardware import DEVICES, PRIORS, Timing, without_middle_end
from accelopt_simulator.latency import calibration
from accelopt_simulator.latency.calibration import COMPILER_HABITS, UNFITTED_FACTOR, Calibration
from accelopt_simulator.latency.fit import Measured, Predictor, fit
from accelopt_simulator.latency.parameters import names, with_values
from accelopt_simulator.latency.predict import predict_on
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool
from accelopt_simulator.trace.codec import decode
from accelopt_simulator.trace.schema import Trace


def timing_of(case: Case, fitted: Calibration, fold: str = "") -> Timing:
    """Constants for a case; a device without a fit takes only habits from it."""
    timing = fitted.timing(fold)
    if case.device != fitted.device:
        habits = {name: getattr(timing, name) for name in COMPILER_HABITS}
        error = UNFITTED_FACTOR * timing.log_error
        timing = replace(with_values(PRIORS[case.device], habits), log_error=error)
    if case.overhead_us is not None:
        timing = replace(timing, overhead_us=case.overhead_us)
    return timing if case.middle_end else without_middle_end(timing)


def assess(case: Case, pool: WorkerPool, fitted: Calibration, *, folds: bool) -> Outcome:
    """Trace a case and predict it; with `folds`, also by each leave-one-out fit."""
    if case.request is None:
        raise ValueError(f"{case.name} has no kernel")
    result = pool.trace(case.request)
    if result.status != "ok":
        words = "; ".join(str(item.get("message", "")) for item in result.diagnostics[:1])
        return Outcome(case=case, failure=f"{result.status}: {words}")
    trace = decode(result.trace_bytes)
    device = DEVICES[case.device]
    prediction = predict_on(trace, device, timing_of(case, fitted))
    outcome = Outcome(
        case=case,
        predicted_us=prediction.latency_us,
        interval_us=(prediction.low_us, prediction.high_us),
        profile=prediction.profile.model_dump(),
    )
    if case.fold in fitted.folds:
        timing = timing_of(case, fitted, case.fold)
        outcome.held_out_us = predict_on(trace, device, timing).latency_us
    if folds:
        outcome.folds_us = _by_fold(case, trace, fitted, replayed=not prediction.scale.missing)
    return outcome


def _by_fold(case: Case, trace: Trace, fitted: Calibration, *, replayed: bool) -> dict[str, float]:
    timings = {fold: timing_of(case, fitted, fold) for fold in fitted.folds}
    device = DEVICES[case.device]
    if not replayed:
        return {f: predict_on(trace, device, t).latency_us for f, t in timings.items()}
    # As predict_on, but compiled once for all fits that compile alike.
    kernel = Measured(case.name, trace, case.measured_us, None)
    predictor = Predictor([kernel], device, timing_of(case, fitted))
    values = {f: tuple(float(getattr(t, n)) for n in names()) for f, t in timings.items()}
    return {
        f: case.measured_us * math.exp(float(predictor.log_errors(v)[0])) for f, v in values.items()
    }


def evaluate(cases: Sequence[Case], fitted: Calibration, main: str = "") -> dict[str, Any]:
    """Trace and predict all cases, and report."""
    paired = {case.pair for case in cases} | {case.measurement for case in cases if case.pair}
    paired |= {name for pair in EXTRA_PAIRS for name in pair}
    pool = WorkerPool(WorkerLimits())
    try:
        outcomes = [
            assess(case, pool, fitted, folds=case.measurement in paired)
            if case.request is not None
            else Outcome(case=case)
            for case in cases
        ]
    finally:
        pool.close()
    return report(outcomes, fitted, main)


def shipped_calibration() -> Calibration:
    """The calibration that comes with the package, whatever the user has besides."""
    return calibration.load(
        Path(str(files("accelopt_simulator") / "data" / "calibration_trn1.json"))
    )


def refitted() -> Calibration:
    """A new fit to the shipped measurements; takes minutes."""
    found = measurements.shipped("trn1")
    kernels = measurements.load_kernels(found, Path())
    done = fit(kernels, DEVICES["trn1"], PRIORS["trn1"], lambda text: print(text, file=sys.stderr))
    return calibration.calibration_of(done, kernels, "trn1", found.source)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ConfigError(message)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=Path, metavar="DIR", help="folder of kernel files")
    parser.add_argument("--measurements", type=Path, metavar="FILE", help="their latencies")
    parser.add_argument("--tasks", nargs="+", metavar="NAME", help="only these baselines")
    parser.add_argument("--calibration", type=Path, metavar="FILE", help="instead of the shipped")
    parser.add_argument("--refit", action="store_true", help="fit again first (minutes)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--markdown", action="store_true", help="write the document's tables")
    options = parser.parse_args(arguments)
    if (options.kernels is None) != (options.measurements is None):
        raise ConfigError("--kernels and --measurements go together")
    if options.markdown and (options.kernels or options.tasks):
        raise ConfigError("--markdown is for the whole own set")
    return options


def _cases(options: argparse.Namespace) -> tuple[list[Case], str]:
    if options.kernels:
        return foreign_cases(options.kernels, options.measurements), ""
    cases = baseline_cases(options.tasks)
    unknown = set(options.tasks or ()) - {case.name for case in cases}
    if unknown:
        raise ConfigError(f"unknown baseline {', '.join(sorted(unknown))}")
    return cases + ([] if options.tasks else own_cases()), BASELINES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; the exit code is 2 for bad input."""
    started = time.perf_counter()
    try:
        options = _options(arguments)
        cases, headline = _cases(options)
        fitted = calibration.load(options.calibration) if options.calibration else None
        fitted = fitted or (refitted() if options.refit else shipped_calibration())
        found = evaluate(cases, fitted, headline)
    except AcceloptError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    used = {
        "seconds": round(time.perf_counter() - started, 1),
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    if options.json:
        print(json.dumps(found | used))
        return 0
    if options.markdown:
        fidelity_tables.write_document(found)
    print(fidelity_tables.text(found))
    print(f"{used['seconds']} s, peak memory {used['peak_memory_bytes'] / 2**20:.0f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
