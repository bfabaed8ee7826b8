"""What a kernel's source may name before the SDK's interpreter runs it; for both dialects.

The candidate is traced and compiled in a process that can run programs and write files: the
compiler needs both. So a source that reaches for the interpreter, the system or the network is
refused before it runs. The simulator's screen is stricter, and knows one dialect; this one is for
every kernel that goes to a device.
"""

from __future__ import annotations

import ast

from accelopt.evaluation import Diagnostic
from accelopt.parsing import parse_python

RULE = "forbidden_code"
HINT = "a kernel needs NKI, NumPy and a few standard modules only"

MODULES = frozenset(
    [
        "__future__", "collections", "collections.abc", "dataclasses", "enum", "functools",
        "itertools", "math", "ml_dtypes", "numpy", "operator", "typing", "nki", "neuronxcc",
    ]
)  # fmt: skip
_SDK_PARTS = frozenset(["language", "isa", "typing", "compiler", "nki", "collectives", "constants"])
_BUILTINS = frozenset(
    [
        "__builtins__", "__import__", "__loader__", "__spec__", "breakpoint", "compile", "delattr",
        "eval", "exec", "globals", "help", "input", "locals", "memoryview", "open", "setattr",
        "vars", "exit", "quit",
    ]
)  # fmt: skip
_DUNDERS = frozenset(["__init__", "__post_init__", "__call__", "__name__", "__main__", "__doc__"])
_ATTRIBUTES = frozenset(
    [
        "baremetal", "benchmark", "profile", "simulate", "simulate_kernel", "ctypeslib", "f2py",
        "fromfile", "load_library", "memmap", "tofile", "loadtxt", "savetxt", "savez", "genfromtxt",
        "open_memmap", "testing", "distutils", "os", "sys", "subprocess", "builtins",
        "f_back", "f_globals", "f_builtins", "f_locals", "gi_frame", "tb_frame", "cr_frame",
        "func_globals", "mro", "custom_op", "builtin_custom_op",
    ]
)  # fmt: skip
MAX_FINDINGS = 10


def screen_source(text: str) -> list[Diagnostic]:
    """Findings that reject a source; one that does not parse has none here."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    found = []
    for node in ast.walk(tree):
        message = _objection(node)
        if message:
            found.append(
                Diagnostic(
                    rule=RULE, message=message, line=getattr(node, "lineno", None), hint=HINT
                )
            )
    return found[:MAX_FINDINGS]


def _objection(node: ast.AST) -> str:
    if isinstance(node, ast.Import):
        bad = [alias.name for alias in node.names if not _allowed(alias.name)]
        return f"imports {', '.join(bad)}" if bad else ""
    if isinstance(node, ast.ImportFrom):
        module = node.module or "."
        names = [name.name for name in node.names if name.name in _ATTRIBUTES or _hidden(name.name)]
        if node.level or not _allowed(module) or names:
            return f"imports {', '.join(names)} from {module}" if names else f"imports {module}"
        return ""
    if isinstance(node, ast.Name) and (node.id in _BUILTINS or _hidden(node.id)):
        return f"uses {node.id}"
    if isinstance(node, ast.Attribute) and (node.attr in _ATTRIBUTES or _hidden(node.attr)):
        return f"reads the attribute {node.attr}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        name = node.args[1] if len(node.args) > 1 else None
        plain = isinstance(name, ast.Constant) and isinstance(name.value, str)
        if not plain or name.value in _ATTRIBUTES or _hidden(name.value):  # type: ignore[union-attr]
            return "looks an attribute up by a name that can't be seen here"
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _format_trick(node.value):
        return "a format string reads attributes"
    return ""


def _allowed(module: str) -> bool:
    top, _, rest = module.partition(".")
    if top in ("nki", "neuronxcc"):
        return all(part in _SDK_PARTS for part in rest.split(".")) if rest else True
    return module in MODULES


def _hidden(name: str) -> bool:
    return name.startswith("__") and name not in _DUNDERS


def _format_trick(text: str) -> bool:
    return "{" in text and ".__" in text
