"""`python -m accelopt_simulator.warm_up`: compile the latency model ahead of its first use.

The compiled passes are cached on disk, so this takes some seconds once per installation; without it
the first evaluation takes them.
"""

from __future__ import annotations

import time

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.hardware import DEVICES, PRIORS
from accelopt_simulator.latency.model import estimate_latency

KERNEL = """
import neuronxcc.nki.language as nl

def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in range(2):
        tile = nl.load(x[i])
        nl.store(out[i], value=nl.add(tile, nl.exp(tile)))
    return out
"""


def warm_up() -> float:
    """Run the model once on a small kernel; returns the seconds that it took."""
    started = time.monotonic()
    request = TraceRequest(text=KERNEL, entry="kernel", arguments=(((2, 128, 64), "float32"),))
    trace = trace_kernel(request).trace
    assert trace is not None  # noqa: S101 - the kernel is ours
    estimate_latency(trace, DEVICES["trn1"], PRIORS["trn1"])
    return time.monotonic() - started


if __name__ == "__main__":
    print(f"latency model compiled in {warm_up():.1f} s")
