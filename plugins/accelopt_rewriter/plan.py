"""The machine-readable part of a plan: which rewrites, where, in which order.

The last line of a plan reads `rewrite: sigmoid-chain @ all; merge-subtile-loop @ L34`, or
`rewrite: none`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from accelopt_rewriter.analysis import read_kernel
from accelopt_rewriter.catalog import REWRITES
from accelopt_rewriter.static import Value

EVERYWHERE = "all"
NONE = "none"
_LINE = re.compile(r"^\s*rewrite:\s*(.+?)\s*$", re.MULTILINE)
_STEP = re.compile(r"^([a-z][a-z-]*) @ (all|L\d+)$")


@dataclass(frozen=True)
class PlanStep:
    """One rewrite at one place; `where` is `all` or `L<line>` of the text the step starts from."""

    rewrite: str
    where: str = EVERYWHERE

    def __str__(self) -> str:
        return f"{self.rewrite} @ {self.where}"


def spec_of(steps: Sequence[PlanStep]) -> str:
    """The machine-readable form of a plan."""
    return "; ".join(str(step) for step in steps) if steps else NONE


def parse_plan(text: str) -> list[PlanStep] | None:
    """The steps of a plan: empty for `rewrite: none`, None when the plan is not one of ours."""
    lines = _LINE.findall(text)
    if not lines:
        return None
    if lines[-1] == NONE:
        return []
    steps = []
    for part in lines[-1].split(";"):
        match = _STEP.match(part.strip())
        if match is None or match.group(1) not in REWRITES:
            return None
        steps.append(PlanStep(match.group(1), match.group(2)))
    return steps


def carry_out(text: str, steps: Sequence[PlanStep], arguments: Sequence[Value | None]) -> str:
    """The kernel with the steps carried out in order; a step that fits nowhere is skipped."""
    for step in steps:
        rewrite = REWRITES[step.rewrite]
        if step.where == EVERYWHERE:
            text = rewrite.apply_everywhere(text, arguments)
            continue
        kernel = read_kernel(text, tuple(arguments))
        for site in rewrite.find(kernel):
            if f"L{site.line}" == step.where:
                text = rewrite.apply(kernel, site)
                break
    return text
