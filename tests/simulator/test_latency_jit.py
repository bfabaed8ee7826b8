"""Compiled functions: cached where a folder is writable, compiled anyway where none is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from accelopt_simulator.latency import jit

PROGRAM = """
from accelopt_simulator.latency.jit import compiled

@compiled
def triple(x):
    return 3 * x

print(triple(14))
"""


def run(tmp_path, **environment):
    """Run a file whose folder takes no cache, so that only a cache folder could hold the result."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "program.py").write_text(PROGRAM)
    (folder / "__pycache__").write_text("not a folder")
    paths = [p for p in sys.path if p]
    result = subprocess.run(
        [sys.executable, str(folder / "program.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return result


def test_without_any_folder_a_function_is_compiled_all_the_same(tmp_path):
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    # A home and a cache folder inside a file: neither can be made, not even by root.
    gone = str(nowhere / "x")
    result = run(tmp_path, HOME=gone, XDG_CACHE_HOME=gone)
    assert result.stdout == "42\n", result.stderr
    assert result.returncode == 0
    assert sorted(p.name for p in (tmp_path / "code").iterdir()) == ["__pycache__", "program.py"]


def test_with_a_cache_folder_the_result_is_kept(tmp_path):
    cache = tmp_path / "cache"
    result = run(tmp_path, HOME=str(tmp_path), XDG_CACHE_HOME=str(cache))
    assert result.stdout == "42\n", result.stderr
    assert list(cache.rglob("*.nbi"))


def test_only_the_missing_cache_is_passed_over(monkeypatch):
    calls = []

    def njit(**options):
        calls.append(options)
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: function

    monkeypatch.setattr(jit, "njit", njit)
    assert jit.compiled(len) is len
    assert [bool(options.get("cache")) for options in calls] == [True, False]
    assert all(options["nogil"] for options in calls)

    def broken(**options):
        raise ValueError("something else")

    monkeypatch.setattr(jit, "njit", broken)
    with pytest.raises(ValueError, match="something else"):
        jit.compiled(len)


def test_the_modules_lie_where_their_cache_can():
    assert Path(jit.__file__).parent.name == "latency"
