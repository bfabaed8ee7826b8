from __future__ import annotations

import pytest

from accelopt import Dialect, TaskError
from accelopt.entry_point import detect_dialect, find_entry

BODY = "(x):\n    return x\n"


@pytest.mark.parametrize(
    "decorator",
    [
        "@nki.jit",
        "@nki.jit()",
        '@nki.jit(mode="simulation")',
        "@neuronxcc.nki.jit",
        "@nki.trace",
        "@nki.baremetal",
        "@nki.baremetal(save_neff_name='f.neff')",
        "@nki.benchmark(warmup=1)",
        "@nki.profile(working_directory='/tmp')",
        "@functools.partial(nki.jit, mode='trace')",
    ],
)
def test_a_decorated_function_is_the_kernel_whatever_its_name(decorator):
    source = f"def helper{BODY}\n{decorator}\ndef silu_tile{BODY}"
    assert find_entry(source) == "silu_tile"


def test_a_bare_decorator_counts_only_when_it_comes_from_nki():
    assert find_entry(f"from neuronxcc.nki import jit\n@jit\ndef fast{BODY}") == "fast"
    with pytest.raises(TaskError, match="has no kernel"):
        find_entry(f"from numba import jit\n@jit\ndef fast{BODY}")


def test_a_wrapped_function_is_found_under_its_new_name():
    assert find_entry(f"def slow{BODY}\nfast = nki.jit(slow)\n") == "fast"


@pytest.mark.parametrize(
    ("names", "entry"),
    [
        (["kernel"], "kernel"),
        (["optimized_kernel"], "optimized_kernel"),
        (["optimized_kernel", "kernel"], "kernel"),
        (["helper", "optimized_kernel"], "optimized_kernel"),
    ],
)
def test_without_decorators_the_name_decides(names, entry):
    assert find_entry("\n".join(f"def {name}{BODY}" for name in names)) == entry


def test_a_decorated_function_that_another_one_calls_is_a_helper():
    source = f"@nki.jit\ndef inner{BODY}\n@nki.jit\ndef outer(x):\n    return inner(x)\n"
    assert find_entry(source) == "outer"


def test_two_kernels_are_an_error_that_names_both():
    source = f"@nki.jit\ndef a{BODY}\n@nki.jit\ndef b{BODY}"
    with pytest.raises(TaskError, match="has two kernels: a, b"):
        find_entry(source)


def test_the_conventional_name_decides_between_decorated_functions():
    assert find_entry(f"@nki.jit\ndef a{BODY}\n@nki.jit\ndef kernel{BODY}") == "kernel"


def test_no_kernel_is_an_error_that_names_the_file():
    with pytest.raises(TaskError, match=r"mine\.py has no kernel"):
        find_entry(f"def helper{BODY}", "mine.py")


def test_a_nested_function_is_not_a_kernel():
    with pytest.raises(TaskError, match="has no kernel"):
        find_entry("def make():\n    def kernel(x):\n        return x\n    return 1\n")


def test_a_syntax_error_names_its_line():
    with pytest.raises(TaskError, match=r"mine\.py, line 2"):
        find_entry("x = 1\ndef kernel(:\n", "mine.py")


def test_a_null_byte_is_a_task_error():
    with pytest.raises(TaskError, match=r"mine\.py"):
        find_entry("x = 1\0", "mine.py")


@pytest.mark.parametrize(
    ("imports", "dialect"),
    [
        ("import neuronxcc.nki as nki", Dialect.NEURONXCC_NKI),
        ("from neuronxcc import nki", Dialect.NEURONXCC_NKI),
        ("import nki.language as nl", Dialect.NKI),
        ("from nki.isa import nc_matmul", Dialect.NKI),
        ("import numpy", Dialect.NEURONXCC_NKI),
        ("def kernel(x):\n    import nki", Dialect.NKI),
    ],
)
def test_the_dialect_is_what_the_file_imports(imports, dialect):
    assert detect_dialect(imports) is dialect
