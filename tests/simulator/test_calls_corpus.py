"""Every kernel of the corpus: accepted, correct after its trace was sent, and given a latency."""

from __future__ import annotations

import numpy as np
import pytest
from corpus import KERNELS
from simulator_kernels import traced

from accelopt_simulator.constraints.check import check_constraints
from accelopt_simulator.hardware import TRN1, TRN1_TIMING, TRN2, TRN2_TIMING
from accelopt_simulator.latency.model import estimate_latency
from accelopt_simulator.numerics.execute import Executor
from accelopt_simulator.trace.codec import decode, encode

DEVICES = {"trn1": (TRN1, TRN1_TIMING), "trn2": (TRN2, TRN2_TIMING)}


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_a_kernel_of_the_corpus_is_accepted_correct_and_timed(case):
    device, timing = DEVICES[case.device]
    arguments = case.inputs()
    trace = decode(encode(traced(case.text, *arguments)))
    assert check_constraints(trace, device, min_float_bits=8) == []
    result = Executor(trace).run(arguments)
    wanted = case.reference(*arguments)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    assert len(result.outputs) == len(wanted)
    for found, expected in zip(result.outputs, wanted, strict=True):
        found, expected = found.astype(np.float64), np.asarray(expected).astype(np.float64)
        np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol)
    assert result.hazards == set()
    assert estimate_latency(trace, device, timing).latency_us > timing.overhead_us


def test_the_corpus_has_at_least_sixty_different_kernels():
    assert len({case.text for case in KERNELS}) == len(KERNELS) >= 60
