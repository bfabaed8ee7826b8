"""A backend that judges by directives in the kernel's comments, and a task to go with it.

::

    # latency_us: 120
    # status: incorrect
    # rule: some_rule
    # message: what is wrong
    # line: 3
    # bound: dma
    def kernel(x):
        ...

Evaluations are kept by program, and comments are no part of a program: two kernels that differ only
in a directive count as the same. `dummy_kernel` makes kernels that differ.
"""

from __future__ import annotations

import ast
import re
import threading
import time
from collections.abc import Sequence

import numpy as np

from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
from accelopt.device import DeviceSpec
from accelopt.evaluation import (
    ESTIMATE_STAGES,
    Diagnostic,
    Evaluation,
    EvaluationStatus,
    Profile,
    SeedResult,
    Stage,
)
from accelopt.faster import Comparison, over_calibrations
from accelopt.kernel import ArgumentSpec, Array, KernelArgument, KernelSource, KernelTask, Work
from accelopt.normalize import normalized_hash
from accelopt.parsing import parse_python

_DIRECTIVE = re.compile(r"^\s*#\s*(\w+):\s*(.*?)\s*$", re.MULTILINE)
_DEFAULT_LATENCY_US = 100.0

DUMMY_DEVICE = DeviceSpec(
    name="dummy",
    title="Dummy device",
    hbm_bandwidth_bytes_per_s=1e9,
    fp32_matmul_flops_per_s=1e12,
    vector_flops_per_s=1e10,
    sbuf_bytes_per_partition=196608,
    psum_bytes_per_partition=16384,
)


class DummyBackend(Backend):
    """Judges by directives; instant and deterministic.

    Args:
        delay_s: seconds that every call takes.

    Attributes:
        evaluated: texts whose numbers were compared, in the order of arrival.
        seeds_tried: the seeds of each of these comparisons.
        most_at_once: the most calls that ran at the same time.
    """

    name = "dummy"
    device = DUMMY_DEVICE
    capabilities = BASE_CAPABILITIES | {
        Capability.ESTIMATE,
        Capability.COUNTERS,
        Capability.DIALECT_NEURONXCC_NKI,
        Capability.DIALECT_NKI,
    }
    description = "judges by directives in comments; for tests"

    def __init__(self, delay_s: float = 0.0) -> None:
        super().__init__()
        self.evaluated: list[str] = []
        self.seeds_tried: list[tuple[int, ...]] = []
        self.most_at_once = 0
        self._delay_s = delay_s
        self._running = 0
        self._state = threading.Lock()

    def compare(self, task: KernelTask, parent: KernelSource, child: KernelSource) -> Comparison:
        """By the directives; counted as no call."""
        latencies = [
            self._judge(task, source, ESTIMATE_STAGES, ()).latency_us or _DEFAULT_LATENCY_US
            for source in (parent, child)
        ]
        return over_calibrations(latencies[:1], latencies[1:], "directives")

    def _run(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        with self._state:
            self._running += 1
            self.most_at_once = max(self.most_at_once, self._running)
            if Stage.CORRECTNESS in stages:
                self.evaluated.append(source.text)
                self.seeds_tried.append(seeds)
        try:
            if self._delay_s:
                time.sleep(self._delay_s)
            return self._judge(task, source, stages, seeds)
        finally:
            with self._state:
                self._running -= 1

    def _judge(
        self,
        task: KernelTask,
        source: KernelSource,
        stages: frozenset[Stage],
        seeds: tuple[int, ...],
    ) -> Evaluation:
        asked = dict(_DIRECTIVE.findall(source.text))
        status, finding = _outcome(source.text, asked, stages)
        base = Evaluation(
            status=status,
            task=task.name,
            backend=self.name,
            source_sha256=source.sha256,
            diagnostics=() if finding is None else (finding,),
            calibration="dummy-1",
        )
        if status is EvaluationStatus.LOAD_ERROR:
            return base
        base = base.model_copy(update={"trace_hash": normalized_hash(source.text)})
        if status not in (EvaluationStatus.OK, EvaluationStatus.INCORRECT):
            return base
        changes: dict[str, object] = {}
        if Stage.LATENCY in stages:
            latency_us = float(asked.get("latency_us", _DEFAULT_LATENCY_US))
            changes = {
                "latency_us": latency_us,
                "profile": _profile(latency_us),
                "bound": asked.get("bound", "dma"),
                "features": {"latency_us": latency_us},
                "line_facts": {1: "the dummy backend read this line"},
            }
        if Stage.CORRECTNESS in stages:
            changes["seeds"] = _seed_results(task, status, seeds)
        return base.model_copy(update=changes)


def _outcome(
    text: str, asked: dict[str, str], stages: frozenset[Stage]
) -> tuple[EvaluationStatus, Diagnostic | None]:
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        return EvaluationStatus.LOAD_ERROR, Diagnostic(
            rule="syntax_error", message=str(error), line=line
        )
    if not any(isinstance(node, ast.FunctionDef) for node in tree.body):
        return EvaluationStatus.LOAD_ERROR, Diagnostic(
            rule="no_kernel", message="the file defines no function"
        )
    status = EvaluationStatus(asked.get("status", "ok"))
    numeric = status in (EvaluationStatus.INCORRECT, EvaluationStatus.TIMEOUT)
    if status is EvaluationStatus.OK or (numeric and Stage.CORRECTNESS not in stages):
        return EvaluationStatus.OK, None
    return status, Diagnostic(
        rule=asked.get("rule", status.value),
        message=asked.get("message", f"the directive says {status.value}"),
        line=int(asked["line"]) if "line" in asked else None,
    )


def _seed_results(
    task: KernelTask, status: EvaluationStatus, seeds: tuple[int, ...]
) -> tuple[SeedResult, ...]:
    tolerance = task.relative_l2_tolerance
    if status is EvaluationStatus.INCORRECT:
        return (SeedResult(seed=seeds[0], error=1.0, tolerance=tolerance, ok=False),)
    return tuple(SeedResult(seed=seed, error=0.0, tolerance=tolerance, ok=True) for seed in seeds)


def _profile(latency_us: float) -> Profile:
    return Profile(
        latency_us=latency_us,
        hbm_read_bytes=1000.0 * latency_us,
        hbm_write_bytes=4096.0,
        spill_save_bytes=0.0,
        hardware_flops=2e6,
        vector_engine_active_time_percent=0.25,
        dma_active_time_percent=0.75,
    )


class _Doubling:
    """The meaning of the dummy task: twice the input."""

    def inputs(self, seed: int) -> list[KernelArgument]:
        return [np.random.default_rng(seed).standard_normal((4, 8)).astype(np.float32)]

    def forward(self, inputs: Sequence[KernelArgument]) -> Array:
        return np.asarray(inputs[0]) * np.float32(2)

    def kernel_inputs(self, inputs: Sequence[KernelArgument]) -> list[KernelArgument]:
        return list(inputs)

    def natural_output(self, outputs: Sequence[Array], expected: Array) -> Array:
        if len(outputs) != 1 or outputs[0].shape != expected.shape:
            raise ValueError("the kernel must return one array of the input's shape")
        return outputs[0]


def dummy_kernel(latency_us: float, *, status: str = "ok", note: str = "") -> str:
    """Text of a kernel that the dummy backend judges as told.

    Args:
        latency_us: the latency it will have.
        status: the status it will have.
        note: makes the program another one, with the same judgement.
    """
    return (
        f"# latency_us: {latency_us}\n# status: {status}\n"
        f"def kernel(x):\n    return x, {latency_us!r}, {status!r}, {note!r}\n"
    )


def dummy_task(
    *, baseline_us: float = 100.0, name: str = "dummy/doubling", baseline: str = ""
) -> KernelTask:
    """A task whose baseline the dummy backend finds correct.

    Args:
        baseline_us: latency of the baseline.
        name: name of the task.
        baseline: text of the baseline, in place of the usual one.
    """
    return KernelTask(
        name=name,
        title="Twice the input",
        reference=_Doubling(),
        reference_source="def forward(x):\n    return x * 2\n",
        baseline=KernelSource(text=baseline or dummy_kernel(baseline_us)),
        arguments=(ArgumentSpec(shape=(4, 8)),),
        output_shape=(4, 8),
        relative_l2_tolerance=2e-5,
        work=Work(hbm_bytes=256, vector_flops=32),
        seeds=(0, 21),
    )
