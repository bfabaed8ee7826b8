"""What is known of kernels already: by this run's journal, and by the cache that runs share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from accelopt.errors import StoreError
from accelopt.evaluation import Diagnostic, Evaluation, EvaluationStatus
from accelopt.journal import Journal, JournalledEvaluation
from accelopt.kernel import KernelSource
from accelopt.normalize import line_map

# What another machine, or this one with less to do, may judge differently.
_CIRCUMSTANTIAL = frozenset({EvaluationStatus.TIMEOUT, EvaluationStatus.OUT_OF_MEMORY})


class KnownEvaluations:
    """Looks an evaluation up by its content key: in the journal first, then in the shared cache.

    A shared cache that can't be used is left out, with a word in `trouble`: it saves work, no more.

    Args:
        journal: of the run.
        shared: file of the cache that runs share; None for none.

    Attributes:
        trouble: why there is no shared cache, although one was asked for; usually empty.
    """

    def __init__(self, journal: Journal, shared: Path | None = None) -> None:
        self._journal = journal
        self._shared: Journal | None = None
        self.trouble = ""
        if shared is not None:
            try:
                shared.parent.mkdir(parents=True, exist_ok=True)
                self._shared = Journal(shared)
            except (OSError, StoreError) as error:
                self.trouble = f"the cache of evaluations is not used: {error}"

    def close(self) -> None:
        """Close the shared cache; the journal stays its owner's. Safe to call twice."""
        if self._shared is not None:
            self._shared.close()

    def get(self, key: str) -> JournalledEvaluation | None:
        """The evaluation under a key; None if nobody made it."""
        known = self._journal.evaluation(key)
        if known is None and self._shared is not None:
            known = self._shared.evaluation(key)
            if known is not None:
                self._journal.record_evaluation(key, known.source, known.evaluation, own=False)
        return known

    def put(self, key: str, source: str, evaluation: Evaluation, *, own: bool = True) -> None:
        """Write an evaluation down, before it is used."""
        self._journal.record_evaluation(key, source, evaluation, own=own)
        if self._shared is not None and evaluation.status not in _CIRCUMSTANTIAL:
            try:
                self._shared.record_evaluation(key, source, evaluation, own=own)
            except StoreError as error:
                self._shared.close()
                self._shared = None
                self.trouble = f"the cache of evaluations is not used any more: {error}"


def for_text(known: JournalledEvaluation, source: KernelSource) -> Evaluation:
    """The evaluation with the line numbers of an equal program in another layout."""
    evaluation = known.evaluation
    if known.source == source.text:
        return evaluation
    lines = line_map(known.source, source.text)
    diagnostics = tuple(_moved(diagnostic, lines) for diagnostic in evaluation.diagnostics)
    facts: dict[int, str] = {}
    for line, fact in sorted(evaluation.line_facts.items()):
        if line in lines:
            facts.setdefault(lines[line], fact)
    return evaluation.model_copy(
        update={
            "source_sha256": source.sha256,
            "diagnostics": diagnostics,
            "line_facts": facts,
            "explanation": _moved_lines(evaluation.explanation, lines),
        }
    )


def _moved(diagnostic: Diagnostic, lines: Mapping[int, int]) -> Diagnostic:
    line = None if diagnostic.line is None else lines.get(diagnostic.line)
    changes = {"line": line} | ({"column": None} if diagnostic.column is not None else {})
    return diagnostic.model_copy(update=changes)


def _moved_lines(text: str, lines: Mapping[int, int]) -> str:
    """A text in which every `line N` names the line's new place."""
    return re.sub(
        r"\bline (\d+)\b",
        lambda found: f"line {lines.get(int(found.group(1)), '?')}",
        text,
    )
