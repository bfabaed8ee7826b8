"""The two devices this project is about, for every backend that stands for one of them.

Figures are per physical core; `sources` says where each comes from.
"""

from __future__ import annotations

from accelopt.device import DeviceSpec

TRN1 = DeviceSpec(
    name="trn1",
    title="Trainium 1 (one NeuronCore-v2)",
    hbm_bandwidth_bytes_per_s=410 * 2**30,
    fp32_matmul_flops_per_s=23.75e12,
    vector_flops_per_s=286.72e9,
    sbuf_bytes_per_partition=(192 - 16) * 1024,
    psum_bytes_per_partition=16 * 1024,
    sources={
        "hbm_bandwidth_bytes_per_s": "NKIBench roofline, 410 GiB/s",
        "fp32_matmul_flops_per_s": "NKIBench roofline",
        "vector_flops_per_s": "NKIBench roofline: 2 engines x 128 lanes x 1.12 GHz",
        "sbuf_bytes_per_partition": "Neuron documentation: 192 KiB minus 16 KiB reserved",
        "psum_bytes_per_partition": "Neuron documentation: 8 banks of 2 KiB",
    },
)

TRN2 = DeviceSpec(
    name="trn2",
    title="Trainium 2 (one physical NeuronCore-v3)",
    hbm_bandwidth_bytes_per_s=362.5e9,
    fp32_matmul_flops_per_s=19.66e12,
    vector_flops_per_s=245.76e9,
    sbuf_bytes_per_partition=(224 - 16) * 1024,
    psum_bytes_per_partition=16 * 1024,
    sources={
        "hbm_bandwidth_bytes_per_s": "our derivation: 2.9 TB/s per chip / 8 cores",
        "fp32_matmul_flops_per_s": "our derivation: 128 x 128 x 2 FLOP x 2.4 GHz / 4 passes",
        "vector_flops_per_s": "our derivation: 2 engines x 128 lanes x 0.96 GHz",
        "sbuf_bytes_per_partition": "Neuron documentation: 224 KiB; 16 KiB reserved as on trn1",
        "psum_bytes_per_partition": "Neuron documentation: 8 banks of 2 KiB",
    },
)
