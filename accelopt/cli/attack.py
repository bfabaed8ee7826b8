"""`accelopt attack`: try the known reward hacks on a backend."""

from __future__ import annotations

import typer

from accelopt.cli.output import console, print_facts, print_json, print_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("attack")(attack)


def attack(
    backend: str = typer.Option("sim-trn1", "--backend", help="Backend that is attacked."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Try the known reward hacks on a backend, each beside an honest kernel.

    Exit code 1 unless every hack is blocked and every honest kernel passes. The result is kept and
    becomes part of the evidence of later winners.
    """
    from accelopt.attack_record import save_attack
    from accelopt.attacks import NOT_APPLICABLE, run_suite
    from accelopt.session import open_backend

    judge = open_backend(backend)
    try:
        with console(stderr=True).status(f"attacking {judge.name}") as status:
            report = run_suite(judge, progress=lambda text: status.update(f"attacking: {text}"))
        record = report.record
        save_attack(judge, record)
    finally:
        judge.close()
    if as_json:
        print_json(
            {
                "backend": report.backend,
                **record.model_dump(),
                "results": [vars(result) for result in report.results],
                "skipped": report.skipped,
                "reasons_not_applicable": {str(row): why for row, why in NOT_APPLICABLE.items()},
            }
        )
    else:
        rows = [
            [
                str(result.row or "-"),
                result.title,
                result.exploit or "(honest twin)",
                result.detail,
                _word(result.exploit, result.held),
            ]
            for result in report.results
        ]
        print_table(["row", "hack", "exploit", "what happened", ""], rows,
                    flexible=["hack", "exploit", "what happened"])  # fmt: skip
        for title, why in report.skipped.items():
            console().print(f"not tried: {title}: {why}", markup=False)
        print_facts(
            {
                "backend": f"{report.backend}, {report.version}",
                "blocked": f"{record.blocked}/{record.attacks}",
                "twins passed": f"{record.twins_passed}/{record.twins}",
            }
        )
    if not record.clean:
        raise typer.Exit(1)


def _word(exploit: str, held: bool) -> str:
    if exploit:
        return "blocked" if held else "NOT BLOCKED"
    return "passed" if held else "REFUSED"
