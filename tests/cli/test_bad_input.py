"""Bad input gets one clear line on standard error and exit code 2; nothing is left behind."""

from __future__ import annotations

import pytest

KERNEL = """
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""

REFERENCE = """
import numpy as np

def get_inputs(seed):
    return [np.random.default_rng(seed).standard_normal((128, 64)).astype(np.float32)]

def forward(x):
    return x
"""


def check(result, *words):
    assert result.code == 2
    assert result.err.startswith("accelopt: error: ")
    assert result.err.count("\n") == 1, result.err
    assert "Traceback" not in result.err
    for word in words:
        assert word in result.err, result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["optimize", "slu"], ["unknown task 'slu'", "nkibench/silu"]),
        (["optimize"], ["no task given", "accelopt tasks"]),
        (["optimize", "silu", "--backend", "sim-tm1"], ["unknown backend", "sim-trn1"]),
        (["optimize", "silu", "--model", "rewrit"], ["unknown model", "rewriter"]),
        (["optimize", "silu", "--graph", "optimise"], ["unknown graph", "optimize"]),
        (["optimize", "silu", "--model", "openai:gpt"], ["OPENAI_API_KEY"]),
        (["optimize", "silu", "--beam-width", "0"], ["beam_width"]),
        (["optimize", "silu", "--beam-width", "x"], ["beam-width"]),
        (["optimize", "silu", "--no-such-flag"], ["--no-such-flag"]),
        (["optimize", "--resume", "nothing"], ["nothing", "runs list"]),
        (["optimize", "mine.py"], ["--reference"]),
        (["evaluate", "gone.py", "--task", "silu"], ["gone.py"]),
        (["evaluate", "gone.py"], ["--task"]),
        (["runs", "show", "nothing"], ["nothing"]),
        (["graph", "show", "nothing"], ["unknown graph 'nothing'"]),
        (["conformance", "nothing"], ["unknown backend"]),
        (["frobnicate"], ["frobnicate"]),
    ],
)
def test_one_line_and_exit_code_2(accelopt, tmp_path, arguments, words):
    check(accelopt(*arguments), *words)
    assert not (tmp_path / "runs").exists()


def test_an_unknown_key_in_the_toml_is_named(accelopt, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text('task = "silu"\nbeam_wdith = 3\n')
    check(accelopt("optimize", "--config", path), "beam_wdith", "run.toml")


def test_toml_that_does_not_parse(accelopt, tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("task = \n")
    check(accelopt("optimize", "--config", path), "run.toml")


def test_a_missing_toml_file(accelopt):
    check(accelopt("optimize", "--config", "gone.toml"), "gone.toml")


@pytest.mark.parametrize(
    ("kernel", "reference", "words"),
    [
        ("def kernel(x:\n", REFERENCE, ["mine.py", "parse"]),
        ("x = 1\n", REFERENCE, ["mine.py", "no kernel"]),
        (KERNEL, "def get_inputs(seed):\n    return []\n", ["ref.py", "forward"]),
        (KERNEL, "def forward(x:\n", ["ref.py"]),
        (KERNEL, REFERENCE.replace("return x\n", "return [1, 'a']\n"), ["ref.py"]),
        (KERNEL, "import no_such_module\n" + REFERENCE, ["ref.py", "no_such_module"]),
    ],
)
def test_a_persons_own_files(accelopt, tmp_path, kernel, reference, words):
    (tmp_path / "mine.py").write_text(kernel)
    (tmp_path / "ref.py").write_text(reference)
    check(accelopt("optimize", "mine.py", "--reference", "ref.py"), *words)


def test_a_reference_whose_output_shape_does_not_fit(accelopt, tmp_path):
    (tmp_path / "mine.py").write_text(KERNEL)
    (tmp_path / "ref.py").write_text(REFERENCE.replace("return x\n", "return x[:, :32]\n"))
    result = accelopt("optimize", "mine.py", "--reference", "ref.py", "--memory", "none")
    assert result.code == 2
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("accelopt: error: ")
    assert "shape" in last
    assert "Traceback" not in result.err
