"""`accelopt conformance`: run the conformance kit on an installed backend."""

from __future__ import annotations

import dataclasses

import typer

from accelopt.cli.output import console, print_json


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("conformance")(conformance)


def conformance(
    backend: str = typer.Argument(help="Name of the backend."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check that a backend keeps its contract; exit code 1 when it does not."""
    from accelopt.plugins import installed
    from accelopt.testing.conformance import check_backend

    registry = installed()
    registry.backend(backend).close()
    with console(stderr=True).status(f"checking {backend}"):
        report = check_backend(lambda: registry.backend(backend))
    if as_json:
        results = [dataclasses.asdict(result) for result in report.results]
        print_json({"backend": backend, "ok": report.ok, "results": results})
    else:
        typer.echo(report.text())
    if not report.ok:
        raise typer.Exit(1)
