"""What the loop itself costs per attempt: graph, journal, events, memory; model and judge instant.

A full run at the paper's settings (B=6, N=12, K=2, T=16: about 2,200 attempts) with real kernels of
8 to 20 KB as answers, each with a change of its own, so that nothing is found twice.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import random
import tempfile
import time
from pathlib import Path

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from accelopt.config import RunConfig
from accelopt.embedders import HashedTokenEmbedder
from accelopt.evaluation import Evaluation, Stage
from accelopt.graphs import RunServices
from accelopt.models import Ensemble, Role
from accelopt.plugins import installed
from accelopt.requests import REQUEST_KEY
from accelopt.run_store import RunStore
from accelopt.testing import DummyBackend, dummy_task

TARGET_MS = 5.0
SOURCES = ("adamw", "gqa_full", "lora", "swiglu")
LEAST_BYTES, MOST_BYTES = 8_000, 20_000


class InstantModel(BaseChatModel):
    """Answers at once: plans as a paragraph, kernels as real sources with one number changed."""

    _sources: tuple[str, ...] = PrivateAttr()
    _serial: object = PrivateAttr(default_factory=lambda: itertools.count())

    def __init__(self, sources: tuple[str, ...]) -> None:
        super().__init__()
        self._sources = sources

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        request = messages[-1].additional_kwargs[REQUEST_KEY]
        number = next(self._serial)
        if request["role"] == "planner":
            text = f"Plan {number}: move the loads out of the inner loop, since they repeat. " * 8
        elif request["role"] == "executor":
            source = self._sources[number % len(self._sources)]
            text = f"Done.\n\n```python\n{source}\nVARIANT = {number}\n```\n"
        else:
            text = f"**Lesson {number}**\nMove repeated loads outward.\n" * 4
        usage = {"input_tokens": 3000, "output_tokens": 1000, "total_tokens": 4000}
        message = AIMessage(content=text, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class InstantBackend(DummyBackend):
    """Judges at once; a kernel's latency comes from its text, and every fifth is wrong."""

    def _run(self, task, source, stages, seeds):
        found = super()._run(task, source, stages, seeds)
        # What the double remembers for tests would be taken for the loop's memory.
        self.evaluated.clear()
        self.seeds_tried.clear()
        return found

    def _judge(self, task, source, stages, seeds):
        template = super()._judge(task, task.baseline, stages, seeds)
        chance = random.Random(source.text)
        factor = 0.9 + 0.4 * chance.random() if source.text != task.baseline.text else 1.0
        changes = {"source_sha256": source.sha256, "trace_hash": source.sha256}
        if Stage.LATENCY in stages:
            latency_us = template.latency_us * factor
            profile = template.profile.model_copy(update={"latency_us": latency_us})
            changes |= {"latency_us": latency_us, "profile": profile, "explanation": "x" * 1500}
        return Evaluation.model_validate(template.model_dump() | changes)


def rss_bytes() -> int:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Sampler:
    """An observer that notes memory and time at the end of every iteration."""

    def __init__(self) -> None:
        self.memory: list[int] = []
        self.attempts = 0
        self.iteration_s: list[float] = []
        self._started = time.perf_counter()

    def observe(self, event) -> None:
        if event["kind"] == "evaluation_finished":
            self.attempts += 1
        elif event["kind"] == "beam_selected":
            gc.collect()
            self.memory.append(rss_bytes())
            self.iteration_s.append(time.perf_counter() - self._started)

    def close(self) -> None:
        """Nothing to release."""


def measure(iterations: int) -> dict[str, float]:
    """One run; figures by name."""
    registry = installed()
    texts = tuple(registry.task(f"nkibench/{name}").baseline.text for name in SOURCES)
    if not all(LEAST_BYTES <= len(text) <= MOST_BYTES for text in texts):
        raise SystemExit(f"the sources must be {LEAST_BYTES} to {MOST_BYTES} bytes long")
    task = dummy_task(baseline=texts[0])
    config = RunConfig.load(None, preset="paper", iterations=iterations, task=task.name)
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore.create(Path(folder), config, task.name)
        sampler = Sampler()
        model = Ensemble.of("instant", InstantModel(texts))
        with store:
            services = RunServices(
                config=config,
                task=task,
                backend=InstantBackend(),
                chat_models=dict.fromkeys(Role, model),
                embedder=HashedTokenEmbedder(),
                store=store,
                observers=(sampler,),
            )
            # What a first import costs is not the loop's.
            import chromadb  # noqa: F401

            registry.graph("optimize").mermaid()
            started, cpu_started = time.perf_counter(), time.process_time()
            registry.graph("optimize").run(services)
            elapsed_s = time.perf_counter() - started
            cpu_s = time.process_time() - cpu_started
        checkpoints = sum(path.stat().st_size for path in store.path.glob("checkpoints.sqlite*"))
        journal = sum(path.stat().st_size for path in store.path.glob("journal.sqlite*"))
    settled = sampler.memory[min(2, len(sampler.memory) - 1) :]
    return {
        "attempts": sampler.attempts,
        "seconds": elapsed_s,
        "ms_per_attempt": 1e3 * elapsed_s / sampler.attempts,
        "cpu_ms_per_attempt": 1e3 * cpu_s / sampler.attempts,
        "peak_memory_bytes": max(sampler.memory),
        "memory_growth_percent": 100 * (max(settled) / settled[0] - 1),
        "checkpoint_bytes": checkpoints,
        "journal_bytes": journal,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.iterations)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"attempts            {figures['attempts']:.0f} in {figures['seconds']:.1f} s")
    print(f"per attempt         {figures['ms_per_attempt']:.2f} ms   target {TARGET_MS:.1f} ms")
    print(f"of that CPU         {figures['cpu_ms_per_attempt']:.2f} ms")
    print(f"peak memory         {figures['peak_memory_bytes'] / 2**20:.0f} MiB")
    print(f"memory growth       {figures['memory_growth_percent']:.1f} %   target 10 %")
    print(f"checkpoints         {figures['checkpoint_bytes'] / 1e6:.1f} MB   target 50 MB")
    print(f"journal             {figures['journal_bytes'] / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
