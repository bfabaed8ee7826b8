"""A lab: runs of the optimize graph with a scripted model and the dummy backend."""

from __future__ import annotations

import hashlib
import threading

import pytest

from accelopt.config import RunConfig
from accelopt.embedders import HashedTokenEmbedder
from accelopt.graphs import RunServices
from accelopt.models import Ensemble, Role
from accelopt.run_store import RunStore
from accelopt.testing import (
    DummyBackend,
    RecordingObserver,
    ScriptedChatModel,
    dummy_kernel,
    dummy_task,
)
from accelopt_graphs.build import build_graph
from accelopt_graphs.provider import SearchGraph


def fenced(code):
    return f"Here it is.\n\n```python\n{code}```\n"


def lesson(request):
    return f"**Lesson of {request.speedup:.3f}**\nDo less."


def digest(*parts):
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def searching(request):
    """A model whose answers follow from the request alone: some better, some worse, some broken."""
    match request.role:
        case "planner":
            return f"Plan {request.index} for {digest(request.kernel, request.tried) % 1000}"
        case "executor":
            number = digest(request.kernel, request.plan, request.index)
            latency_us = 60 + number % 80
            status = "incorrect" if number % 5 == 0 else "ok"
            return fenced(dummy_kernel(latency_us, status=status, note=str(number)))
        case "fixer":
            number = digest(request.kernel, request.index)
            status = "ok" if number % 2 else "constraint_violation"
            return fenced(dummy_kernel(90, status=status, note=f"fixed {number}"))
        case _:
            return lesson(request)


def by_role(executor, *, planner=None, fixer=None, summarizer=None):
    """A model with one function per role; the fixer must not be asked unless there is one."""
    roles = {
        "planner": planner or (lambda request: f"plan {request.index}"),
        "executor": executor,
        "fixer": fixer,
        "summarizer": summarizer or lesson,
    }

    def answer(request):
        function = roles[request.role]
        assert function is not None, f"the {request.role} must not be asked"
        return function(request)

    return ScriptedChatModel(answer=answer)


class Lab:
    """Makes runs in a temporary folder."""

    by_role = staticmethod(by_role)
    fenced = staticmethod(fenced)

    def __init__(self, folder):
        self.folder = folder
        self.backend = DummyBackend()
        self.observer = RecordingObserver()
        self.model = ScriptedChatModel(answer=searching)
        self.task = dummy_task()
        self.build = build_graph

    def store(self, **settings):
        defaults = {
            "task": self.task.name,
            "backend": "dummy",
            "beam_width": 2,
            "num_plans": 2,
            "num_samples": 2,
            "iterations": 2,
            "fixer_rounds": 1,
            "memory": "none",
            "evaluation_cache": "none",
            "model_retries": 0,
            "reply_reasks": 0,
        }
        config = RunConfig.load(None, **(defaults | settings))
        return RunStore.create(self.folder / "runs", config, self.task.name)

    def services(self, store, **changes):
        model = changes.pop("model", self.model)
        values = {
            "config": store.config,
            "task": self.task,
            "backend": self.backend,
            "chat_models": dict.fromkeys(Role, Ensemble.of("scripted", model)),
            "embedder": HashedTokenEmbedder(),
            "store": store,
            "observers": (self.observer,),
            "stop": threading.Event(),
        }
        return RunServices(**(values | changes))

    def run(self, store=None, **changes):
        with store if store is not None else self.store() as opened:
            return SearchGraph("optimize", "", self.build).run(self.services(opened, **changes))


@pytest.fixture(scope="session")
def new_lab():
    return Lab


@pytest.fixture
def lab(tmp_path):
    return Lab(tmp_path)
