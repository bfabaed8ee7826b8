"""SPMD grids: program ids, what instances share, and how a person asks for a grid."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from simulator_kernels import rules, run_kernel, traced, whole_kernel

from accelopt import KernelSource, TaskError
from accelopt.kernel import MAX_GRID
from accelopt.plugins import installed
from accelopt.user_task import load_user_task
from accelopt_simulator.frontend.spmd import CoreCount
from accelopt_simulator.requests import request_for
from accelopt_simulator.trace.codec import decode, encode

IDS = """
def kernel(x):
    out = nl.ndarray((4, 2, 32, 8), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.program_id(0), nl.program_id(1)
    assert nl.program_ndim() == 2 and nl.num_programs() == 8
    assert (nl.num_programs(0), nl.num_programs([0, 1])) == (4, 8)
    tile = nl.load(x[2 * a + b])
    if a > 1:
        tile[...] = nl.add(tile, 1.0)
    nl.store(out[a, b], tile)
    return out
"""


def test_every_instance_has_its_ids(arrays):
    x = arrays(8, 32, 8)
    wanted = x.reshape(4, 2, 32, 8).copy()
    wanted[2:] += 1
    np.testing.assert_array_equal(run_kernel(IDS, x, grid=(4, 2)), wanted)


@pytest.mark.parametrize("grid", [(2,), (2, 3, 4), (1, 1)])
def test_grids_of_any_rank(arrays, grid):
    x = arrays(32, 8)
    ids = [f"nl.program_id({axis})" for axis in range(len(grid))]
    text = f"""
    def kernel(x):
        out = nl.ndarray(({", ".join(map(str, grid))}, 32, 8), nl.float32, buffer=nl.shared_hbm)
        nl.store(out[{", ".join(ids)}], nl.multiply(nl.load(x), 2.0))
        return out
    """
    wanted = np.broadcast_to(2 * x, (*grid, 32, 8))
    np.testing.assert_array_equal(run_kernel(text, x, grid=grid), wanted)


def test_a_kernel_with_loops_of_its_own_in_a_grid(arrays):
    x = arrays(4, 32, 64)
    text = """
    def kernel(x):
        out = nl.ndarray((4, 32, 8), dtype=nl.float32, buffer=nl.shared_hbm)
        k = nl.program_id(0)
        total = nl.zeros((32, 8), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.sequential_range(8):
            total += nl.load(x[k, :, nl.ds(8 * i, 8)])
        nl.store(out[k], total)
        return out
    """
    wanted = x.reshape(4, 32, 8, 8).sum(axis=2)
    np.testing.assert_allclose(run_kernel(text, x, grid=(4,)), wanted, rtol=1e-5, atol=1e-5)


def test_program_ids_need_a_grid_with_that_axis(arrays):
    x = arrays(8, 32, 8)
    assert rules(IDS, x) == ["no_spmd_grid"]
    assert rules(IDS, x, grid=(4,)) == ["bad_program_axis"]
    assert rules(IDS.replace("program_id(1)", "program_id(-1)"), x, grid=(4, 2)) == [
        "bad_program_axis"
    ]


def test_a_grid_is_part_of_the_trace(arrays):
    x = arrays(8, 32, 8)
    found = traced(IDS, x, grid=(4, 2))
    assert found.num_loops == 2
    assert encode(decode(encode(found))) == encode(found)
    larger = IDS.replace("assert", "nl.num_programs() or")
    assert rules(larger, x, grid=(4, 2)) == []
    assert set(rules(larger, x, grid=(5, 2))) == {"err_tensor_access_out_of_bound"}


def test_the_documented_assignment_of_instances_to_cores():
    """Spec section 8: `[nl.nc(2) * 2, 2]` against `[2 * nl.nc(2), 2]`."""
    blocked, interleaved = CoreCount(2) * 2, 2 * CoreCount(2)
    assert int(blocked) == int(interleaved) == 4
    assert [k for k in range(4) if blocked.core_of(k) == 0] == [0, 1]
    assert [k for k in range(4) if interleaved.core_of(k) == 0] == [0, 2]


# -- for people ------------------------------------------------------------------------------------

KERNEL = """
@nki.jit
def double(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    k = nl.program_id(0)
    rows = x.shape[0] // nl.num_programs(0)
    nl.store(out[nl.ds(rows * k, rows)], nl.multiply(nl.load(x[nl.ds(rows * k, rows)]), 2.0))
    return out
"""
REFERENCE = """
import numpy as np

def get_inputs(seed):
    return [np.random.default_rng(seed).standard_normal((256, 64)).astype(np.float32)]

def forward(x):
    return 2 * x
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "double.py").write_text(whole_kernel(KERNEL))
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path / "double.py", tmp_path / "reference.py"


def test_the_grid_is_part_of_a_sources_hash_only_when_there_is_one():
    plain = KernelSource(text="text", entry="kernel")
    assert plain.grid == ()
    # As in runs that were recorded before there were grids.
    old = "neuronxcc.nki\0kernel\0text"
    assert plain.sha256 == hashlib.sha256(old.encode()).hexdigest()
    hashes = {KernelSource(text="text", entry="kernel", grid=g).sha256 for g in ((), (2,), (2, 2))}
    assert len(hashes) == 3
    assert plain.sha256 in hashes


@pytest.mark.parametrize("grid", [(0,), (-1, 2), (MAX_GRID + 1,), (2048, 2048)])
def test_impossible_grids_are_refused(grid):
    with pytest.raises(ValueError, match="grid"):
        KernelSource(text="", grid=grid)


def test_the_reference_file_may_name_the_grid(files):
    kernel, reference = files
    assert load_user_task(kernel, reference).baseline.grid == ()
    reference.write_text(REFERENCE + "GRID = (4,)\n")
    task = load_user_task(kernel, reference)
    assert task.baseline.grid == (4,)
    assert request_for(task, task.baseline).grid == (4,)
    backend = installed().backend("sim-trn1")
    try:
        found = backend.evaluate(task, task.baseline)
        without = backend.evaluate(task, task.baseline.model_copy(update={"grid": ()}))
    finally:
        backend.close()
    assert found.correct, found.diagnostics
    assert [d.rule for d in without.diagnostics] == ["no_spmd_grid"]


@pytest.mark.parametrize("grid", ["0", "(2, 'a')", "(2.0,)", "None", "(4096, 4096)", "True"])
def test_a_bad_grid_in_the_reference_file_is_one_message(files, grid):
    kernel, reference = files
    reference.write_text(REFERENCE + f"GRID = {grid}\n")
    with pytest.raises(TaskError, match="GRID"):
        load_user_task(kernel, reference)
