"""The contract between the command line and an agent graph, without any graph library."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.backend import Backend
    from accelopt.candidate import Candidate
    from accelopt.config import RunConfig
    from accelopt.embedder import Embedder
    from accelopt.events import Observer
    from accelopt.kernel import KernelTask
    from accelopt.models import Role
    from accelopt.run_store import RunStore


@dataclass(frozen=True, kw_only=True)
class RunServices:
    """Everything a graph run works with. Objects are made by the caller and stay the caller's.

    Attributes:
        config: what was asked for.
        task: the task; its `baseline` is where the search starts.
        backend: the one backend that judges.
        chat_models: one model per role.
        embedder: for the optimization memory.
        store: the run folder.
        observers: who watches.
        stop: set it, and the run ends at the next step with status `stopped`, resumable.
    """

    config: RunConfig
    task: KernelTask
    backend: Backend
    chat_models: Mapping[Role, BaseChatModel]
    embedder: Embedder
    store: RunStore
    observers: tuple[Observer, ...] = ()
    stop: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended.

    Attributes:
        status: `finished`, or `stopped` when it can be resumed.
        baseline: the starting kernel, evaluated.
        best: the fastest correct kernel; the baseline when nothing was faster.
        evaluations: evaluations made, journalled ones counted once.
        model_calls: model calls made, journalled ones counted once.
        input_tokens: tokens sent, where the models report them.
        output_tokens: tokens received, where the models report them.
    """

    status: Literal["finished", "stopped"]
    baseline: Candidate
    best: Candidate
    evaluations: int
    model_calls: int
    input_tokens: int = 0
    output_tokens: int = 0


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
