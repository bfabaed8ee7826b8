"""What a backend says about a kernel."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel, ConfigDict


class EvaluationStatus(StrEnum):
    """Outcome of an evaluation. Everything except `OK` is the kernel's fault."""

    OK = "ok"
    LOAD_ERROR = "load_error"
    """The file does not parse, has no kernel, or failed while being traced."""
    UNSUPPORTED_OP = "unsupported_op"
    """It uses an instruction the backend has no rule for."""
    CONSTRAINT_VIOLATION = "constraint_violation"
    """The real compiler would reject it."""
    INCORRECT = "incorrect"
    """It computes something else."""
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    """An anti-cheating rule fired."""


_NOT_COMPILED = frozenset(
    {
        EvaluationStatus.LOAD_ERROR,
        EvaluationStatus.UNSUPPORTED_OP,
        EvaluationStatus.CONSTRAINT_VIOLATION,
        EvaluationStatus.REJECTED,
    }
)


class Stage(StrEnum):
    """Steps of an evaluation, of rising cost."""

    LOAD = "load"
    CONSTRAINTS = "constraints"
    LATENCY = "latency"
    CORRECTNESS = "correctness"
    """The published gate: the task's input seeds."""
    ROBUSTNESS = "robustness"
    """Fresh and stress inputs, for a kernel that passed the published gate."""


SCREEN_STAGES = frozenset({Stage.LOAD, Stage.CONSTRAINTS})
ESTIMATE_STAGES = SCREEN_STAGES | {Stage.LATENCY}
ALL_STAGES = ESTIMATE_STAGES | {Stage.CORRECTNESS, Stage.ROBUSTNESS}


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Diagnostic(_Frozen):
    """One finding about a kernel, for the fixer prompt and for people.

    Attributes:
        rule: rule id; the NKI error name where one exists.
        message: what is wrong.
        line: 1-based line in the kernel file; None if unknown.
        column: 1-based column; None if unknown.
        required: the value that the kernel asked for, if the rule is a limit.
        limit: the value that is allowed.
        hint: what to do about it.
        severity: `error` rejects the kernel, `warning` and `note` do not.
    """

    rule: str
    message: str
    line: int | None = None
    column: int | None = None
    required: str | None = None
    limit: str | None = None
    hint: str = ""
    severity: str = "error"


class SeedResult(_Frozen):
    """Comparison with the reference for one input seed.

    Attributes:
        seed: the seed.
        error: relative L2 error; None when there is none to state (NaN or inf, or the run failed).
        tolerance: the limit the error must stay below.
        ok: whether it did.
        message: why there is no error, if so.
    """

    seed: int
    error: float | None
    tolerance: float
    ok: bool
    message: str = ""


class InputCheck(_Frozen):
    """Comparison with the reference on inputs beyond the published seeds.

    Attributes:
        name: `fresh` (nominal inputs with awkward ones mixed in), or `stress:<case>` of the task.
        seed: what the inputs were drawn from; derived from this installation's key.
        metric: `relative_l2`, or `elementwise`: the largest |kernel - reference| / |reference|.
        error: by that metric; None when there is none to state.
        tolerance: the limit the error must stay below.
        ok: whether it did.
        reference: precision of the reference, `float64` or `float32`.
        ingredients: what was mixed into nominal inputs.
        message: why there is no error, if so.
    """

    name: str
    seed: int
    metric: str
    error: float | None
    tolerance: float
    ok: bool
    reference: str
    ingredients: tuple[str, ...] = ()
    message: str = ""


class Profile(_Frozen):
    """Profiler counters under the profiler's own names; None = not reported.

    Units: bytes, FLOPs, fractions of time for `*_percent` (0 to 1, as the profiler prints them).
    `other` holds whatever else the profiler of a real device prints.
    """

    latency_us: float
    hbm_read_bytes: float | None = None
    hbm_write_bytes: float | None = None
    psum_read_bytes: float | None = None
    psum_write_bytes: float | None = None
    sbuf_read_bytes: float | None = None
    sbuf_write_bytes: float | None = None
    spill_reload_bytes: float | None = None
    spill_save_bytes: float | None = None
    hardware_flops: float | None = None
    transpose_flops: float | None = None
    peak_flops_bandwidth_ratio: float | None = None
    mm_arithmetic_intensity: float | None = None
    hfu_estimated_percent: float | None = None
    scalar_engine_active_time_percent: float | None = None
    vector_engine_active_time_percent: float | None = None
    gpsimd_engine_active_time_percent: float | None = None
    tensor_engine_active_time_percent: float | None = None
    dma_active_time_percent: float | None = None
    other: dict[str, float] = {}


class Evaluation(_Frozen):
    """What a backend found out about one kernel.

    Attributes:
        status: the outcome.
        task: name of the task.
        backend: name of the backend.
        source_sha256: content hash of the kernel source.
        trace_hash: content hash of the trace; empty when there is none.
        latency_us: device time in microseconds, fixed overhead included; None when not measured.
        latency_low_us, latency_high_us: interval that a predicted latency comes with; None when it
            was measured, or has none.
        profile: counters; None when not measured.
        bound: what bounds the latency (`dma`, `tensor`, `vector`, `scalar`, `gpsimd`, `latency`).
        seeds: one entry per input seed that was tried; the first failing one is the last.
        untried_seeds: seeds that were left out, since nothing depended on them; a kernel with any
            has not been found correct.
        checks: comparisons on fresh and stress inputs; the first failing one is the last.
        untried_checks: whether these were left out for the same reason.
        diagnostics: findings, errors first.
        features: named numbers that describe the kernel (for the embedder).
        line_facts: short facts by source line (for prompts).
        explanation: where the time goes, as short text (for prompts).
        calibration: version of the cost model, for example `uncalibrated-1`.
        notes: what a reader must know about the figures.
        elapsed_s: wall time of the evaluation in seconds.
    """

    status: EvaluationStatus
    task: str
    backend: str
    source_sha256: str
    trace_hash: str = ""
    latency_us: float | None = None
    latency_low_us: float | None = None
    latency_high_us: float | None = None
    profile: Profile | None = None
    bound: str = ""
    seeds: tuple[SeedResult, ...] = ()
    untried_seeds: tuple[int, ...] = ()
    checks: tuple[InputCheck, ...] = ()
    untried_checks: bool = False
    diagnostics: tuple[Diagnostic, ...] = ()
    features: dict[str, float] = {}
    line_facts: dict[int, str] = {}
    explanation: str = ""
    calibration: str = ""
    notes: tuple[str, ...] = ()
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every stage that was asked for passed."""
        return self.status is EvaluationStatus.OK

    @property
    def compiled(self) -> bool:
        """Upstream's first boolean: the kernel was accepted."""
        return self.status not in _NOT_COMPILED

    @property
    def runnable(self) -> bool:
        """Upstream's second boolean: it also ran to its end."""
        return self.status in (EvaluationStatus.OK, EvaluationStatus.INCORRECT)

    @property
    def correct(self) -> bool:
        """Upstream's third boolean: it also gave the right answer, on every input."""
        return self.right_so_far and not self.untried_seeds and not self.untried_checks

    @property
    def published_gate(self) -> bool | None:
        """What the published rule alone says: every seed within tolerance. None: not tried."""
        if not self.seeds or (self.untried_seeds and all(seed.ok for seed in self.seeds)):
            return None
        return all(seed.ok for seed in self.seeds)

    @property
    def right_so_far(self) -> bool:
        """Whether it gave the right answer on every seed that was tried, at least one."""
        right = all(seed.ok for seed in self.seeds) and all(check.ok for check in self.checks)
        return self.ok and bool(self.seeds) and right
