"""The physics gate: a latency that no hardware can reach is a bug or a trick, never a result.

A kernel can't take less time than its compulsory bytes need at the peak of the memory, or its
useful matmul work at the peak of the matrix unit, and it can't move fewer bytes than the task must
move (row 23 of the known reward hacks; rows 17 and 22). The roofline's vector count is no floor:
it counts unfused work, and a good kernel fuses.
"""

from __future__ import annotations

from accelopt.device import DeviceSpec
from accelopt.evaluation import Diagnostic, Evaluation
from accelopt.kernel import KernelTask

HALF_PRECISION_SPEEDUP = 4.0
"""How much faster than float32 the matrix unit multiplies 16-bit floats (NKI documentation: a
float32 matmul takes four passes)."""


def floor_us(task: KernelTask, device: DeviceSpec) -> tuple[float, str]:
    """Least latency in microseconds, and what sets it.

    With a work count made of the arguments' sizes alone, nothing says that every input must be
    read: then only the output counts.
    """
    matmul_peak = device.fp32_matmul_flops_per_s
    if task.min_float_bits < 32:
        matmul_peak *= HALF_PRECISION_SPEEDUP
    memory = 1e6 * compulsory_bytes(task) / device.hbm_bandwidth_bytes_per_s
    matmul = 1e6 * task.work.matmul_flops / matmul_peak
    if memory >= matmul:
        return memory, f"{compulsory_bytes(task)} bytes at the memory's peak"
    return matmul, f"{task.work.matmul_flops} matmul FLOPs at the matrix unit's peak"


def compulsory_bytes(task: KernelTask) -> int:
    """HBM bytes that any correct kernel moves."""
    if not task.work.from_bytes_alone:
        return task.work.hbm_bytes
    size = task.min_float_bits // 8
    for extent in task.output_shape:
        size *= extent
    return min(size, task.work.hbm_bytes)


def violation(task: KernelTask, device: DeviceSpec, evaluation: Evaluation) -> Diagnostic | None:
    """Why an evaluation can't be true; None when it can.

    Args:
        task: the task, with its compulsory work.
        device: peaks.
        evaluation: with a latency and, if the backend has counters, a profile.
    """
    if evaluation.latency_us is None:
        return None
    least_us, why = floor_us(task, device)
    if not evaluation.latency_us >= least_us:  # NaN is no latency either
        return Diagnostic(
            rule="impossible_latency",
            message=f"{evaluation.latency_us:.6g} us is less than the hardware needs: {why} "
            f"take {least_us:.6g} us",
            required=f"{evaluation.latency_us:.6g} us",
            limit=f"{least_us:.6g} us",
            hint="the kernel leaves work out, or the backend mismeasures it",
        )
    profile = evaluation.profile
    if profile is None or profile.hbm_read_bytes is None or profile.hbm_write_bytes is None:
        return None
    moved, must = profile.hbm_read_bytes + profile.hbm_write_bytes, compulsory_bytes(task)
    if not moved >= must:
        return Diagnostic(
            rule="too_few_bytes",
            message=f"the kernel moves {moved:.0f} bytes of HBM, the task takes {must}",
            required=f"{moved:.0f} bytes",
            limit=f"{must} bytes",
            hint="every input must be read and every output written once",
        )
    return None
