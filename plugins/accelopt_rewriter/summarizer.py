"""The summarizer: says what changed between a slow and a fast kernel, and what moved."""

from __future__ import annotations

import ast
import re
from collections import Counter
from difflib import SequenceMatcher

from accelopt.normalize import normalized_source
from accelopt.parsing import parse_python
from accelopt.replies import NO_OPTIMIZATION
from accelopt.requests import SummarizeRequest

_SNIPPET_LINES = 8
_SNIPPET_COLUMNS = 200


def answer(request: SummarizeRequest) -> str:
    """A title, a description, and a short snippet before and after."""
    if _same(request.slow, request.fast):
        return f"{NO_OPTIMIZATION}\n"
    gone, new = _calls_difference(request.slow, request.fast)
    loops_before, loops_after = _loops(request.slow), _loops(request.fast)
    title = _title(gone, new, loops_before, loops_after)
    lines = [f"**{title}**", ""]
    if gone:
        lines.append(f"Calls that disappear: {_counted(gone)}.")
    if new:
        lines.append(f"Calls that take their place: {_counted(new)}.")
    if loops_before != loops_after:
        lines.append(f"Loops: {loops_before} before, {loops_after} after.")
    if request.moved:
        lines.append(f"Counters that moved: {'; '.join(request.moved)}.")
    lines.append(f"The fast kernel takes 1/{request.speedup:.3g} of the time of the slow one.")
    before, after = _snippets(request.slow, request.fast)
    lines += ["", "Original code:", "```python", *before, "```"]
    lines += ["Optimized code:", "```python", *after, "```", ""]
    return "\n".join(lines)


def _same(slow: str, fast: str) -> bool:
    return slow == fast or normalized_source(slow) == normalized_source(fast)


def _calls(text: str) -> Counter[str]:
    """How often each NKI call, with its operator, stands in the text."""
    counts: Counter[str] = Counter()
    for node in ast.walk(parse_python(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        name = ast.unparse(node.func)
        if not re.match(r"(nl|nisa)\.", name) or name.endswith((".arange", ".par_dim", "_range")):
            continue
        ops = [ast.unparse(k.value) for k in node.keywords if k.arg in ("op", "op0", "op1")]
        counts[f"{name}({', '.join(ops)})" if ops else name] += 1
    return counts


def _calls_difference(slow: str, fast: str) -> tuple[Counter[str], Counter[str]]:
    try:
        before, after = _calls(slow), _calls(fast)
    except SyntaxError:
        return Counter(), Counter()
    return before - after, after - before


def _loops(text: str) -> int:
    return len(re.findall(r"^\s*for ", text, re.MULTILINE))


def _counted(calls: Counter[str]) -> str:
    return ", ".join(f"{n} × `{name}`" for name, n in sorted(calls.items()))


def _title(gone: Counter[str], new: Counter[str], before: int, after: int) -> str:
    moved = {"nl.load", "nl.store", "nl.ndarray", "nl.zeros"}
    removed, added = sorted(set(gone) - moved), sorted(set(new) - moved)
    if removed and added:
        return f"Replace {_listed(removed)} by {_listed(added)}"
    if removed:
        return f"Remove {_listed(removed)}"
    if added:
        return f"Use {_listed(added)}"
    if after < before:
        return "Merge loops: the same work on larger tiles"
    if after > before:
        return "Move repeated work into a loop of its own"
    return "Change tile shapes and access patterns, keep the operations"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown


def _snippets(slow: str, fast: str) -> tuple[list[str], list[str]]:
    """The largest changed stretch, cut to a few lines."""
    old, new = slow.splitlines(), fast.splitlines()
    codes = [
        code for code in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if code[0] != "equal"
    ]  # fmt: skip
    if not codes:
        return [], []
    # Declarations change with everything else; statements inside loops say more.
    _, i1, i2, j1, j2 = max(codes, key=lambda code: (code[2] - code[1]) + (code[4] - code[3]))
    return _cut(old[i1:i2]), _cut(new[j1:j2])


def _cut(lines: list[str]) -> list[str]:
    shown = [
        line if len(line) <= _SNIPPET_COLUMNS else f"{line[:_SNIPPET_COLUMNS]} ..."
        for line in lines[:_SNIPPET_LINES]
    ]
    return [*shown, "..."] if len(lines) > _SNIPPET_LINES else shown
