"""Judges an evidence bundle again, here, and says line by line what still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelopt.errors import AcceloptError, TaskError
from accelopt.evaluation import Evaluation, Stage
from accelopt.evidence import BASELINE, KERNEL, REFERENCE, Evidence, record_of, sha256
from accelopt.plugins import installed
from accelopt.user_task import load_user_task

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.kernel import KernelTask

ERROR_FACTOR = 1.5
"""Another BLAS rounds otherwise: errors within this factor of the recorded ones agree."""
TINY_ERROR = 1e-6
"""Errors below are rounding noise: any two of them agree."""


@dataclass(frozen=True)
class Finding:
    """One line of a verification.

    Attributes:
        claim: what the bundle says.
        state: `ok`, `fail`, or `note` for what can't be checked here.
        detail: what was found.
    """

    claim: str
    state: str
    detail: str


def task_of(evidence: Evidence, folder: Path, *, trust_reference: bool) -> KernelTask:
    """The task of a bundle: the installed one, if it is the same, else the bundle's own files.

    Raises:
        TaskError: it is not installed here, and the bundle's code may not be run.
    """
    recorded = evidence.task
    if recorded.name in installed().task_names():
        task = installed().task(recorded.name)
        if task.fingerprint == recorded.fingerprint:
            return task
    if not trust_reference:
        raise TaskError(
            f"the task {recorded.name} of this bundle is not installed here as it was then",
            hint="read the bundle's reference.py, then add --trust-reference to run it",
        )
    task = load_user_task(folder / KERNEL, folder / REFERENCE)
    return replace(task, name=recorded.name)


def verify(
    evidence: Evidence, texts: Mapping[str, str], task: KernelTask, backend: Backend
) -> list[Finding]:
    """Every claim of a bundle against what this machine finds.

    Args:
        evidence, texts: of the bundle.
        task: from `task_of`.
        backend: a judge for the same device.
    """
    findings = [_files(evidence, texts), _task(evidence, task)]
    recorded = evidence.evaluation
    seeds = {check.name: check.seed for check in recorded.checks}
    source = evidence.kernel.model_copy(update={"text": texts[KERNEL]})
    again = backend.evaluate(replace(task, check_seeds=seeds), source)
    status = f"{again.status.value} on {len(again.seeds)} published seeds"
    why = f": {again.diagnostics[0].message}" if again.diagnostics and not again.ok else ""
    findings.append(_finding("the kernel is correct", again.correct, status + why))
    if not again.ok:
        return findings
    findings.append(
        _finding("the trace is the same", again.trace_hash == recorded.trace_hash,
                 again.trace_hash[:16] or "no trace on this backend")
    )  # fmt: skip
    findings += [_errors(recorded, again), _latency(evidence, again, backend)]
    fresh = backend.evaluate(task, source, stages=frozenset({Stage.ROBUSTNESS}))
    tried = ", ".join(f"{check.name} seed {check.seed}" for check in fresh.checks)
    findings.append(_finding("inputs nobody has seen are right too", fresh.ok, tried or "none"))
    if evidence.comparison is not None:
        findings.append(_comparison(evidence, texts, task, backend))
    findings.append(_attacks(evidence))
    return findings


def _finding(claim: str, holds: bool, detail: str) -> Finding:
    return Finding(claim, "ok" if holds else "fail", detail)


def _files(evidence: Evidence, texts: Mapping[str, str]) -> Finding:
    changed = [name for name, text in texts.items() if evidence.files.get(name) != sha256(text)]
    detail = f"changed: {', '.join(changed)}" if changed else f"{len(texts)} files"
    return _finding("the files are those that were judged", not changed, detail)


def _task(evidence: Evidence, task: KernelTask) -> Finding:
    here, then = record_of(task).model_dump(), evidence.task.model_dump()
    del here["fingerprint"], then["fingerprint"]  # holds the name and text, which a bundle changes
    different = [key for key in then if here[key] != then[key]]
    detail = f"differs: {', '.join(different)}" if different else task.name
    return _finding("the task is what the bundle says", not different, detail)


def _errors(recorded: Evaluation, again: Evaluation) -> Finding:
    pairs = {
        **{f"seed {s.seed}": (s.error, a.error)
           for s, a in zip(recorded.seeds, again.seeds, strict=False)},
        **{c.name: (c.error, a.error)
           for c, a in zip(recorded.checks, again.checks, strict=False)},
    }  # fmt: skip
    same = len(recorded.seeds) == len(again.seeds) and len(recorded.checks) == len(again.checks)
    far = [name for name, pair in pairs.items() if not _agree(*pair)]
    detail = f"differ: {', '.join(far)}" if far else f"{len(pairs)} input sets"
    return _finding("the errors are as recorded", same and not far, detail)


def _agree(then: float | None, now: float | None) -> bool:
    if then is None or now is None:
        return then is now
    return max(then, now) <= max(TINY_ERROR, ERROR_FACTOR * min(then, now))


def _latency(evidence: Evidence, again: Evaluation, backend: Backend) -> Finding:
    then, now = evidence.evaluation.latency_us or 0.0, again.latency_us or 0.0
    detail = f"{now:.3f} us, recorded {then:.3f} us"
    same_judge = backend.version == evidence.backend["version"]
    if evidence.evaluation.calibration and same_judge:
        return _finding("the latency is as predicted", abs(now - then) <= 1e-6 * then, detail)
    low, high = evidence.evaluation.latency_low_us, evidence.evaluation.latency_high_us
    if low is not None and high is not None:
        detail += f", range {low:.3f} to {high:.3f}; judge {backend.version}"
        return _finding("the latency is in the stated range", low <= now <= high, detail)
    claim = "the latency is within 10 % of the measured one"
    return _finding(claim, abs(now - then) <= 0.1 * then, detail)


def _comparison(
    evidence: Evidence, texts: Mapping[str, str], task: KernelTask, backend: Backend
) -> Finding:
    assert evidence.comparison is not None  # noqa: S101 - the caller looked
    parent = evidence.baseline.model_copy(update={"text": texts[BASELINE]})
    child = evidence.kernel.model_copy(update={"text": texts[KERNEL]})
    claim = f"against the baseline it is: {evidence.comparison.outcome.value}"
    try:
        here = backend.compare(task, parent, child)
    except AcceloptError as error:
        return Finding(claim, "fail", error.message)
    holds = here.outcome is evidence.comparison.outcome
    detail = f"{here.outcome.value}, {here.low:.3f}x to {here.high:.3f}x ({here.method})"
    return _finding(claim, holds, detail)


def _attacks(evidence: Evidence) -> Finding:
    suite = evidence.attack_suite
    claim = "the judge withstood the attack suite"
    if suite is None:
        return Finding(claim, "note", "not recorded; run `accelopt attack` before a run")
    detail = (
        f"blocked {suite.blocked}/{suite.attacks}, "
        f"twins passed {suite.twins_passed}/{suite.twins}, {suite.created}"
    )
    return _finding(claim, suite.clean, detail)
