"""The executor: carries out exactly what a plan's last line says."""

from __future__ import annotations

from accelopt.errors import TaskError
from accelopt.requests import ExecuteRequest
from accelopt_rewriter.catalog import REWRITES
from accelopt_rewriter.plan import carry_out, parse_plan
from accelopt_rewriter.static import parse_arguments


def answer(request: ExecuteRequest) -> str:
    """Prose and one fenced block with the whole kernel file."""
    steps = parse_plan(request.plan)
    if steps is None:
        return fenced(
            "The plan names no rewrite I know, so the kernel is returned unchanged.", request.kernel
        )
    if not steps:
        return fenced("The plan asks for no rewrite; the kernel is unchanged.", request.kernel)
    try:
        text = carry_out(request.kernel, steps, parse_arguments(request.problem.arguments))
    except (SyntaxError, ValueError, TaskError) as error:
        return fenced(
            f"The kernel can't be read ({error}), so it is returned unchanged.", request.kernel
        )
    if text == request.kernel:
        return fenced(
            "The plan's rewrite applies nowhere in this kernel; it is unchanged.", request.kernel
        )
    done = "\n".join(f"- {step}: {REWRITES[step.rewrite].title}." for step in steps)
    return fenced(f"Carried out:\n{done}\nNothing else was changed.", text)


def fenced(prose: str, text: str) -> str:
    """An answer with a kernel in a fenced block."""
    return f"{prose}\n\n```python\n{text.rstrip()}\n```\n"
