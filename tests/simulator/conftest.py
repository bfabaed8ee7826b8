"""Fixtures of the simulator's tests; the helpers are in `simulator_kernels`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest


@dataclass
class Arrays:
    """Random arrays, the same in every run."""

    generator: np.random.Generator

    def __call__(self, *shape, dtype=np.float32):
        return self.generator.standard_normal(shape).astype(dtype)


@pytest.fixture
def arrays() -> Arrays:
    """A maker of random arrays."""
    return Arrays(np.random.default_rng(7))
