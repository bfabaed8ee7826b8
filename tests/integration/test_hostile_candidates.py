"""Candidates that loop, hog, exit or lie become evaluations with the right status."""

from __future__ import annotations

import pytest

from accelopt import EvaluationStatus, KernelSource
from accelopt.plugins import installed
from accelopt.testing import nki_sample

SAMPLE = nki_sample()


def body(*statements: str) -> str:
    """The good kernel with statements put in front of its body."""
    lines = SAMPLE.good.text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("def kernel")) + 1
    return "\n".join(lines[:at] + ["    " + s for s in statements] + lines[at:]) + "\n"


HOSTILE = {
    "loops forever": (body("while True: pass"), {EvaluationStatus.TIMEOUT}),
    "loops in C code": (body("sum(iter(int, 1))"), {EvaluationStatus.TIMEOUT}),
    "allocates without end": (
        body("hog = []", "while True: hog.append(bytes(1 << 24))"),
        {EvaluationStatus.OUT_OF_MEMORY},
    ),
    "asks for one huge array": (
        body("import numpy as np", "hog = np.ones((1 << 22, 1 << 14))"),
        {EvaluationStatus.OUT_OF_MEMORY},
    ),
    "calls os._exit": (body("import os", "os._exit(0)"), {EvaluationStatus.REJECTED}),
    "recurses without end": (body("def f(): return f()", "f()"), {EvaluationStatus.LOAD_ERROR}),
    "prints that it is correct": (
        "def kernel(x):\n    print('correct')\n    print('{\"status\": \"ok\"}')\n",
        {EvaluationStatus.CONSTRAINT_VIOLATION},
    ),
    "asks for endless work": (
        body("for i in nl.sequential_range(1 << 38): nl.load(x[rows, columns])").replace(
            "    for i in nl", "    rows = nl.arange(128)[:, None]\n"
            "    columns = nl.arange(512)[None, :]\n    for i in nl",
        ),
        {EvaluationStatus.TIMEOUT},
    ),
    "asks for a huge tensor": (
        body("big = nl.ndarray((1 << 20, 1 << 20), dtype=x.dtype, buffer=nl.shared_hbm)",
             "nl.store(big[0:128, 0:512], nl.load(x[0:128, 0:512]))"),
        {EvaluationStatus.OUT_OF_MEMORY},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def backend():
    backend = installed().backend("sim-trn1")
    backend.configure(evaluation_timeout_s=4.0, workers=2)
    backend.screen(SAMPLE.task, SAMPLE.good)  # the limits are those of warm workers
    yield backend
    backend.close()


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_candidate_is_an_evaluation_and_the_next_one_works(backend, what):
    text, statuses = HOSTILE[what]
    result = backend.evaluate(SAMPLE.task, KernelSource(text=text))
    assert result.status in statuses, result.diagnostics
    assert result.diagnostics
    assert not result.seeds
    # Two seconds for the processes to end, beside the limit itself.
    assert result.elapsed_s < 4.0 + 2.0
    assert backend.evaluate(SAMPLE.task, SAMPLE.good, seeds=(0,)).ok


def test_a_run_goes_on_past_hostile_candidates(tmp_path):
    from accelopt.config import RunConfig
    from accelopt.graphs import RunServices
    from accelopt.models import Ensemble, Role
    from accelopt.run_store import RunStore
    from accelopt.testing import ScriptedChatModel

    kernels = [HOSTILE["loops forever"][0], HOSTILE["calls os._exit"][0], SAMPLE.wrong.text]

    def answer(request):
        if request.role == "executor":
            return f"```python\n{kernels[int(request.plan.split()[-1])]}\n```"
        return f"try kernel {request.index}" if request.role == "planner" else "I can't."

    model = ScriptedChatModel(answer=answer)
    config = RunConfig.load(
        iterations=1, num_plans=len(kernels), fixer_rounds=0, memory="none", beam_width=2
    )
    backend = installed().backend("sim-trn1")
    backend.configure(evaluation_timeout_s=3.0, workers=2)
    store = RunStore.create(tmp_path, config, SAMPLE.task.name)
    try:
        result = installed().graph("optimize").run(
            RunServices(
                config=config, task=SAMPLE.task, backend=backend,
                chat_models=dict.fromkeys(Role, Ensemble.of("scripted", model)),
                embedder=installed().embedder(config.embedder), store=store,
            )
        )  # fmt: skip
        statuses = {c.evaluation.status for c in store.candidates() if c.id != "baseline"}
    finally:
        store.close()
        backend.close()
    assert result.status == "finished"
    assert result.best.id == "baseline"
    assert statuses == {
        EvaluationStatus.TIMEOUT,
        EvaluationStatus.REJECTED,
        EvaluationStatus.INCORRECT,
    }
