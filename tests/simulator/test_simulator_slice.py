"""Only what a kernel needs of its file is screened and executed."""

from __future__ import annotations

import ast

from accelopt_simulator.frontend.run import TraceRequest, trace_kernel
from accelopt_simulator.process.screening import screen_source
from accelopt_simulator.source_slice import slice_module

FILE = '''"""A published kernel with its harness."""
from __future__ import annotations
import argparse
import os
import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

WIDTH = 64
UNUSED = os.environ

def half(n):
    return n // 2

def parse_args():
    return argparse.ArgumentParser().parse_args()

@nki.jit
def kernel(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out[:, 0:half(WIDTH)], nl.load(x[:, 0:half(WIDTH)]))
    nl.store(out[:, half(WIDTH):WIDTH], nl.load(x[:, half(WIDTH):WIDTH]))
    return out

if __name__ == "__main__":
    parse_args()
    os.remove("everything")
'''


def names(text, entry):
    tree = slice_module(ast.parse(text), entry)
    return [ast.unparse(statement).splitlines()[0] for statement in tree.body]


def test_the_harness_is_left_out():
    kept = names(FILE, "kernel")
    assert "def half(n):" in kept
    assert "WIDTH = 64" in kept
    assert not any("os" in line.split() or "argparse" in line for line in kept)
    assert screen_source(FILE, "kernel") == []
    result = trace_kernel(
        TraceRequest(text=FILE, entry="kernel", arguments=(((128, 64), "float32"),))
    )
    assert result.status == "ok", result.diagnostics


def test_what_the_kernel_reaches_is_still_screened():
    text = FILE.replace("return n // 2", "return n // 2 + len(UNUSED) * 0")
    findings = screen_source(text, "kernel")
    assert [finding.line for finding in findings] == [4]


def test_a_rebinding_of_a_needed_name_is_kept():
    text = FILE + "\nhalf = lambda n: 0\n"
    assert "half = lambda n: 0" in names(text, "kernel")


def test_a_change_to_a_needed_object_is_kept():
    text = FILE.replace("WIDTH = 64", "WIDTH = 64\nnl.store = print")
    assert "nl.store = print" in names(text, "kernel")


def test_line_numbers_stay_those_of_the_file():
    tree = slice_module(ast.parse(FILE), "kernel")
    kernel = next(s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == "kernel")
    assert FILE.splitlines()[kernel.lineno - 1].startswith("def kernel")


def test_without_such_a_name_everything_is_kept():
    assert len(names(FILE, "nothing")) == len(ast.parse(FILE).body)
