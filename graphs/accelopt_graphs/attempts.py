"""What the nodes of an attempt share: drafts, and results for what never became a kernel."""

from __future__ import annotations

import json
from dataclasses import dataclass

from accelopt import slots
from accelopt.candidate import Candidate
from accelopt.errors import ReplyFormatError
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus
from accelopt.kernel import KernelSource
from accelopt.normalize import normalized_hash
from accelopt.replies import ExtractedKernel
from accelopt_graphs.chat import reason_of
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import AttemptInput

_DRAFT = "draft"


@dataclass(frozen=True)
class Draft:
    """A source that is about to be judged.

    Attributes:
        source: the kernel.
        notes: what is worth knowing of how it was read from the reply.
    """

    source: KernelSource
    notes: tuple[str, ...] = ()


def attempt_slot(state: AttemptInput) -> str:
    """Slot, and candidate id, of an attempt."""
    return slots.sample_slot(state["plan"], state["sample"])


def save_draft(run: RunContext, slot: str, round_: int, found: ExtractedKernel) -> None:
    """Keep a source that is about to be judged."""
    notes = found.notes
    if found.renamed_from:
        notes = (*notes, f"the kernel was called {found.renamed_from!r} in the reply")
    journal = run.store.journal
    draft = {"source": journal.put_source(found.source), "notes": notes}
    journal.put_record(_DRAFT, f"{slot}-f{round_}", json.dumps(draft))


def load_draft(run: RunContext, slot: str, round_: int) -> Draft:
    """The source of a round; round 0 is the executor's."""
    kept = run.store.journal.record(_DRAFT, f"{slot}-f{round_}")
    if kept is None:
        raise LookupError(f"no source was kept for {slot}, round {round_}")
    draft = json.loads(kept)
    text = run.store.journal.source(draft["source"])
    source = run.task.baseline.model_copy(update={"text": text, "filename": f"{slot}.py"})
    return Draft(source=source, notes=tuple(draft["notes"]))


def was_tried(run: RunContext, slot: str, rounds: int, text: str) -> bool:
    """Whether an earlier round of the attempt has had the same program."""
    program = normalized_hash(text)
    earlier = (load_draft(run, slot, round_).source.text for round_ in range(rounds + 1))
    return any(normalized_hash(known) == program for known in earlier)


def without_kernel(
    run: RunContext, state: AttemptInput, error: ReplyFormatError | Exception
) -> Candidate:
    """The record of an attempt that gave no kernel: a failed attempt, not a failed run."""
    slot = attempt_slot(state)
    source = run.task.baseline.model_copy(update={"text": "", "filename": f"{slot}.py"})
    message = getattr(error, "message", "") or str(error)
    if isinstance(error, ReplyFormatError):
        finding = Diagnostic(rule="reply_format", message=message, hint=reason_of(error))
    else:
        finding = Diagnostic(rule="model_call", message=message)
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
            diagnostics=(finding,),
        ),
    )
