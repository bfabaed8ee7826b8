"""Every harmful kernel, unscreened: a result in time, and nothing left behind or found out."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

from harmful_kernels import HARMFUL, HONEST
from surroundings import (
    EXTRA_S,
    SECRET,
    cases,
    marker,
    own_state,
    processes_of,
    request,
    trace,
)

from accelopt_simulator.process.isolation import Level


@cases([harm for harm in HARMFUL if not harm.waits])
def test_a_harmful_kernel_ends_as_a_result_and_leaves_nothing(pool, world, harm):
    check(pool, world, harm)
    assert pool.trace(request(HONEST)).status == "ok"


@cases([harm for harm in HARMFUL if harm.waits])
def test_a_kernel_without_an_end_is_ended_and_leaves_nothing(short_pool, world, harm):
    # How long is the same at every level.
    check(short_pool, world, harm)


def check(pool, world, harm):
    """Run it, and compare everything with how it was before."""
    pool.server.measures()  # started
    server, before, state = pool.server.process_id, processes_of(marker(pool)), own_state()
    assert server in before
    result, seconds = trace(pool, harm.source(**world.names))
    assert result.status in harm.ends, result
    assert result.diagnostics
    assert seconds < pool.limits.wall_s + EXTRA_S
    assert SECRET not in json.dumps(result.diagnostics)
    assert SECRET.encode() not in result.trace_bytes
    assert processes_of(marker(pool)) == before
    assert pool.server.process_id == server
    assert own_state() == state
    world.check_untouched()


def test_candidates_do_not_wait_for_each_other(level, new_pool, world):
    pool = new_pool(level, wall_s=1.0)
    names = ("stops itself", "infinite loop in C code", "fork bomb")
    harms = [h for h in HARMFUL if h.name in names]
    with ThreadPoolExecutor(8) as threads:
        loops = [threads.submit(trace, pool, h.source(**world.names)) for h in harms]
        honest = [threads.submit(trace, pool, HONEST) for _ in range(4)]
        assert all(f.result()[0].status == "ok" for f in honest)
        ended = [f.result()[0].status for f in loops]
    assert sorted(ended) == ["load_error", "load_error", "timeout"]


def test_a_closed_pool_leaves_nothing(new_pool, pool):
    own = new_pool(pool.server.level)
    assert own.trace(request(HONEST)).status == "ok"
    assert processes_of(marker(own))
    own.close()
    assert not processes_of(marker(own))


def test_the_namespaces_are_those_of_the_level(pool):
    found = set(pool.server.measures()["namespaces"])
    if pool.server.level is Level.PROCESS:
        assert not found
    else:
        own = {"ipc", "mnt", "net", "pid", "uts"} | ({"user"} if os.geteuid() else set())
        assert found >= own
