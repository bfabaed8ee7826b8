"""Kernels and tasks as data: what is to be optimized, and what the right answer is."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pydantic import BaseModel, ConfigDict, field_validator

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

# Aliases as text: importing NumPy would double the time that `import accelopt` takes.
Array: TypeAlias = "NDArray[Any]"
KernelArgument: TypeAlias = "NDArray[Any] | float | int"
"""What a kernel is called with: an array, or a scalar that is a compile-time constant."""

MAX_GRID = 1 << 20
"""Most program instances of a launch."""

PUBLISHED_SEEDS = (0, 21, 42, 63, 84)
"""The seeds of the published acceptance rule (nkibench)."""


class Dialect(StrEnum):
    """A kernel language, named by its import root."""

    NEURONXCC_NKI = "neuronxcc.nki"
    NKI = "nki"


class KernelSource(BaseModel):
    """Source text of one kernel file.

    Attributes:
        text: the whole Python file.
        dialect: the language it is written in.
        entry: name of the kernel function; empty means "find the only one".
        filename: what diagnostics and tracebacks call the file.
        grid: SPMD grid the kernel is launched with; empty for a launch without one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    dialect: Dialect = Dialect.NEURONXCC_NKI
    entry: str = ""
    filename: str = "kernel.py"
    grid: tuple[int, ...] = ()

    @field_validator("grid")
    @classmethod
    def _extents_are_positive(cls, grid: tuple[int, ...]) -> tuple[int, ...]:
        if any(not 0 < extent <= MAX_GRID for extent in grid) or math.prod(grid) > MAX_GRID:
            raise ValueError(f"a grid has positive extents, at most {MAX_GRID} instances in all")
        return grid

    @property
    def sha256(self) -> str:
        """Content hash of text, dialect, entry and, if there is one, grid (hex)."""
        parts = [self.dialect, self.entry, self.text]
        if self.grid:
            parts.append(",".join(map(str, self.grid)))
        payload = "\0".join(parts)
        # A model may write half a surrogate pair, which is no character of UTF-8.
        return hashlib.sha256(payload.encode("utf-8", "surrogatepass")).hexdigest()


class Work(BaseModel):
    """The work a task cannot avoid, for the roofline.

    Attributes:
        hbm_bytes: compulsory HBM traffic: each input once plus the output once.
        matmul_flops: useful matmul FLOPs (one multiply-add = 2), float32.
        vector_flops: unfused vector and scalar FLOPs; scalar-constant operations are not counted
            (rule of NKIBench).
        from_bytes_alone: true when only the bytes are known (a reference without `work()`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hbm_bytes: int
    matmul_flops: int = 0
    vector_flops: int = 0
    from_bytes_alone: bool = False


class Reference(Protocol):
    """The executable meaning of a task: inputs, right answer and layouts."""

    def inputs(self, seed: int) -> list[KernelArgument]:
        """Draw the natural inputs for a seed, in call order."""
        ...

    def forward(self, inputs: Sequence[KernelArgument]) -> Array:
        """Compute the right answer from natural inputs."""
        ...

    def kernel_inputs(self, inputs: Sequence[KernelArgument]) -> list[KernelArgument]:
        """Lay natural inputs out as the kernel's arguments."""
        ...

    def natural_output(self, outputs: Sequence[Array], expected: Array) -> Array:
        """Lay the kernel's outputs out like the reference's output.

        Raises:
            ValueError: the kernel's outputs can't have that layout.
        """
        ...


class StressReference(Reference, Protocol):
    """The reference of a task that states stress cases."""

    def stress_inputs(self, name: str, seed: int) -> list[KernelArgument]:
        """Draw the natural inputs of a stress case."""
        ...


@dataclass(frozen=True, kw_only=True)
class ArgumentSpec:
    """One kernel argument.

    Attributes:
        shape: of the array as the kernel sees it; empty for a scalar.
        dtype: NumPy name of the element type, or `"float"` / `"int"` for a Python scalar.
        value: the scalar's value; None for an array.
    """

    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    value: float | int | None = None


@dataclass(frozen=True, kw_only=True)
class StressCase:
    """Inputs that tell a right kernel from one that the published rule can't.

    Attributes:
        name: asked of the reference as `stress_inputs(name, seed)`.
        metric: `relative_l2`, or `elementwise`: the largest |kernel - reference| / |reference|.
        tolerance: the limit the error must stay below.
        floor: elementwise: |reference| counts as at least this much.
    """

    name: str
    metric: str
    tolerance: float
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.metric not in ("relative_l2", "elementwise"):
            raise ValueError(f"{self.name}: metric is {self.metric!r}")
        if not 0 < self.tolerance < 1 or self.floor < 0:
            raise ValueError(f"{self.name}: tolerance must lie in (0, 1), and floor not below 0")


MIX_INGREDIENTS = (
    "zeros", "large", "tiny", "denormal", "negated", "repeated", "one changed element",
)  # fmt: skip
"""What is mixed into nominal inputs for the fresh check (see `accelopt.stress`)."""


@dataclass(frozen=True, kw_only=True)
class KernelTask:
    """One optimization task. Immutable; compares and hashes by identity of its `name`.

    Attributes:
        name: full name, `suite/task` or `suite/task@variant`.
        title: one line for people.
        reference: inputs and right answer.
        reference_source: text of the reference file, shown to the planner.
        baseline: the kernel a search starts from.
        arguments: kernel arguments in call order, as the kernel sees them.
        output_shape: natural shape of the output.
        relative_l2_tolerance: accept when ||kernel - reference||2 < tolerance * ||reference||2.
        seeds: input seeds of the acceptance rule.
        work: roofline work.
        locator: how another process finds this task again: `task:<name>` or `file:<paths>`; empty
            when it lives in this process only.
        published: published measurements to show beside ours, if any (latencies in microseconds).
        min_float_bits: the lowest floating-point precision, in bits, a kernel may compute in.
        stress: inputs that it is compared on beside the seeds.
        mix: what may be mixed into nominal inputs; an input with a domain of its own (sorted, say,
            or positive) leaves out what does not belong there.
        check_seeds: seeds of the fresh and stress inputs by the check's name; where a name is
            missing, the seed is derived from this installation's key.
    """

    name: str
    title: str
    reference: Reference
    reference_source: str
    baseline: KernelSource
    arguments: tuple[ArgumentSpec, ...]
    output_shape: tuple[int, ...]
    relative_l2_tolerance: float
    work: Work
    seeds: tuple[int, ...] = PUBLISHED_SEEDS
    locator: str = ""
    published: Mapping[str, float] = field(default_factory=dict)
    min_float_bits: int = 32
    stress: tuple[StressCase, ...] = ()
    mix: tuple[str, ...] = MIX_INGREDIENTS
    check_seeds: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.relative_l2_tolerance < 1:
            raise ValueError(f"{self.name}: tolerance must lie in (0, 1)")
        if not self.seeds:
            raise ValueError(f"{self.name}: at least one seed is needed")
        unknown = set(self.mix) - set(MIX_INGREDIENTS)
        if unknown:
            raise ValueError(f"{self.name}: nothing called {min(unknown)!r} can be mixed in")

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelTask) and self.fingerprint == other.fingerprint

    @property
    def fingerprint(self) -> str:
        """Content hash of everything the judgement of a kernel depends on (hex)."""
        spec = repr(
            (
                self.name, self.arguments, self.output_shape, self.relative_l2_tolerance,
                self.seeds, self.min_float_bits, self.stress, self.mix,
                sorted(self.check_seeds.items()),
            )
        )  # fmt: skip
        work = self.work.model_dump_json()
        return hashlib.sha256("\0".join((spec, work, self.reference_source)).encode()).hexdigest()


Suite = Mapping[str, Callable[[], KernelTask]]
"""Task name -> function that builds the task; nothing is drawn or computed at registration."""


def elementwise_error(actual: Array, expected: Array, floor: float = 0.0) -> float:
    """Largest |actual - expected| / max(|expected|, floor), in float64; 0 / 0 counts as 0.

    NaN anywhere gives NaN, which no tolerance accepts.

    Raises:
        ValueError: the shapes differ.
    """
    import numpy as np

    if actual.shape != expected.shape:
        raise ValueError(f"shape {actual.shape} instead of {expected.shape}")
    worst = 0.0
    flat_actual, flat_expected = actual.reshape(-1), expected.reshape(-1)
    step = 1 << 20
    for start in range(0, flat_expected.size, step):
        want = flat_expected[start : start + step].astype(np.float64)
        difference = np.abs(flat_actual[start : start + step].astype(np.float64) - want)
        scale = np.maximum(np.abs(want), floor)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(difference == 0, 0.0, difference / scale)
        here = float(ratio.max(initial=0.0))
        if here != here:
            return here
        worst = max(worst, here)
    return worst


def relative_l2_error(actual: Array, expected: Array) -> float:
    """Relative L2 distance ||actual - expected||2 / ||expected||2, accumulated in float64.

    NaN anywhere gives NaN, which no tolerance accepts.

    Raises:
        ValueError: the shapes differ.
    """
    import numpy as np

    if actual.shape != expected.shape:
        raise ValueError(f"shape {actual.shape} instead of {expected.shape}")
    error = norm = 0.0
    flat_actual, flat_expected = actual.reshape(-1), expected.reshape(-1)
    # In chunks, so that a large output needs no float64 copy of itself.
    step = 1 << 20
    for start in range(0, flat_expected.size, step):
        want = flat_expected[start : start + step].astype(np.float64)
        difference = flat_actual[start : start + step].astype(np.float64)
        difference -= want
        error += float(np.dot(difference, difference))
        norm += float(np.dot(want, want))
    if norm == 0.0:
        return 0.0 if error == 0.0 else float("inf") if error == error else float("nan")
    return float(np.sqrt(error) / np.sqrt(norm))
