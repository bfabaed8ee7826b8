"""Names of NKI calls and their arguments, whatever the file calls the modules."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

_MODULES = {"language": "nl", "isa": "nisa", "nki": "nki", "numpy": "np", "typing": "nt"}

_BINARY = ("x", "y")
_UNARY = ("x",)
SIGNATURES: dict[str, tuple[str, ...]] = {
    "nl.ndarray": ("shape", "dtype"),
    "nl.zeros": ("shape", "dtype"),
    "nl.ones": ("shape", "dtype"),
    "nl.full": ("shape", "fill_value", "dtype"),
    "nl.load": ("src",),
    "nl.store": ("dst", "value"),
    "nl.copy": ("src",),
    "nl.broadcast_to": ("src",),
    "nl.sum": ("x", "axis"),
    "nl.matmul": ("x", "y"),
    "nisa.nc_matmul": ("stationary", "moving"),
    "nisa.nc_transpose": ("data",),
    "nisa.activation": ("op", "data"),
    "nisa.activation_reduce": ("op", "data"),
    "nisa.tensor_scalar": (
        "data", "op0", "operand0", "reverse0", "op1", "operand1", "reverse1",
    ),
    "nisa.tensor_tensor": ("data1", "data2", "op"),
    "nisa.tensor_reduce": ("op", "data", "axis"),
    "nisa.tensor_copy": ("src",),
    "nisa.reciprocal": ("data",),
    "nisa.memset": ("shape", "value", "dtype"),
}  # fmt: skip
"""Positional argument names of the calls the rewrites read."""


@dataclass
class Names:
    """What a file calls the NKI modules."""

    roots: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, tree: ast.AST) -> Names:
        """Read a file's imports, wherever they stand."""
        roots: dict[str, str] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    short = _MODULES.get(alias.name.split(".")[-1])
                    if short is not None:
                        roots[alias.asname or alias.name] = short
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name in _MODULES:
                        roots[alias.asname or alias.name] = _MODULES[alias.name]
        return cls(roots)

    def _called(self, short: str) -> str:
        for written, module in self.roots.items():
            if module == short:
                return written
        return short

    @property
    def nl(self) -> str:
        """What the file calls `nki.language`."""
        return self._called("nl")

    @property
    def nisa(self) -> str:
        """What the file calls `nki.isa`; `nisa` when it does not import it."""
        return self._called("nisa")

    @property
    def needs_isa(self) -> bool:
        """Whether the file has yet to import `nki.isa`."""
        return "nisa" not in self.roots.values()

    def callee(self, call: ast.Call) -> str:
        """Canonical name of a call: `nl.load`, `nisa.activation`, `.broadcast_to`, or empty."""
        if not isinstance(call.func, ast.Attribute):
            return ""
        root = self.roots.get(ast.unparse(call.func.value))
        return f".{call.func.attr}" if root is None else f"{root}.{call.func.attr}"

    def token(self, node: ast.expr | None) -> str:
        """Bare name of an operator argument: `nl.add` and `np.add` are both `add`."""
        return node.attr if isinstance(node, ast.Attribute) else ""

    def argument(self, call: ast.Call, name: str) -> ast.expr | None:
        """An argument by name, given by keyword or by position."""
        found = self.keyword(call, name)
        if found is not None:
            return found
        callee = self.callee(call)
        default = _BINARY if len(call.args) == 2 else _UNARY
        positions = SIGNATURES.get(callee, default if callee.startswith("nl.") else ())
        if name in positions and positions.index(name) < len(call.args):
            return call.args[positions.index(name)]
        return None

    def keyword(self, call: ast.Call | None, name: str) -> ast.expr | None:
        """A keyword argument, or None."""
        for keyword in call.keywords if call is not None else ():
            if keyword.arg == name:
                return keyword.value
        return None


def tail(call: ast.Call) -> str:
    """Last part of what is called: `par_dim` for `nl.par_dim(...)`."""
    return ast.unparse(call.func).split(".")[-1]
