"""`accelopt doctor`: what works on this machine, what does not, and what to do about it."""

from __future__ import annotations

import typer

from accelopt.cli.output import print_json, print_table

JSON_OPTION = typer.Option(False, "--json", help="Print JSON.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor")(doctor)


def doctor(as_json: bool = JSON_OPTION) -> None:
    """Check this installation, and how far kernels are kept apart from it."""
    from accelopt.doctor import run_checks
    from accelopt.plugins import installed

    found = run_checks(installed().checks)
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
