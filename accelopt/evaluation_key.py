"""The content keys of evaluations: hashes of everything an evaluation depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from accelopt.backend import Backend
from accelopt.evaluation import ALL_STAGES, Stage
from accelopt.kernel import KernelSource, KernelTask
from accelopt.normalize import normalized_hash


def evaluation_key(
    task: KernelTask,
    source: KernelSource,
    backend: Backend,
    *,
    stages: frozenset[Stage] = ALL_STAGES,
    seeds: Sequence[int] | None = None,
) -> str:
    """Key (hex) of an evaluation of a source.

    The source counts in its normalized form: a comment more does not make it another program.
    """
    program = (
        normalized_hash(source.text),
        source.dialect.value,
        source.entry,
        ",".join(map(str, source.grid)),
    )
    return _hash("source", *program, *_circumstances(task, backend, stages, seeds))


def trace_key(task: KernelTask, trace_hash: str, backend: Backend) -> str:
    """Key (hex) of a full evaluation of a trace: two sources may give one trace."""
    return _hash("trace", trace_hash, *_circumstances(task, backend, ALL_STAGES, None))


def _circumstances(
    task: KernelTask,
    backend: Backend,
    stages: frozenset[Stage],
    seeds: Sequence[int] | None,
) -> tuple[str, ...]:
    used = task.seeds if seeds is None else tuple(seeds)
    return (
        task.fingerprint,
        backend.name,
        backend.version,
        ",".join(sorted(stage.value for stage in stages)),
        ",".join(str(seed) for seed in used),
    )


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
