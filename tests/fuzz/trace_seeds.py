"""Valid traces to mutate, each with a task that its arguments fit."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "simulator"))

from corpus import KERNELS
from simulator_forgery import SAMPLE, sample_arrays
from simulator_kernels import trace

from accelopt import KernelSource
from accelopt.kernel import ArgumentSpec, Dialect, KernelTask, Work
from accelopt.plugins import installed
from accelopt_simulator.frontend.run import trace_kernel
from accelopt_simulator.requests import request_for
from accelopt_simulator.trace.codec import encode

MAX_SEED_BYTES = 60_000


class AnyResult:
    """Given arrays as inputs; whatever the kernel computes is compared with zeros."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = arrays

    def inputs(self, seed: int) -> list[Any]:
        return [a.copy() if isinstance(a, np.ndarray) else a for a in self.arrays]

    def forward(self, inputs: list[Any]) -> Any:
        return np.ones(1, np.float32)

    def kernel_inputs(self, inputs: list[Any]) -> list[Any]:
        return list(inputs)

    def natural_output(self, outputs: list[Any], expected: Any) -> Any:
        return np.asarray(outputs[0]).astype(np.float32).reshape(-1)[:1]


@dataclass(frozen=True)
class Seed:
    """A valid trace.

    Attributes:
        name: where it comes from.
        data: its bytes.
        task: what the judge compares it with.
        heavy: whether judging it takes long; mutated less often.
    """

    name: str
    data: bytes
    task: KernelTask
    heavy: bool = False


def task_of(name: str, arrays: list[Any]) -> KernelTask:
    """A task that passes these arguments and is content with nothing."""
    return KernelTask(
        name=f"fuzz/{name}", title=name, reference=AnyResult(arrays), reference_source="",
        baseline=KernelSource(text="def kernel(x):\n    return x", dialect=Dialect.NEURONXCC_NKI),
        arguments=tuple(
            ArgumentSpec(shape=a.shape, dtype=a.dtype.name)
            if isinstance(a, np.ndarray) else ArgumentSpec(shape=(), value=a)
            for a in arrays
        ),
        output_shape=(1,), relative_l2_tolerance=0.5, seeds=(0,), work=Work(hbm_bytes=1),
        min_float_bits=8,
    )  # fmt: skip


def seeds(*, tasks: bool = True) -> list[Seed]:
    """The sample of the forgery tests, our call corpus, and the benchmark's small baselines."""
    found = []
    texts = [("sample", SAMPLE, list(sample_arrays()))]
    texts += [(k.name, k.text, k.inputs()) for k in KERNELS]
    for name, text, arrays in texts:
        result = trace(text, *arrays)
        if result.trace is not None:
            data = encode(result.trace)
            if len(data) <= MAX_SEED_BYTES:
                found.append(Seed(name, data, task_of(name, arrays)))
    if tasks:
        registry = installed()
        for name in registry.task_names():
            if name.startswith("nkibench/") and name.endswith("@small"):
                task = registry.task(name)
                result = trace_kernel(request_for(task, task.baseline))
                if result.trace is not None:
                    found.append(Seed(name, encode(result.trace), task, heavy=True))
    return found
