"""`accelopt doctor`: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from accelopt.cli.output import console, print_json, print_table
from accelopt.errors import ConfigError

_BACKEND = typer.Option([], "--backend", help="Try this backend too; may be repeated.")
_MODEL = typer.Option(
    [], "--model", help="Is this model there, provider:name? May be repeated; no paid call."
)
_BASE_URL = typer.Option(None, "--base-url", help="OpenAI-compatible server of the models.")
JSON_OPTION = typer.Option(False, "--json", help="Print JSON.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(
    backends: list[str] = _BACKEND,
    models: list[str] = _MODEL,
    base_url: str | None = _BASE_URL,
    as_json: bool = JSON_OPTION,
) -> None:
    """Check this installation, how far kernels are kept apart from it, and what is named."""
    from accelopt.doctor import run_checks
    from accelopt.plugins import installed

    if base_url and not models:
        raise ConfigError("--base-url is the server of a model", hint="name it with --model")
    with _progress() as progress:
        groups = dict(installed().checks)
        if backends or models:
            from accelopt.asked_checks import backend_groups, model_groups

            groups |= backend_groups(backends, progress) | model_groups(models, base_url)
        found = run_checks(groups, model_asked=bool(models))
    failed = any(check.state == "fail" for checks in found.values() for check in checks)
    if as_json:
        checks = [
            {"group": group, **check.model_dump()}
            for group, listed in found.items()
            for check in listed
        ]
        print_json({"ok": not failed, "checks": checks})
    else:
        for group, listed in found.items():
            rows = [[c.state, c.name, "; ".join(filter(None, (c.detail, c.fix)))] for c in listed]
            print_table(["state", "check", "found"], rows, title=group, flexible=["found"])
    raise typer.Exit(1 if failed else 0)


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Says on standard error what is tried: in one place on a terminal, in lines elsewhere."""
    from rich.markup import escape

    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda text: out.print(text, markup=False, soft_wrap=True)
        return
    with out.status("looking around") as status:
        yield lambda text: status.update(escape(text))
