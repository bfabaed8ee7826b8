"""What a device is capable of, and the roofline that percent of peak is measured against."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from accelopt.kernel import Work


class DeviceSpec(BaseModel):
    """Peaks and capacities of one physical core, units in the names.

    Attributes:
        name: short name, for example `trn1`.
        title: name for people.
        hbm_bandwidth_bytes_per_s: peak HBM bandwidth.
        fp32_matmul_flops_per_s: peak of float32 matmul.
        vector_flops_per_s: vector plus scalar engine, one FLOP per lane and cycle.
        sbuf_bytes_per_partition: usable on-chip state buffer per partition.
        psum_bytes_per_partition: accumulation buffer per partition.
        num_partitions: partitions of the on-chip buffers.
        sources: where each figure comes from, by field name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    hbm_bandwidth_bytes_per_s: float
    fp32_matmul_flops_per_s: float
    vector_flops_per_s: float
    sbuf_bytes_per_partition: int
    psum_bytes_per_partition: int
    num_partitions: int = 128
    sources: dict[str, str] = {}


def roofline_latency_us(work: Work, device: DeviceSpec) -> float:
    """Peak latency in microseconds: perfect overlap of memory, matmul and vector work.

    Rule of NKIBench: the largest of vector FLOPs / vector peak, matmul FLOPs / matmul peak and
    bytes / bandwidth.
    """
    return 1e6 * max(
        work.vector_flops / device.vector_flops_per_s,
        work.matmul_flops / device.fp32_matmul_flops_per_s,
        work.hbm_bytes / device.hbm_bandwidth_bytes_per_s,
    )


def roofline_bound(work: Work, device: DeviceSpec) -> str:
    """Which term of the roofline is the largest: `vector`, `matmul` or `memory`."""
    times = {
        "vector": work.vector_flops / device.vector_flops_per_s,
        "matmul": work.matmul_flops / device.fp32_matmul_flops_per_s,
        "memory": work.hbm_bytes / device.hbm_bandwidth_bytes_per_s,
    }
    return max(times, key=lambda term: times[term])


def percent_of_peak(latency_us: float, work: Work, device: DeviceSpec) -> float:
    """Roofline latency / measured latency, in percent.

    It counts unfused vector work, so a kernel that fuses well may exceed 100.
    """
    return 100.0 * roofline_latency_us(work, device) / latency_us
