"""A small task in the `neuronxcc.nki` dialect, with one good kernel and kernels that are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelopt.kernel import (
    ArgumentSpec,
    Array,
    Dialect,
    KernelArgument,
    KernelSource,
    KernelTask,
    Work,
)

ROWS, COLUMNS = 256, 512

_KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl
import neuronxcc.nki.isa as nisa


@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    rows = nl.arange(128)[:, None]
    columns = nl.arange(x.shape[1])[None, :]
    for block in nl.affine_range(x.shape[0] // 128):
        tile = nl.load(x[block * 128 + rows, columns])
        result = nisa.tensor_scalar(tile, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=1.0)
        nl.store(out[block * 128 + rows, columns], value=result)
    return out
"""


@dataclass(frozen=True)
class ConformanceSample:
    """What a backend is tried on.

    Attributes:
        task: the task.
        good: a kernel the backend must accept.
        wrong: a kernel that runs but computes something else.
        broken: kernels that must not be accepted, by what is wrong with them.
    """

    task: KernelTask
    good: KernelSource
    wrong: KernelSource
    broken: dict[str, KernelSource]


class _ScaleAndAdd:
    """y = 2 x + 1."""

    def inputs(self, seed: int) -> list[KernelArgument]:
        """Normal draws."""
        random = np.random.default_rng(seed)
        return [random.standard_normal((ROWS, COLUMNS)).astype(np.float32)]

    def forward(self, inputs: Sequence[KernelArgument]) -> Array:
        """The right answer."""
        result: Array = np.asarray(inputs[0]) * np.float32(2) + np.float32(1)
        return result

    def kernel_inputs(self, inputs: Sequence[KernelArgument]) -> list[KernelArgument]:
        """The natural layout."""
        return list(inputs)

    def natural_output(self, outputs: Sequence[Array], expected: Array) -> Array:
        """The natural layout."""
        if len(outputs) != 1 or outputs[0].size != expected.size:
            raise ValueError(f"the kernel returns {[o.shape for o in outputs]}")
        return outputs[0].reshape(expected.shape)


def nki_sample() -> ConformanceSample:
    """The sample for backends that take kernels of the `neuronxcc.nki` dialect."""
    good = KernelSource(text=_KERNEL, dialect=Dialect.NEURONXCC_NKI)
    task = KernelTask(
        name="conformance/scale_and_add",
        title="y = 2 x + 1",
        reference=_ScaleAndAdd(),
        reference_source="def forward(x):\n    return 2 * x + 1\n",
        baseline=good,
        arguments=(ArgumentSpec(shape=(ROWS, COLUMNS)),),
        output_shape=(ROWS, COLUMNS),
        relative_l2_tolerance=2e-5,
        work=Work(hbm_bytes=8 * ROWS * COLUMNS),
        seeds=(0, 1),
    )

    def variant(old: str, new: str) -> KernelSource:
        text = good.text.replace(old, new)
        return KernelSource(text=text, dialect=Dialect.NEURONXCC_NKI)

    store = "        nl.store(out[block * 128 + rows, columns], value=result)\n"
    wide = "columns = nl.arange(x.shape[1])"
    return ConformanceSample(
        task=task,
        good=good,
        wrong=variant("operand1=1.0", "operand1=1.5"),
        broken={
            "is an empty file": variant(good.text, ""),
            "does not parse": variant("return out", "return (out"),
            "has no kernel": variant(good.text, "x = 1\n"),
            "raises": variant("    rows =", "    raise ValueError('no')\n    rows ="),
            "never writes its output": variant(store, ""),
            "reads out of bounds": variant(wide, wide.replace("nl.", "1 + nl.")),
        },
    )
