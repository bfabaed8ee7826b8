"""The progress view counts what was really done."""

from __future__ import annotations

from accelopt.cli.progress import RunView
from accelopt.events import Event


def _finished(candidate: str, **fields: object) -> Event:
    return {  # type: ignore[typeddict-item]
        "kind": "evaluation_finished",
        "time_s": 0.0,
        "run": "r",
        "candidate": candidate,
        "status": "ok",
        **fields,
    }


def test_known_kernels_and_replies_without_one_are_attempts_but_not_evaluations():
    view = RunView(iterations=1, attempts_per_iteration=4)
    for name in ("a", "b"):
        view.update(
            {"kind": "evaluation_started", "time_s": 0.0, "run": "r", "candidate": name},
        )
    view.update(_finished("c", cached=True, latency_us=2.0))
    view.update(_finished("d", status="invalid"))
    assert (view.attempts, view.evaluations, view.running) == (2, 0, 2)
    view.update(_finished("a", cached=False, latency_us=3.0))
    assert (view.attempts, view.evaluations, view.running) == (3, 1, 1)
    assert view.best_us == 2.0
