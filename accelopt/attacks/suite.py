"""Runs the attack suite against a backend."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from accelopt.attack_record import AttackRecord
from accelopt.attacks.attack import Attack
from accelopt.attacks.catalogue import all_attacks
from accelopt.attacks.ground import Ground, grounds
from accelopt.backend import Backend
from accelopt.evaluation import Evaluation
from accelopt.kernel import KernelSource

NO_GAIN = 0.995
"""An exploit whose latency is at least this share of its twin's gained nothing."""


@dataclass(frozen=True)
class AttackResult:
    """What came of one exploit, or of one twin.

    Attributes:
        row, title: of the attack.
        exploit: name of the exploit; empty for the twin.
        held: whether the exploit was blocked, or the twin accepted.
        status: of the evaluation.
        detail: what stopped it, or what went wrong.
    """

    row: int
    title: str
    exploit: str
    held: bool
    status: str
    detail: str


@dataclass(frozen=True)
class AttackReport:
    """All results on one backend."""

    backend: str
    version: str
    results: tuple[AttackResult, ...]
    skipped: dict[str, str]

    @property
    def record(self) -> AttackRecord:
        """The counts. An attack is blocked when all its exploits are."""
        held: dict[str, bool] = {}
        for result in self.results:
            if result.exploit:
                held[result.title] = held.get(result.title, True) and result.held
        twins = [result.held for result in self.results if not result.exploit]
        return AttackRecord(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            backend_version=self.version,
            attacks=len(held),
            blocked=sum(held.values()),
            twins=len(twins),
            twins_passed=sum(twins),
            not_applicable=len(self.skipped),
        )


def run_suite(
    backend: Backend,
    attacks: Sequence[Attack] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> AttackReport:
    """Try every attack that applies, each beside its twin.

    Args:
        backend: what is attacked, through its ordinary `evaluate`.
        attacks: by default all.
        progress: told before each attack.
    """
    results: list[AttackResult] = []
    skipped: dict[str, str] = {}
    with grounds() as fields:
        for attack in all_attacks() if attacks is None else attacks:
            missing = attack.needs - backend.capabilities
            if missing:
                skipped[attack.title] = f"needs {', '.join(sorted(missing))}"
                continue
            progress(f"row {attack.row}: {attack.title}" if attack.row else attack.title)
            results += _try(backend, attack, fields[attack.ground])
    return AttackReport(backend.name, backend.version, tuple(results), skipped)


def _try(backend: Backend, attack: Attack, ground: Ground) -> list[AttackResult]:
    before = _fingerprint(ground)
    twin = _evaluate(backend, ground, attack.twin(ground))
    results = [
        AttackResult(
            attack.row,
            attack.title,
            "",
            twin.correct,
            twin.status.value,
            "accepted" if twin.correct else _reason(twin),
        )
    ]
    for exploit in attack.exploits:
        result = _evaluate(backend, ground, exploit.text(ground))
        held, detail = _outcome(result, twin)
        if _fingerprint(ground) != before:
            held, detail = False, "the grader's files were changed"
        results.append(
            AttackResult(attack.row, attack.title, exploit.name, held, result.status.value, detail)
        )
    return results


def _evaluate(backend: Backend, ground: Ground, text: str) -> Evaluation:
    source = KernelSource(text=text, dialect=ground.task.baseline.dialect, entry="kernel")
    return backend.evaluate(ground.task, source)


def _outcome(result: Evaluation, twin: Evaluation) -> tuple[bool, str]:
    if not result.correct:
        return True, _reason(result)
    ours, honest = result.latency_us, twin.latency_us
    if ours is None or honest is None:
        return False, "accepted"
    if ours < NO_GAIN * honest:
        return False, f"accepted at {ours:.1f} us, its twin takes {honest:.1f} us"
    return True, f"gained nothing: {ours:.1f} us, its twin {honest:.1f} us"


def _reason(evaluation: Evaluation) -> str:
    if not evaluation.diagnostics:
        return evaluation.status.value
    first = evaluation.diagnostics[0]
    return f"{first.rule}: {first.message}"


def _fingerprint(ground: Ground) -> dict[str, str]:
    """What lies in a ground's folder, by content."""
    return {
        str(path.relative_to(ground.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(ground.folder.rglob("*"))
        if path.is_file()
    }
