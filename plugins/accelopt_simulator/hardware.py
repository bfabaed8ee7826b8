"""Device specifications and engine constants, each with its source.

Sources: [doc] AWS Neuron documentation; [meas] derived from published AccelOpt counters (the
figures of `trainium-performance-model`); [nkibench] the constants NKIBench's roofline uses; [own]
our derivation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from accelopt.trainium import TRN1 as TRN1
from accelopt.trainium import TRN2 as TRN2

PSUM_BANKS = 8
"""[doc]"""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Constants of the latency model. Times in nanoseconds, clocks in GHz.

    The fields named in `latency.parameters.FITTED` come from a calibration; the others are
    documented or read off published counters.

    Attributes:
        version: what the figures are to be called; says when they are not calibrated.
        pe_ghz: effective tensor-engine rate [meas trn1 2.37-2.45; documented 2.8 is not reached].
        act_ghz, dve_ghz, pool_ghz: scalar, vector, gpsimd clocks [doc].
        fp32_passes: column-cycles per column of an fp32 matmul [doc, meas].
        broadcast_passes: of a partition broadcast by a ones matmul [meas: one pass, two cycles].
        min_cycles: least initiation interval of vector and scalar instructions [doc: about 64].
        act_overhead_ns: per scalar instruction [meas 41-65; 43 from the attention kernels].
        dve_overhead_ns: per vector instruction, beside its cycles [fitted; meas: 93-103 more active
            time than cycles on silu, rope and gqa_full, next to nothing between independent ones].
        dve_tail_ns: how much longer than its cycles an isolated vector instruction shows as active
            [meas 93-103 from silu, rope and gqa_full busy times].
        dve_fast_modes: whether 16-bit operands run at two or four elements per cycle [doc: v3].
        pool_start_cycles: start-up of a gpsimd instruction [doc: about 150].
        reciprocal_factor: vector cycles per element of fp32 reciprocal [meas about 2; doc says 8].
        dma_engines: DMA engines of a core [doc].
        dma_row_ns: per contiguous row, per engine [meas 30-35].
        dma_engine_bytes_per_ns: per engine [meas 18.8 on trn1; from a screenshot 24.5 on trn2].
        dma_latency_ns: from the last byte to the first consumer [img about 2 us].
        pe_latency_ns: matmul result latency seen by dependents [prior; img: an event of 188 ns for
            128 columns].
        result_latency_ns: the same for vector and scalar instructions [prior; img: 189 ns from
            start to start in a chain of one-element activations].
        semaphore_ns: hop between engines [prior 30-60].
        trigger_ns: a store's trigger on the gpsimd queue [meas 60].
        buffer_copies: physical copies the compiler gives a tile that an affine loop makes afresh
            [doc: double buffering].
        ring_bytes: small tiles get more copies, up to this many bytes per copy [prior: the 4 KiB of
            a DMA packet].
        keep_bytes: per partition, what the allocator keeps in SBUF [meas about 150 KiB, from spill
            bytes].
        window: computing instructions that may run ahead of the oldest unfinished one [fitted].
        dma_window: the same for transfers [prior].
        removes_repeats: 1 when the compiler drops repeated loads and computations (`neuronxcc`
            does; the compiler of the `nki` dialect performs few transformations [doc]).
        exchanges_loops: 1 when the compiler turns loops round to move repeated work out of them
            [meas: bmm].
        sinks_loads: 1 when loads that are too large to be kept run again in each iteration [meas:
            matmul].
        places_in_psum: 1 when small results of the scalar engine may go to PSUM [meas: adamw].
        port_exclusion: 1 when the vector and scalar engines take turns at PSUM, and the vector and
            gpsimd engines at SBUF [doc: generation 2; lifted in generation 3].
        sequential_barrier: 1 when the loads of a sequential loop's next iteration start after the
            computing of this one, 0 when they overlap [fitted switch; seen in rope].
        overhead_us: fixed overhead of a profiled run [meas about 95].
        log_error: standard deviation of the natural logarithm of measured over predicted.
        peak_flops_bandwidth_ratio: profiler's balance point.
        hfu_peak_flops_per_s: what the profiler divides by for utilisation.
    """

    version: str
    pe_ghz: float
    act_ghz: float
    dve_ghz: float
    pool_ghz: float
    fp32_passes: int = 4
    broadcast_passes: int = 2
    min_cycles: int = 64
    act_overhead_ns: float = 43.0
    dve_overhead_ns: float = 5.0
    dve_tail_ns: float = 95.0
    dve_fast_modes: bool = False
    pool_start_cycles: int = 150
    reciprocal_factor: int = 2
    dma_engines: int = 16
    dma_row_ns: float
    dma_engine_bytes_per_ns: float
    dma_latency_ns: float
    pe_latency_ns: float = 200.0
    result_latency_ns: float = 160.0
    semaphore_ns: float = 30.0
    trigger_ns: float = 60.0
    buffer_copies: int = 2
    ring_bytes: int = 4096
    keep_bytes: float = 156 * 1024
    window: int = 20
    dma_window: int = 160
    removes_repeats: int = 1
    exchanges_loops: int = 1
    sinks_loads: int = 1
    places_in_psum: int = 1
    port_exclusion: int = 1
    sequential_barrier: int = 1
    overhead_us: float = 95.0
    log_error: float = 0.3
    peak_flops_bandwidth_ratio: float
    hfu_peak_flops_per_s: float


TRN1_TIMING = Timing(
    version="trn1-uncalibrated-2",
    pe_ghz=2.45,
    act_ghz=1.4,
    dve_ghz=1.12,
    pool_ghz=1.4,
    dma_row_ns=30.0,
    dma_engine_bytes_per_ns=18.8,
    dma_latency_ns=2000.0,
    peak_flops_bandwidth_ratio=223.781463973542,
    hfu_peak_flops_per_s=91.7504e12,
)
"""Priors; `latency.calibration.timing_for` gives what was fitted to measurements."""

TRN2_TIMING = Timing(
    version="trn2-uncalibrated-2",
    pe_ghz=2.38,
    act_ghz=1.2,
    dve_ghz=0.96,
    pool_ghz=1.2,
    act_overhead_ns=50.0,
    dve_fast_modes=True,
    port_exclusion=0,
    dma_row_ns=20.0,
    dma_engine_bytes_per_ns=24.5,
    dma_latency_ns=1600.0,
    keep_bytes=178 * 1024,
    overhead_us=22.0,
    peak_flops_bandwidth_ratio=217.0,
    hfu_peak_flops_per_s=78.6432e12,
)


def without_middle_end(timing: Timing) -> Timing:
    """Constants for a compiler that performs few transformations, like that of the `nki` dialect.

    It drops no repeated work, and its loops are unrolled, so their iterations overlap [doc].
    """
    return replace(timing, removes_repeats=0, sequential_barrier=0)


DEVICES = {"trn1": TRN1, "trn2": TRN2}
PRIORS = {"trn1": TRN1_TIMING, "trn2": TRN2_TIMING}
