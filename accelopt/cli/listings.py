"""`accelopt tasks`, `backends`, `models`, `plugins`, `graphs` and `graph show`."""

from __future__ import annotations

from enum import StrEnum

import typer

from accelopt.cli.check_tasks import check_tasks
from accelopt.cli.output import microseconds, print_json, print_table, shapes

JSON_OPTION = typer.Option(False, "--json", help="Print JSON.")


class GraphFormat(StrEnum):
    """Formats of `graph show`."""

    MERMAID = "mermaid"


def register(app: typer.Typer) -> None:
    """Add the listing commands."""
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
    group.callback()(tasks)
    group.command("check")(check_tasks)
    app.add_typer(group, name="tasks")
    app.command("backends")(backends)
    app.command("models")(models)
    app.command("plugins")(plugins)
    app.command("graphs")(graphs)
    shown = typer.Typer(help="Show one agent graph.", no_args_is_help=True, rich_markup_mode=None)
    shown.callback()(_graph_group)
    shown.command("show")(graph_show)
    app.add_typer(shown, name="graph")


def _graph_group() -> None:
    """Show one agent graph."""


def tasks(context: typer.Context, as_json: bool = JSON_OPTION) -> None:
    """List the tasks of all suites; `accelopt tasks check` tries their soundness."""
    if context.invoked_subcommand:
        return
    from accelopt.plugins import installed

    registry = installed()
    found = [registry.task(name) for name in registry.task_names()]
    data = [
        {
            "task": task.name,
            "title": task.title,
            "arguments": [_argument(spec.shape, spec.value) for spec in task.arguments],
            "relative_l2_tolerance": task.relative_l2_tolerance,
            "seeds": list(task.seeds),
            "work": task.work.model_dump(),
            "published": dict(task.published),
        }
        for task in found
    ]
    if as_json:
        print_json(data)
        return
    rows = [
        [
            task.name,
            task.title,
            shapes([spec.shape for spec in task.arguments if spec.value is None]),
            microseconds(task.published.get("trn1_baseline_latency_us")),
        ]
        for task in found
    ]
    print_table(
        ["task", "what it computes", "kernel arguments", "published"],
        rows,
        right=["published"],
        flexible=["what it computes", "kernel arguments"],
    )


def _argument(shape: tuple[int, ...], value: float | int | None) -> str:
    return "x".join(map(str, shape)) if value is None else f"{value:g}"


def backends(as_json: bool = JSON_OPTION) -> None:
    """List the backends that can judge kernels."""
    from accelopt.plugins import installed

    registry = installed()
    data = []
    for name in registry.backends:
        backend = registry.backend(name)
        data.append(
            {
                "backend": name,
                "description": backend.description,
                "device": backend.device.name,
                "capabilities": sorted(backend.capabilities),
                "version": backend.version,
                "unavailable": backend.unavailable(),
            }
        )
        backend.close()
    if as_json:
        print_json(data)
        return
    rows = [
        [
            str(d["backend"]),
            str(d["description"]),
            ", ".join(str(c) for c in d["capabilities"]),
            f"unavailable: {d['unavailable']}" if d["unavailable"] else "ready",
        ]
        for d in data
    ]
    print_table(
        ["backend", "description", "capabilities", "state"],
        rows,
        flexible=["description", "capabilities", "state"],
    )


def models(as_json: bool = JSON_OPTION) -> None:
    """List the chat model providers."""
    from accelopt.plugins import installed

    providers = installed().chat_models.values()
    data = [{"model": p.prefix, "description": p.description, "needs": p.needs} for p in providers]
    if as_json:
        print_json(data)
        return
    rows = [[d["model"], d["description"], d["needs"] or "nothing"] for d in data]
    print_table(["model", "description", "needs"], rows, flexible=["description", "needs"])


def plugins(as_json: bool = JSON_OPTION) -> None:
    """List the installed plugins and the hooks they implement."""
    from accelopt.plugins import installed

    found = installed().plugins
    if as_json:
        print_json(
            [
                {
                    "plugin": p.name,
                    "distribution": p.distribution,
                    "version": p.version,
                    "hooks": list(p.hooks),
                    "blocked": p.blocked,
                }
                for p in found
            ]
        )
        return
    rows = [
        [
            p.name,
            p.distribution,
            p.version,
            "blocked" if p.blocked else ", ".join(h.removeprefix("register_") for h in p.hooks),
        ]
        for p in found
    ]
    print_table(["plugin", "distribution", "version", "registers"], rows, flexible=["registers"])


def graphs(as_json: bool = JSON_OPTION) -> None:
    """List the agent graphs."""
    from accelopt.plugins import installed

    data = [{"graph": g.name, "description": g.description} for g in installed().graphs.values()]
    if as_json:
        print_json(data)
        return
    rows = [[d["graph"], d["description"]] for d in data]
    print_table(["graph", "description"], rows, flexible=["description"])


def graph_show(
    name: str = typer.Argument(help="Name of the graph."),
    format_: GraphFormat = typer.Option(GraphFormat.MERMAID, "--format", help="Output format."),
    as_json: bool = JSON_OPTION,
) -> None:
    """Print an agent graph, inner graphs included."""
    from accelopt.plugins import installed

    text = installed().graph(name).mermaid()
    if as_json:
        print_json({"graph": name, "format": format_.value, "text": text})
    else:
        typer.echo(text.rstrip("\n"))
