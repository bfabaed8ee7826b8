"""Screens a kernel's source before it is run: allowed imports, no interpreter internals.

The tracing worker shares a process with the candidate, so a candidate that reaches into the
interpreter could make the front end emit a trace that its source never produces. Such a source is
`rejected`.
"""

from __future__ import annotations

import ast

from accelopt.evaluation import Diagnostic
from accelopt.parsing import parse_python
from accelopt_simulator.source_slice import slice_module

ALLOWED_IMPORTS = frozenset(
    [
        "__future__",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "math",
        "ml_dtypes",
        "neuronxcc",
        "numpy",
        "operator",
        "typing",
    ]
)
FORBIDDEN_NAMES = frozenset(
    [
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "delattr",
        "eval",
        "exec",
        "exit",
        "globals",
        "help",
        "input",
        "locals",
        "memoryview",
        "open",
        "quit",
        "setattr",
        "vars",
    ]
)
ALLOWED_DUNDERS = frozenset({"__name__", "__doc__", "__init__", "__post_init__", "__call__"})
FORBIDDEN_NUMPY = frozenset(
    [
        "ctypeslib",
        "f2py",
        "fromfile",
        "genfromtxt",
        "lib",
        "load",
        "loadtxt",
        "memmap",
        "os",
        "save",
        "savetxt",
        "savez",
        "sys",
        "testing",
        "tofile",
        "ctypes",
        "distutils",
        "core",
        "_core",
    ]
)
FORBIDDEN_ATTRIBUTES = frozenset(
    [
        "f_back",
        "f_globals",
        "f_locals",
        "f_builtins",
        "gi_frame",
        "gi_code",
        "cr_frame",
        "tb_frame",
        "tb_next",
        "func_globals",
        "co_code",
        "mro",
    ]
)


def screen_source(text: str, entry: str = "") -> list[Diagnostic]:
    """Findings that reject a source; a source that does not parse has none here.

    Args:
        text: the file.
        entry: its kernel; only what the kernel needs is executed, and screened. Empty: everything.
    """
    try:
        tree = slice_module(parse_python(text), entry)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    findings = []
    for node in ast.walk(tree):
        message = _objection(node)
        if message:
            findings.append(
                Diagnostic(
                    rule="source_screen",
                    message=message,
                    line=getattr(node, "lineno", None),
                    column=getattr(node, "col_offset", -1) + 1 or None,
                    hint="a kernel needs NKI, numpy and math, and no interpreter internals",
                )
            )
    return findings[:10]


def _objection(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        bad = [a.name for a in node.names if not _allowed_module(a.name)]
        return f"imports {', '.join(bad)}" if bad else ""
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        if node.level or not _allowed_module(module):
            return f"imports from {module or '.'}"
        bad = [
            a.name for a in node.names if module.startswith("numpy") and a.name in FORBIDDEN_NUMPY
        ]
        return f"imports {', '.join(bad)} from {module}" if bad else ""
    if isinstance(node, ast.Name) and node.id in FORBIDDEN_NAMES:
        return f"uses {node.id}"
    if isinstance(node, ast.Attribute):
        name = node.attr
        if name.startswith("__") and name.endswith("__") and name not in ALLOWED_DUNDERS:
            return f"reaches for the attribute {name}"
        if name in FORBIDDEN_ATTRIBUTES or name in FORBIDDEN_NUMPY - {"save", "load", "core"}:
            return f"reaches for the attribute {name}"
        if name in {"save", "load"} and isinstance(node.value, ast.Name) and node.value.id in (
            "np", "numpy",
        ):  # fmt: skip
            return f"uses numpy.{name}"
    if isinstance(node, ast.Name) and node.id.startswith("__nki_"):
        return f"uses the reserved name {node.id}"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        stripped = node.value.strip()
        dunder = stripped.startswith("__") and stripped.endswith("__") and len(stripped) > 4
        if dunder and stripped not in ALLOWED_DUNDERS | {"__main__"}:
            return f"names the attribute {stripped[:40]} in a string"
    return ""


def _allowed_module(name: str) -> bool:
    parts = name.split(".")
    if parts[0] == "numpy" and any(part in FORBIDDEN_NUMPY for part in parts[1:]):
        return False
    return parts[0] in ALLOWED_IMPORTS
