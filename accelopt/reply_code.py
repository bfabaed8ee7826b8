"""A piece of code from a reply, parsed once, and code that stands between prose."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from itertools import islice

from accelopt.reply_blocks import Block
from accelopt.reply_text import INVISIBLE, python_tree

_SPACES = {ord("\u00a0"): " ", ord("\u202f"): " ", ord("\u3000"): " "}
_CODE_START = re.compile(r"(?:import|from|def|async def|class)[ ]+[A-Za-z_]|@[A-Za-z_]")
_PROSE = re.compile(
    r"(?:[#>*\-\d.)`]+[ ]+|\*\*)?(?:\W{0,2}[^\W\d_][\w'’\-]*[,:;.]?[ ]+){2}.*"
    r"|.*[\u3002\uff0c\uff1a].*|-{3,}|\*{3,}|(?:Note|Notes|Explanation|Usage|Changes)\b.*:.*"
)
_TRIES = 12
"""How many ends of bare code are tried."""


class Code:
    """A piece of code, parsed once."""

    def __init__(self, text: str, block: Block | None = None) -> None:
        self.block = block
        self.notes: list[str] = []
        tree = python_tree(text) if "def" in text else None
        if tree is None and not text.isascii():
            cleaned = text.translate(INVISIBLE).translate(_SPACES)
            if cleaned != text:
                tree = python_tree(cleaned)
                if tree is not None:
                    text = cleaned
                    self.notes.append("invisible characters were taken out of the code")
        self.text = text.strip("\n") + "\n"
        self.tree = tree
        body = tree.body if tree is not None else []
        self.functions = [node for node in body if isinstance(node, ast.FunctionDef)]

    @property
    def complete(self) -> bool:
        """Whether its end is in the reply."""
        return self.block is None or self.block.complete

    @property
    def names(self) -> set[str]:
        """Names of its functions."""
        return {node.name for node in self.functions}

    @cached_property
    def jitted(self) -> list[str]:
        """Names of the jit-decorated functions."""
        return [node.name for node in self.functions if any(map(_is_jit, node.decorator_list))]

    @cached_property
    def main(self) -> str | None:
        """The only jit-decorated function, else the only function."""
        names = self.jitted or [node.name for node in self.functions]
        return names[0] if len(set(names)) == 1 else None

    def defines(self, entry: str) -> bool:
        """Whether it binds the name to a function, if only by an assignment."""
        if any(node.name == entry for node in self.functions):
            return True
        # kernel = nki.jit(kernel_impl)
        return bool(self.functions) and any(
            isinstance(target, ast.Name) and target.id == entry
            for node in (self.tree.body if self.tree is not None else ())
            if isinstance(node, ast.Assign)
            for target in node.targets
        )

    def is_stub(self, entry: str | None) -> bool:
        """Whether the function is a signature without a body."""
        bodies = [node.body for node in self.functions if entry in {None, node.name}]
        return bool(bodies) and all(
            isinstance(node, ast.Pass)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
            for body in bodies
            for node in body
        )

    def uses(self, entry: str) -> bool:
        """Whether it calls or imports the entry function: a usage example, a test."""
        if self.tree is None or self.jitted:
            return False
        return any(
            (isinstance(node, ast.Name) and node.id == entry)
            or (isinstance(node, ast.alias) and (node.asname or node.name) == entry)
            or (isinstance(node, ast.Attribute) and node.attr == entry)
            for node in ast.walk(self.tree)
        )

    def mentions(self, entry: str | None) -> bool:
        """Whether it seems to define the function, syntax errors aside."""
        name = r"\w+" if entry is None else re.escape(entry)
        return re.search(rf"^[ \t]*def[ \t]+{name}[ \t]*\(", self.text, re.MULTILINE) is not None


def _is_jit(decorator: ast.expr) -> bool:
    if isinstance(decorator, ast.Call):
        decorator = decorator.func
    name = decorator.attr if isinstance(decorator, ast.Attribute) else decorator
    return (name if isinstance(name, str) else getattr(name, "id", "")).endswith("jit")


def bare_code(text: str) -> Code | None:
    """Code without a fence: the whole text, or what is left without prose around it."""
    if "def " not in text:
        return None
    code = Code(text)
    if code.functions:
        return code
    if code.tree is not None:
        return None
    lines = text.split("\n")
    first = next((row for row, line in enumerate(lines) if _CODE_START.match(line)), None)
    if first is None:
        return None
    return without_prose("\n".join(lines[first:]))


def _is_prose(line: str) -> bool:
    """Whether a line at the left margin can't be the beginning of a statement."""
    line = line[:300].rstrip()
    return (
        line[:1].strip() != ""
        and _CODE_START.match(line) is None
        and line[-1] not in "([{,=\\"
        and _PROSE.fullmatch(line) is not None
        and python_tree(line) is None
        and python_tree(f"{line}\n    0") is None
    )


def without_prose(text: str) -> Code | None:
    """The code at the beginning of a text that goes on with paragraphs of prose.

    Only whole paragraphs at the left margin that can't be code are cut off, so code that was cut
    short is not taken for code with an explanation after it.
    """
    lines = text.split("\n")
    ends = (
        row for row in range(1, len(lines)) if not lines[row - 1].strip() and _is_prose(lines[row])
    )
    for end in [*islice(ends, _TRIES), len(lines)]:
        code = Code("\n".join(lines[:end]))
        if code.functions:
            return code
    return None


def is_cut_off(text: str) -> bool:
    """Whether a text without fences ends inside code (or inside JSON with code)."""
    start = text.lstrip()
    if start[:1] == "{" and re.search(r"def \w+\(", start) and not start.rstrip().endswith("}"):
        return True
    lines = text.split("\n")
    first = next((row for row, line in enumerate(lines) if _CODE_START.match(line)), None)
    if first is None or not re.search(r"^def \w+\(", "\n".join(lines[first:]), re.MULTILINE):
        return False
    last = next(line for line in reversed(lines) if line.strip())
    return last[:1].isspace() or _CODE_START.match(last) is not None
