"""Screens a kernel's source before it is run: what it names must be on a list of allowed things.

The tracing worker shares a process with the candidate, so a candidate that reaches into the
interpreter could make the front end emit a trace that its source never produces. Such a source is
`rejected`. The lists are those of `frontend.sandbox_tables`, which the worker enforces again while
the kernel runs: whatever is only known then (`tile.index`, a name made of two strings) is stopped
there. An attribute of a kernel's own classes may have any name without an underscore.
"""

from __future__ import annotations

import ast
import builtins
import importlib

from accelopt.evaluation import Diagnostic
from accelopt.parsing import parse_python
from accelopt_simulator.frontend.facades import HINT, RULE
from accelopt_simulator.frontend.sandbox_tables import (
    BUILTINS,
    MODULES,
    NAMED_TUPLE,
    READABLE_SPECIAL,
    SPECIAL_METHODS,
)
from accelopt_simulator.frontend.structure_rules import structure_objection
from accelopt_simulator.source_slice import slice_module

DIALECT_ROOT = "neuronxcc"
GUARDED = frozenset({"getattr", "hasattr", "type", "__build_class__", "__import__"})
"""Builtins that the sandbox replaces by its own."""

NEVER = frozenset(
    [
        "co_code",
        "co_consts",
        "cr_await",
        "cr_code",
        "cr_frame",
        "ctypes",
        "ctypeslib",
        "dump",
        "f_back",
        "f_builtins",
        "f_code",
        "f_globals",
        "f_lineno",
        "f_locals",
        "f2py",
        "func_globals",
        "gi_code",
        "gi_frame",
        "gi_yieldfrom",
        "mro",
        "newbyteorder",
        "setfield",
        "setflags",
        "tb_frame",
        "tb_lasti",
        "tb_next",
        "tofile",
    ]
)
"""Attributes of the interpreter and of arrays that mean nothing else in a kernel."""

MAX_FINDINGS = 10


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
    screen = _Screen(tree)
    findings = []
    for node in ast.walk(tree):
        message = structure_objection(node) or screen.objection(node)
        if message:
            findings.append(
                Diagnostic(
                    rule=RULE,
                    message=message,
                    line=getattr(node, "lineno", None),
                    column=getattr(node, "col_offset", -1) + 1 or None,
                    hint=HINT,
                )
            )
    return findings[:MAX_FINDINGS]


class _Screen:
    """What a source calls its modules, and which builtins it replaces by its own."""

    def __init__(self, tree: ast.Module) -> None:
        self.modules = {"np": "numpy", "numpy": "numpy"}
        self.bound: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self.modules[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.bound.add(node.id)
            elif isinstance(node, ast.arg):
                self.bound.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.bound.add(node.name)

    def objection(self, node: ast.AST) -> str:
        """Why a node is refused; empty when it is not."""
        if isinstance(node, ast.Import):
            bad = [a.name for a in node.names if not _allowed_module(a.name)]
            return f"imports {', '.join(bad)}" if bad else ""
        if isinstance(node, ast.ImportFrom):
            return _import_objection(node)
        if isinstance(node, ast.Name):
            known = hasattr(builtins, node.id) and node.id not in BUILTINS | GUARDED
            exempt = node.id in self.bound or node.id in READABLE_SPECIAL
            return f"uses {node.id}" if known and not exempt else ""
        if isinstance(node, ast.Attribute):
            return self._attribute_objection(node)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return _text_objection(node.value.strip())
        return ""

    def _attribute_objection(self, node: ast.Attribute) -> str:
        name, base = node.attr, node.value
        owner = base.id if isinstance(base, ast.Name) else ""
        module = self.modules.get(owner, "") if owner not in self.bound else ""
        if module and not isinstance(node.ctx, ast.Load):
            return f"changes {module}.{name}"
        if module in MODULES and name not in MODULES[module] and _exists(module, name):
            return f"uses {module}.{name}"
        if name in NEVER:
            return f"reaches for the attribute {name}"
        if name.startswith("__"):
            return ""  # the structure rules have looked at it
        if name.startswith("_") and name not in NAMED_TUPLE and owner not in ("self", "cls"):
            return f"reaches for the private attribute {name}"
        return ""


def _import_objection(node: ast.ImportFrom) -> str:
    module = node.module or ""
    if node.level or not _allowed_module(module):
        return f"imports from {module or '.'}"
    allowed = MODULES.get(module)
    bad = [
        alias.name
        for alias in node.names
        if alias.name != "*"
        and (alias.name.startswith("_") or (allowed is not None and alias.name not in allowed))
    ]
    return f"imports {', '.join(bad)} from {module}" if bad else ""


def _text_objection(text: str) -> str:
    special = text.startswith("__") and text.endswith("__") and len(text) > 4
    if special and text not in SPECIAL_METHODS | READABLE_SPECIAL | {"__main__"}:
        return f"names the attribute {text[:40]} in a string"
    return ""


def _allowed_module(name: str) -> bool:
    return name in MODULES or name.partition(".")[0] == DIALECT_ROOT


def _exists(module: str, name: str) -> bool:
    """Whether the real module has this name: else Python says it better than we do."""
    return name.startswith("_") or hasattr(importlib.import_module(module), name)
