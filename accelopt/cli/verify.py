"""`accelopt verify`: judge a winning kernel again, from its evidence."""

from __future__ import annotations

from pathlib import Path

import typer

from accelopt.cli.output import console, print_facts, print_json, print_table
from accelopt.cli.run_command import find_run


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    subject: str = typer.Argument(help="Run id, run folder, or folder of an evidence bundle."),
    backend: str = typer.Option("", "--backend", help="Backend that judges [the bundle's]."),
    trust_reference: bool = typer.Option(
        False, "--trust-reference", help="Run the bundle's reference.py: it is somebody's code."
    ),
    runs_dir: Path | None = typer.Option(None, "--runs-dir", help="Where runs are [./runs]."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Check every claim of a winner, or of a bundle from elsewhere. Exit code 1 if one fails."""
    from accelopt import verification
    from accelopt.evidence import FILE, FOLDER, read_bundle
    from accelopt.session import open_backend

    folder = Path(subject)
    if not (folder / FILE).is_file():
        folder = find_run(runs_dir, subject) / FOLDER
    evidence, texts = read_bundle(folder)
    task = verification.task_of(evidence, folder, trust_reference=trust_reference)
    judge = open_backend(backend or evidence.backend["name"])
    try:
        with console(stderr=True).status(f"judging {evidence.task.name} again on {judge.name}"):
            findings = verification.verify(evidence, texts, task, judge)
    finally:
        judge.close()
    verified = all(finding.state != "fail" for finding in findings)
    if as_json:
        print_json(
            {
                "verified": verified,
                "bundle": str(folder.resolve()),
                "task": evidence.task.name,
                "run": evidence.run,
                "findings": [vars(finding) for finding in findings],
            }
        )
    else:
        print_facts(
            {
                "bundle": str(folder),
                "task": f"{evidence.task.name} on {evidence.backend['name']}",
                "made": f"{evidence.created}, accelopt {evidence.versions.get('accelopt', '?')}",
            }
        )
        rows = [[finding.claim, finding.detail, finding.state] for finding in findings]
        print_table(["claim", "found here", ""], rows, flexible=["found here"])
        console().print("verified" if verified else "NOT verified", style="bold")
    if not verified:
        raise typer.Exit(1)
