"""Values that are known before a kernel runs: shapes, tile sizes and constants."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Value = int | float | tuple[int, ...]

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_TILE_SIZES = {
    "pmax": 128,
    "psum_fmax": 512,
    "gemm_stationary_fmax": 128,
    "gemm_moving_fmax": 512,
    "bn_stats_fmax": 512,
}
_BITS = {"8": 1, "16": 2, "32": 4}


def parse_arguments(lines: Sequence[str]) -> list[Value | None]:
    """Shape or value of each kernel argument from a request's lines (`shape dtype` or `value`).

    A line that says neither gives None: then nothing is known about that argument.
    """
    return [_parse_argument(line) for line in lines]


def _parse_argument(line: str) -> Value | None:
    text = line.strip()
    try:
        number = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        number = None
    if isinstance(number, int | float) and not isinstance(number, bool):
        return number
    bracketed = re.search(r"[\[(]([\d\s,x×]*)[\])]", text)
    if bracketed:
        return tuple(int(n) for n in re.findall(r"\d+", bracketed.group(1)))
    crossed = re.match(r"\d+(?:\s*[x×]\s*\d+)*\s+(?:\w*float\d|u?int\d)", text)
    if crossed:
        text = crossed.group(0).rpartition(" ")[0]
        return tuple(int(n) for n in re.findall(r"\d+", text))
    scalar = re.search(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", text)
    return float(scalar.group(0)) if scalar else None


def evaluate(node: ast.expr, env: Mapping[str, Value]) -> Value | None:
    """Value of an expression over known names; None when it is not known."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            value = env.get(name)
            return value if isinstance(value, int | float) else None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = evaluate(operand, env)
            return -inner if isinstance(inner, int | float) else None
        case ast.BinOp(left=left, op=op, right=right):
            a, b = evaluate(left, env), evaluate(right, env)
            if not isinstance(a, int | float) or not isinstance(b, int | float):
                return None
            try:
                result = _ARITHMETIC[type(op)](a, b)
            except (KeyError, ArithmeticError):
                return None
            return result if isinstance(result, int | float) else None
        case ast.Tuple(elts=items) | ast.List(elts=items):
            values = [evaluate(item, env) for item in items]
            return (
                tuple(v for v in values if isinstance(v, int))
                if (all(isinstance(v, int) for v in values))
                else None
            )
        case ast.Attribute(attr="shape", value=ast.Name(id=name)):
            shape = env.get(name)
            return shape if isinstance(shape, tuple) else None
        case ast.Attribute(attr=attr, value=ast.Attribute(attr="tile_size")):
            return _TILE_SIZES.get(attr)
        case ast.Subscript(value=base, slice=index):
            shape, at = evaluate(base, env), evaluate(index, env)
            if isinstance(shape, tuple) and isinstance(at, int) and -len(shape) <= at < len(shape):
                return shape[at]
            return None
        case ast.Call(args=[argument], keywords=[]):
            return _wrapped(node, argument, env)
    return None


def _wrapped(call: ast.Call, argument: ast.expr, env: Mapping[str, Value]) -> Value | None:
    """The number inside `par_dim(n)`, `np.float32(x)`, `np.dtype(np.float32).type(x)`, ..."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
    if name == "len":
        shape = evaluate(argument, env)
        return len(shape) if isinstance(shape, tuple) else None
    if name in ("par_dim", "float", "int", "float32", "float64", "type"):
        value = evaluate(argument, env)
        return value if isinstance(value, int | float) else None
    return None


def dtype_bytes(text: str | None) -> int:
    """Bytes per element of a dtype expression; 4 when it does not say."""
    found = re.search(r"(?:float|bfloat|int|fp|bf)(8|16|32)", text or "")
    return _BITS[found.group(1)] if found else 4
