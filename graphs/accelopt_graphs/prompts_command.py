"""`accelopt prompts`: look at what the agents are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from accelopt.errors import ConfigError

_ROLES = ("planner", "executor", "fixer", "summarizer")
_PARTS = ("system", "user")
_MODES = ("full", "edits")

prompts = typer.Typer(
    name="prompts",
    help="Look at what the agents are sent.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@prompts.command("show")
def show(
    role: str = typer.Argument(help=f"Agent: {', '.join(_ROLES)}."),
    task: str = typer.Option(..., "--task", help="Task of the run."),
    backend: str = typer.Option("sim-trn1", "--backend", help="Backend that judges."),
    kernel: Path | None = typer.Option(  # noqa: B008 - typer declares options so
        None, "--kernel", help="Kernel to improve, or for the fixer the one that failed."
    ),
    plan: Path | None = typer.Option(None, "--plan", help="Text file with the plan."),  # noqa: B008
    slow: Path | None = typer.Option(None, "--slow", help="Slow kernel of a pair."),  # noqa: B008
    fast: Path | None = typer.Option(None, "--fast", help="Fast kernel of a pair."),  # noqa: B008
    edit_mode: str = typer.Option("full", "--edit-mode", help="How to answer: full, edits."),
    part: str = typer.Option("", "--part", help="Only this part: system, user."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with the typed request."),
) -> None:
    """Print a prompt exactly as it would be sent; what had to be made up is said on stderr."""
    _check("role", role, _ROLES)
    _check("part", part, ("", *_PARTS))
    _check("edit mode", edit_mode, _MODES)
    # Imported here: the command line lists its commands without loading the libraries of a run.
    from accelopt.cli.output import print_json
    from accelopt.models import Role
    from accelopt.plugins import installed
    from accelopt.prompts import render
    from accelopt.session import open_backend
    from accelopt_graphs.prompt_preview import Inputs, Preview, read_kernel, read_text

    found = installed().task(task)
    files = {"kernel": kernel, "slow": slow, "fast": fast}
    sources: dict[str, Any] = {
        name: read_kernel(path, found) for name, path in files.items() if path is not None
    }
    text = None if plan is None else read_text(plan, "plan")
    judge = open_backend(backend)
    try:
        preview = Preview(found, judge)
        request = preview.request(
            Role(role),
            Inputs(plan=text, edit_mode="edits" if edit_mode == "edits" else "full", **sources),
        )
    finally:
        judge.close()
    for note in preview.notes:
        typer.echo(f"note: {note}", err=True)
    prompt = render(request)
    shown = {name: getattr(prompt, name) for name in ((part,) if part else _PARTS)}
    if as_json:
        data = {"role": role, "task": found.name, "backend": judge.name, **shown}
        data |= {"sha256": prompt.sha256, "notes": preview.notes}
        print_json(data | {"request": request.model_dump(mode="json")})
    elif part:
        typer.echo(shown[part])
    else:
        for name, content in shown.items():
            typer.echo(f"===== {name} =====\n{content}")


@prompts.command("list")
def list_(as_json: bool = typer.Option(False, "--json", help="Print JSON.")) -> None:
    """List the prompt templates: one per agent, and the texts that go into them."""
    from accelopt.cli.output import print_json, print_table
    from accelopt.prompts.template import packaged_names, packaged_text, text_placeholders

    rows: list[dict[str, Any]] = []
    for name in packaged_names():
        text, stem = packaged_text(name), name.removesuffix(".md")
        rows.append(
            {
                "template": name,
                "role": stem if stem in _ROLES else "",
                "characters": len(text),
                "placeholders": sorted(text_placeholders(text)),
            }
        )
    rows.sort(key=lambda row: (row["role"] == "", _ROLES.index(row["role"] or _ROLES[-1])))
    if as_json:
        print_json(rows)
        return
    print_table(
        ["template", "role", "characters", "placeholders"],
        [
            [
                row["template"],
                row["role"] or "(shared)",
                str(row["characters"]),
                ", ".join(row["placeholders"]) or "-",
            ]
            for row in rows
        ],
        right=["characters"],
        flexible=["placeholders"],
    )


def _check(what: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        names = ", ".join(name for name in known if name)
        raise ConfigError(f"unknown {what} {value!r}", hint=f"one of {names}")
