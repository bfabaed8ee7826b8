"""`accelopt trace`, and the launch grid that `evaluate` and `trace` take."""

from __future__ import annotations

import json

import pytest

from accelopt_simulator.trace.codec import from_json, to_json, trace_hash

GRID_KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


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
def gridded(tmp_path):
    (tmp_path / "double.py").write_text(GRID_KERNEL)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path / "double.py", "--reference", tmp_path / "reference.py"


def test_the_loop_tree_names_engines_shapes_and_lines(accelopt, baseline):
    result = accelopt("trace", baseline, "--task", "silu@small")
    assert result.code == 0
    source = baseline.read_text().splitlines()
    lines = result.out.splitlines()
    assert lines[0].startswith("kernel ")
    loop = next(n for n, line in enumerate(source, 1) if "nl.affine_range(" in line)
    assert any(f"(affine, line {loop})" in line for line in lines)
    load = next(n for n, line in enumerate(source, 1) if "nl.load(" in line)
    at_load = [line for line in lines if line.endswith(f"line {load}") or f"line {load} " in line]
    assert any("dma_copy" in line and "dma" in line for line in at_load), result.out
    assert any("activation" in line and "scalar" in line for line in lines)
    assert any("sbuf" in line and "float32" in line and "128x" in line for line in lines)
    # What is inside of a loop is indented below it.
    first = next(n for n, line in enumerate(lines) if "(affine, line" in line)
    depth = len(lines[first]) - len(lines[first].lstrip())
    assert lines[first + 1].startswith(" " * (depth + 2))
    assert lines[-1].startswith("trace hash ")


def test_json_is_the_trace(accelopt, baseline):
    result = accelopt("trace", baseline, "--task", "silu@small", "--json")
    assert result.code == 0
    data = result.data
    digest = data.pop("trace_hash")
    found = from_json(json.dumps(data))
    assert json.loads(to_json(found)) == data
    assert trace_hash(found) == digest
    evaluated = accelopt("evaluate", baseline, "--task", "silu@small", "--json")
    assert evaluated.data["trace_hash"] == digest


def test_a_bad_kernel_shows_its_diagnostic(accelopt, baseline):
    text = baseline.read_text()
    baseline.write_text(text.replace("nl.load(", "nl.lode(", 1))
    lines = baseline.read_text().splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "nl.lode(" in line)
    result = accelopt("trace", baseline, "--task", "silu@small")
    assert result.code == 0
    assert result.out.splitlines()[0] == "status load_error"
    assert f"silu.py:{number}: error: AttributeError: " in result.out
    assert f"> {number:>4} | {lines[number - 1]}" in result.out
    baseline.write_text(text.replace("nl.shared_hbm", "nl.sbuf"))
    data = accelopt("trace", baseline, "--task", "silu@small", "--json").data
    assert data["status"] == "constraint_violation"
    assert data["diagnostics"][0]["rule"].startswith("err_")


@pytest.mark.parametrize(
    "arguments", [(), ("--task", "nothing"), ("--task", "silu@small", "--grid", "2,x")]
)
def test_bad_input_is_exit_code_2(accelopt, baseline, arguments):
    result = accelopt("trace", baseline, *arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err


@pytest.mark.slow
def test_a_grid_of_the_launch(accelopt, gridded, tmp_path):
    result = accelopt("evaluate", *gridded, "--grid", "4", "--json")
    assert result.code == 0
    assert result.data["status"] == "ok", result.data
    assert accelopt("evaluate", *gridded, "--json").data["diagnostics"][0]["rule"] == "no_spmd_grid"
    shown = accelopt("trace", *gridded, "--grid", "4").out
    assert "for i0 in 0..3" in shown
    # The reference file's grid, and an option that overrules it.
    (tmp_path / "reference.py").write_text(REFERENCE + "GRID = (2,)\n")
    assert accelopt("evaluate", *gridded, "--json").data["status"] == "ok"
    assert "for i0 in 0..7" in accelopt("trace", *gridded, "--grid", "8").out


@pytest.mark.parametrize("grid", ["0", "-1", "2,,2", "a", "2.5", "4096,4096", "²"])
def test_a_grid_is_positive_integers(accelopt, gridded, grid):
    result = accelopt("evaluate", *gridded, f"--grid={grid}")
    assert result.code == 2
    assert "--grid" in result.err
