"""One world and one pool per level for all harmful kernels: the next one must still work."""

from __future__ import annotations

import itertools
import os
import sys

import pytest
from surroundings import SHORT_WALL_S, WALL_S, World

from accelopt_simulator.process import bwrap
from accelopt_simulator.process.isolation import Level
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool

_numbers = itertools.count(1)

if sys.platform != "linux":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def world():
    world = World()
    yield world
    world.close()


@pytest.fixture(scope="session")
def new_pool():
    """Makes pools that can be told from those of other test processes by their memory limit."""
    pools = []

    def make(level, *, wall_s=WALL_S, without=()):
        memory = (1 << 30) + (os.getpid() * 1000 + next(_numbers)) * 4
        limits = WorkerLimits(wall_s=wall_s, memory_bytes=memory)
        pool = WorkerPool(limits, level=level, without=without)
        pools.append(pool)
        return pool

    yield make
    for pool in pools:
        pool.close()


@pytest.fixture(
    scope="session", params=[Level.PROCESS, pytest.param(Level.BWRAP, marks=pytest.mark.slow)]
)
def level(request):
    """Each level; one that does not work here is skipped, with the reason."""
    if request.param is Level.BWRAP and bwrap.problem():
        pytest.skip(f"bwrap does not work here: {bwrap.problem()}")
    return request.param


@pytest.fixture(scope="session")
def pool(level, new_pool):
    """A pool of each level."""
    return new_pool(level)


@pytest.fixture(scope="session")
def short_pool(new_pool):
    """A pool whose candidates have little time."""
    return new_pool(Level.PROCESS, wall_s=SHORT_WALL_S)
