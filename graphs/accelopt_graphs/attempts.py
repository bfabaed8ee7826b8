"""What the nodes of an attempt share: drafts, and results for what never became a kernel."""

from __future__ import annotations

from accelopt import slots
from accelopt.candidate import Candidate
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus
from accelopt.kernel import KernelSource
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import AttemptInput

_DRAFT = "draft"


def attempt_slot(state: AttemptInput) -> str:
    """Slot, and candidate id, of an attempt."""
    return slots.sample_slot(state["plan"], state["sample"])


def save_draft(run: RunContext, slot: str, round_: int, text: str) -> None:
    """Keep a source that is about to be judged."""
    source = run.task.baseline.model_copy(update={"text": text, "filename": f"{slot}.py"})
    run.store.journal.put_record(_DRAFT, f"{slot}-f{round_}", source.model_dump_json())


def load_draft(run: RunContext, slot: str, round_: int) -> KernelSource:
    """The source of a round; round 0 is the executor's."""
    text = run.store.journal.record(_DRAFT, f"{slot}-f{round_}")
    if text is None:
        raise LookupError(f"no source was kept for {slot}, round {round_}")
    return KernelSource.model_validate_json(text)


def without_kernel(run: RunContext, state: AttemptInput, rule: str, message: str) -> Candidate:
    """The record of an attempt that gave no kernel: a failed attempt, not a failed run."""
    slot = attempt_slot(state)
    source = run.task.baseline.model_copy(update={"text": "", "filename": f"{slot}.py"})
    return Candidate(
        id=slot,
        iteration=state["iteration"],
        parent=state["parent"],
        plan=state["plan"],
        sample=state["sample"],
        source=source,
        evaluation=Evaluation(
            status=EvaluationStatus.LOAD_ERROR,
            task=run.task.name,
            backend=run.backend.name,
            source_sha256=source.sha256,
            diagnostics=(Diagnostic(rule=rule, message=message),),
        ),
    )
