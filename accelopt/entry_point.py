"""Finds the kernel function in a kernel file, by reading it; nothing is executed."""

from __future__ import annotations

import ast

from accelopt.errors import TaskError
from accelopt.kernel import Dialect
from accelopt.parsing import parse_python

KERNEL_NAMES = ("kernel", "optimized_kernel")
"""Names that mark the kernel when decorators don't, in order of preference."""

_DECORATORS = frozenset({"jit", "trace", "baremetal", "benchmark", "profile"})


def parse_kernel(source: str, filename: str = "kernel.py") -> ast.Module:
    """Parse a kernel file.

    Raises:
        TaskError: it is not Python; names the line.
    """
    try:
        return parse_python(source)
    except SyntaxError as error:
        raise TaskError(
            f"{filename}, line {error.lineno}: {error.msg}", hint="the file must parse as Python"
        ) from error
    except ValueError as error:  # a null byte
        raise TaskError(f"{filename}: {error}", hint="the file must be Python text") from error


def find_entry(source: str, filename: str = "kernel.py") -> str:
    """Name of the kernel function of a file.

    It is the function decorated with `nki.jit` (or `nki.trace`, `nki.baremetal`, ..., bare or with
    arguments, or wrapped as `name = nki.jit(function)`). A decorated function that another function
    of the file calls is a helper. Without any decorator, the function called `kernel`, else
    `optimized_kernel`, is meant; these names also decide between several decorated functions.

    Raises:
        TaskError: the file does not parse, has no kernel, or has several.
    """
    tree = parse_kernel(source, filename)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    decorated = _decorated(tree, _nki_names(tree))
    if not decorated:
        for name in KERNEL_NAMES:
            if name in functions:
                return name
        raise TaskError(
            f"{filename} has no kernel",
            hint="decorate one function with @nki.jit or call it `kernel`",
        )
    # Several decorated functions: those that others call are helpers.
    roots = [name for name in decorated if not _is_called(name, functions)] or decorated
    if len(roots) == 1:
        return roots[0]
    for name in KERNEL_NAMES:
        if name in roots:
            return name
    count = {2: "two"}.get(len(roots), str(len(roots)))
    raise TaskError(
        f"{filename} has {count} kernels: {', '.join(roots)}",
        hint="call the one that is meant `kernel`",
    )


def detect_dialect(source: str, filename: str = "kernel.py") -> Dialect:
    """The language of a kernel file, by what it imports; `neuronxcc.nki` when it imports neither.

    Raises:
        TaskError: the file does not parse.
    """
    found = Dialect.NEURONXCC_NKI
    for node in ast.walk(parse_kernel(source, filename)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        else:
            continue
        if any(module.split(".")[0] == "neuronxcc" for module in modules):
            return Dialect.NEURONXCC_NKI
        if any(module.split(".")[0] == "nki" for module in modules):
            found = Dialect.NKI
    return found


def _nki_names(tree: ast.Module) -> frozenset[str]:
    """Bare names that were imported from the nki package and decorate kernels."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and "nki" in (node.module or "").split("."):
            kept = [alias for alias in node.names if alias.name in _DECORATORS]
            names |= {alias.asname or alias.name for alias in kept}
    return frozenset(names)


def _is_nki_decorator(node: ast.expr, bare: frozenset[str]) -> bool:
    """Whether `node` is `nki.jit`, `a.b.nki.jit`, an imported `jit`, or a call of one of these."""
    if isinstance(node, ast.Call):
        # Also `functools.partial(nki.jit, ...)`, which hands the decorator over as an argument.
        is_partial = ast.unparse(node.func).split(".")[-1] == "partial"
        return (
            any(_is_nki_decorator(a, bare) for a in node.args[:1])
            if is_partial
            else (_is_nki_decorator(node.func, bare))
        )
    if isinstance(node, ast.Name):
        return node.id in bare
    if isinstance(node, ast.Attribute) and node.attr in _DECORATORS:
        return "nki" in ast.unparse(node.value).split(".")
    return False


def _decorated(tree: ast.Module, bare: frozenset[str]) -> list[str]:
    names = []
    wrapped = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            if any(_is_nki_decorator(d, bare) for d in node.decorator_list):
                names.append(node.name)
        elif (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Call)
            and _is_nki_decorator(node.value.func, bare)
            and any(isinstance(argument, ast.Name) for argument in node.value.args[:1])
        ):
            names.append(node.targets[0].id)
            wrapped.add(ast.unparse(node.value.args[0]))
    # `fast = nki.jit(slow)` makes `fast` the kernel even where `slow` is decorated itself.
    kept = [name for name in names if name not in wrapped or name in KERNEL_NAMES]
    return list(dict.fromkeys(kept))


def _is_called(name: str, functions: dict[str, ast.FunctionDef]) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name
        for caller, function in functions.items()
        if caller != name
        for statement in function.body
        for node in ast.walk(statement)
    )
