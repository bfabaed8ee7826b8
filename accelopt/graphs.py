"""The contract between the command line and an agent graph, without any graph library."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from accelopt.backend import Backend
    from accelopt.candidate import Candidate
    from accelopt.config import RunConfig
    from accelopt.embedder import Embedder
    from accelopt.events import Observer
    from accelopt.faster import Comparison
    from accelopt.kernel import KernelTask
    from accelopt.models import Ensemble, Role
    from accelopt.prices import Price
    from accelopt.run_store import RunStore


@dataclass(frozen=True, kw_only=True)
class RunServices:
    """Everything a graph run works with. Objects are made by the caller and stay the caller's.

    Attributes:
        config: what was asked for.
        task: the task; its `baseline` is where the search starts.
        backend: the one backend that judges.
        chat_models: the models of each role, by weight.
        prices: of these models by label; None where a price is not known.
        embedder: for the optimization memory.
        store: the run folder.
        observers: who watches.
        stop: set it, and the run ends at the next step with status `stopped`, resumable.
        recorded: replay: no model is asked; the answers of the store's journal are all there is.
    """

    config: RunConfig
    task: KernelTask
    backend: Backend
    chat_models: Mapping[Role, Ensemble]
    embedder: Embedder
    store: RunStore
    prices: Mapping[str, Price | None] = field(default_factory=dict)
    observers: tuple[Observer, ...] = ()
    stop: threading.Event = field(default_factory=threading.Event)
    recorded: bool = False


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        status: `finished`, or `stopped` when it can be resumed.
        baseline: the starting kernel, evaluated.
        best: the fastest correct kernel; the baseline when nothing was faster.
        evaluations: programs judged, journalled ones counted once.
        reused_evaluations: programs that other runs had judged before.
        model_calls: model calls made, journalled ones counted once.
        input_tokens, output_tokens: tokens sent and received; worked out from the texts where the
            models do not report them.
        cost_usd: of the calls whose price is known.
        unpriced_calls: calls whose price is not known.
        failures: what went wrong with model calls and replies: kind -> how often.
        message: why it stopped; empty when it was asked to, or finished.
        comparison: whether the best kernel is faster than the baseline, and on what grounds; None
            when they are the same, or in a replay.
        changed_prompts: of a replay: slots whose prompt is not the recorded one.
        judged: what the backend says of this session, label -> words.
    """

    status: Literal["finished", "stopped"]
    baseline: Candidate
    best: Candidate
    evaluations: int
    model_calls: int
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced_calls: int = 0
    reused_evaluations: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    message: str = ""
    changed_prompts: tuple[str, ...] = ()
    comparison: Comparison | None = None
    judged: Mapping[str, str] = field(default_factory=dict)

    @property
    def baseline_us(self) -> float | None:
        """Latency of the baseline, in microseconds: the fresh measurement where there is one."""
        fresh = self.comparison is not None and self.comparison.measured
        return self.comparison.parent_us if self.comparison and fresh else self.baseline.latency_us

    @property
    def best_us(self) -> float | None:
        """Latency of the best kernel, likewise: a search picks what was measured luckily."""
        fresh = self.comparison is not None and self.comparison.measured
        return self.comparison.child_us if self.comparison and fresh else self.best.latency_us


class GraphProvider(Protocol):
    """One agent graph.

    Attributes:
        name: for example `optimize`.
        description: one line for `accelopt graphs`.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    def mermaid(self) -> str:
        """The graph drawn as Mermaid text, inner graphs included."""
        ...

    def run(self, services: RunServices) -> RunResult:
        """Run, or resume what the store's journal and checkpoints hold.

        Raises:
            AcceloptError: the baseline is not correct, or a service is broken.
        """
        ...
