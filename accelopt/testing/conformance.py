"""The conformance kit: what every backend must do, as checks that any backend's author can run.

In a test of your own::

    from accelopt.testing.conformance import check_backend

    def test_my_backend():
        check_backend(MyBackend).raise_if_failed()

or from the command line, once your plugin is installed::

    accelopt conformance my-backend

Each check gets a backend of its own. Checks of optional capabilities run when the backend claims
them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
from accelopt.evaluation import Evaluation, EvaluationStatus
from accelopt.testing.samples import ConformanceSample, nki_sample

BackendFactory = Callable[[], Backend]
Check = Callable[[Backend, ConformanceSample], None]


@dataclass(frozen=True)
class CheckResult:
    """Outcome of one check.

    Attributes:
        name: the check; says what a conforming backend does.
        ok: whether this one does.
        problem: what it does instead.
        skipped: why the check does not apply; empty when it ran.
    """

    name: str
    ok: bool
    problem: str = ""
    skipped: str = ""


@dataclass(frozen=True)
class ConformanceReport:
    """All outcomes."""

    backend: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(result.ok for result in self.results)

    def text(self) -> str:
        """One line per check."""
        lines = []
        for result in self.results:
            mark = "skip" if result.skipped else "ok" if result.ok else "FAIL"
            detail = result.skipped or result.problem
            lines.append(f"{mark:>4}  {result.name}" + (f": {detail}" if detail else ""))
        return "\n".join(lines)

    def raise_if_failed(self) -> None:
        """Raise an `AssertionError` that lists the failed checks."""
        if not self.ok:
            raise AssertionError(f"backend {self.backend!r} does not conform:\n{self.text()}")


class _NonconformityError(Exception):
    pass


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise _NonconformityError(problem)


def _describes_itself(backend: Backend, sample: ConformanceSample) -> None:
    _require(bool(backend.name), "name is empty")
    missing = BASE_CAPABILITIES - backend.capabilities
    _require(not missing, f"base capabilities missing: {', '.join(sorted(missing))}")
    for field in (
        "hbm_bandwidth_bytes_per_s",
        "fp32_matmul_flops_per_s",
        "vector_flops_per_s",
        "sbuf_bytes_per_partition",
        "psum_bytes_per_partition",
    ):
        _require(getattr(backend.device, field) > 0, f"device.{field} is not positive")
    _require(bool(backend.version), "version is empty: evaluations could not be told apart")


def _accepts_good(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.evaluate(sample.task, sample.good)
    _require(result.ok, f"status {result.status.value}: {_first(result)}")
    _require(result.correct, "ok, but not correct on every seed")
    seeds = tuple(seed.seed for seed in result.seeds)
    _require(seeds == sample.task.seeds, f"seeds tried are {seeds}, not {sample.task.seeds}")
    latency = result.latency_us
    _require(
        latency is not None and math.isfinite(latency) and latency > 0, f"latency_us is {latency}"
    )
    _require(result.task == sample.task.name, f"task is {result.task!r}")
    _require(result.backend == backend.name, f"backend is {result.backend!r}")
    _require(result.source_sha256 == sample.good.sha256, "source_sha256 is not the source's")


def _rejects_wrong(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.evaluate(sample.task, sample.wrong)
    _require(
        result.status is EvaluationStatus.INCORRECT,
        f"a kernel with another result is {result.status.value}",
    )
    _require(not result.correct, "it counts as correct")
    _require(bool(result.seeds) and not result.seeds[-1].ok, "no failing seed is reported")


def _bad_kernels_are_results(backend: Backend, sample: ConformanceSample) -> None:
    for what, source in sample.broken.items():
        try:
            result = backend.evaluate(sample.task, source)
        except Exception as error:
            raise _NonconformityError(f"a kernel that {what} raises {error!r}") from error
        _require(not result.ok, f"a kernel that {what} is accepted")
        _require(bool(result.diagnostics), f"a kernel that {what} gets no diagnostic")


def _respects_seeds(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.evaluate(sample.task, sample.good, seeds=(7,))
    _require([s.seed for s in result.seeds] == [7], f"seeds tried are {result.seeds}")


def _screen_is_cheap(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.screen(sample.task, sample.good)
    _require(result.ok, f"status {result.status.value}: {_first(result)}")
    _require(not result.seeds, "screen compares numbers")
    _require(backend.calls.screen == 1, "the call is not counted")


def _counts_calls(backend: Backend, sample: ConformanceSample) -> None:
    backend.evaluate(sample.task, sample.good, seeds=(0,))
    _require(backend.calls.evaluate == 1, f"evaluate was counted {backend.calls.evaluate} times")


def _round_trips(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.evaluate(sample.task, sample.good)
    again = Evaluation.model_validate_json(result.model_dump_json())
    _require(again == result, "an evaluation does not survive JSON")


def _works_from_threads(backend: Backend, sample: ConformanceSample) -> None:
    def judge(index: int) -> EvaluationStatus:
        source = sample.good if index % 2 else sample.wrong
        return backend.evaluate(sample.task, source, seeds=(0,)).status

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(judge, range(8)))
    wanted = [EvaluationStatus.INCORRECT, EvaluationStatus.OK] * 4
    _require(statuses == wanted, f"eight calls from four threads give {statuses}")


def _outlives_threads(backend: Backend, sample: ConformanceSample) -> None:
    # Helper processes may be tied to the thread that started them; threads come and go.
    thread = threading.Thread(target=backend.evaluate, args=(sample.task, sample.good))
    thread.start()
    thread.join()
    result = backend.evaluate(sample.task, sample.good)
    _require(result.ok, f"after the first thread ended: {result.status.value}: {_first(result)}")


def _closes_twice(backend: Backend, sample: ConformanceSample) -> None:
    backend.evaluate(sample.task, sample.good, seeds=(0,))
    backend.close()
    backend.close()


def _estimates(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.estimate(sample.task, sample.good)
    _require(result.ok, f"status {result.status.value}: {_first(result)}")
    _require(result.latency_us is not None and result.latency_us > 0, "no latency")
    _require(not result.seeds, "estimate compares numbers")


def _reports_counters(backend: Backend, sample: ConformanceSample) -> None:
    result = backend.evaluate(sample.task, sample.good)
    profile = result.profile
    if profile is None:
        raise _NonconformityError("no profile")
    _require(profile.latency_us == result.latency_us, "profile.latency_us differs from latency_us")
    _require(profile.hbm_read_bytes is not None, "hbm_read_bytes is not reported")


BASE_CHECKS: dict[str, Check] = {
    "describes itself and its device": _describes_itself,
    "accepts a good kernel on every seed, with a latency": _accepts_good,
    "finds a kernel that computes something else incorrect": _rejects_wrong,
    "turns every bad kernel into a result, never an exception": _bad_kernels_are_results,
    "compares on the seeds it is given": _respects_seeds,
    "screens without numbers": _screen_is_cheap,
    "counts its calls": _counts_calls,
    "gives evaluations that survive JSON": _round_trips,
    "works from several threads at once": _works_from_threads,
    "outlives the thread that used it first": _outlives_threads,
    "can be closed twice": _closes_twice,
}

OPTIONAL_CHECKS: dict[Capability, dict[str, Check]] = {
    Capability.ESTIMATE: {"estimates latency without numbers": _estimates},
    Capability.COUNTERS: {"reports profiler counters": _reports_counters},
}


def check_backend(
    factory: BackendFactory, sample: ConformanceSample | None = None
) -> ConformanceReport:
    """Run all checks that apply.

    Args:
        factory: makes a fresh backend; called once per check.
        sample: what to try it on; by default a small task in the `neuronxcc.nki` dialect.
    """
    sample = sample or nki_sample()
    backend = factory()
    name, capabilities = backend.name, backend.capabilities
    backend.close()
    results = [_run(label, check, factory, sample) for label, check in BASE_CHECKS.items()]
    for capability, checks in OPTIONAL_CHECKS.items():
        for label, check in checks.items():
            if capability in capabilities:
                results.append(_run(label, check, factory, sample))
            else:
                results.append(CheckResult(label, True, skipped=f"no capability {capability}"))
    return ConformanceReport(name, tuple(results))


def _run(
    label: str, check: Check, factory: BackendFactory, sample: ConformanceSample
) -> CheckResult:
    backend = factory()
    try:
        check(backend, sample)
    except _NonconformityError as problem:
        return CheckResult(label, False, str(problem))
    except Exception as error:  # noqa: BLE001 - a backend that raises does not conform
        return CheckResult(label, False, f"raises {type(error).__name__}: {error}")
    finally:
        backend.close()
    return CheckResult(label, True)


def _first(result: Evaluation) -> str:
    return result.diagnostics[0].message if result.diagnostics else "no diagnostic"
