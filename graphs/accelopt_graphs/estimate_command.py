"""`accelopt estimate`: what a run may cost, said before its first paid call."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from accelopt.errors import ConfigError

if TYPE_CHECKING:
    from accelopt.config import RunConfig
    from accelopt.cost_estimate import CostEstimate, PricedModel, RoleEstimate, SearchSize, Spread
    from accelopt.models import Role
    from accelopt.prices import PriceTable

_COLUMNS = [
    "role",
    "model",
    "calls",
    "tokens in",
    "tokens out",
    "USD low",
    "USD likely",
    "USD high",
]
_UNKNOWN = "unknown"


def estimate(
    subject: str = typer.Argument("", metavar="TASK", help="Task name, or a kernel file."),
    reference: str | None = typer.Option(None, help="Reference file of a kernel of your own."),
    config: Path | None = typer.Option(None, help="TOML file with settings."),  # noqa: B008
    preset: str | None = typer.Option(None, help="Settings that go together: paper, quick."),
    backend: str | None = typer.Option(None, help="Backend that judges [sim-trn1]."),
    graph: str | None = typer.Option(None, help="Agent graph: optimize, best-of-n [optimize]."),
    model: str | None = typer.Option(None, help="Chat model, provider:name [rewriter]."),
    planner_model: str | None = typer.Option(None, help="Chat model of the planner."),
    executor_model: str | None = typer.Option(None, help="Chat model of the executor."),
    fixer_model: str | None = typer.Option(None, help="Chat model of the fixer."),
    summarizer_model: str | None = typer.Option(None, help="Chat model of the summarizer."),
    base_url: str | None = typer.Option(None, help="URL of an OpenAI-compatible server."),
    beam_width: int | None = typer.Option(None, help="B: kernels kept per iteration [3]."),
    num_plans: int | None = typer.Option(None, help="N: plans per kernel [4]."),
    num_samples: int | None = typer.Option(None, help="K: implementations per plan [1]."),
    iterations: int | None = typer.Option(None, help="T: iterations [5]."),
    fixer_rounds: int | None = typer.Option(None, help="F: repair rounds [2]."),
    topk_experiences: int | None = typer.Option(None, help="TopK: lessons per iteration [8]."),
    prices: str | None = typer.Option(None, help="Price file of your own."),
    others: list[str] = typer.Option([], "--set", help="Any other setting, key=value."),  # noqa: B008
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Say what a run may cost, before its first paid call. Asks no model and needs no key."""
    # Imported here: the command line lists its commands without loading the libraries of a run.
    from accelopt import session
    from accelopt.cli.output import print_json
    from accelopt.config import RunConfig
    from accelopt.cost_estimate import estimate_cost
    from accelopt.models import Role
    from accelopt.run_changes import parse_settings
    from accelopt.tokens import estimated_tokens
    from accelopt_graphs.first_prompts import prompt_sizes

    own_kernel = subject.endswith(".py")
    flags = {
        "task": None if own_kernel else subject or None,
        "kernel": subject if own_kernel else None,
        "reference": reference,
        "preset": preset,
        "backend": backend,
        "graph": graph,
        "model": model,
        "planner_model": planner_model,
        "executor_model": executor_model,
        "fixer_model": fixer_model,
        "summarizer_model": summarizer_model,
        "base_url": base_url,
        "beam_width": beam_width,
        "num_plans": num_plans,
        "num_samples": num_samples,
        "iterations": iterations,
        "fixer_rounds": fixer_rounds,
        "topk_experiences": topk_experiences,
        "prices": prices,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    settings = RunConfig.load(config, **(parse_settings(others) | given))
    if not settings.task and not settings.kernel:
        raise ConfigError("no task given", hint="`accelopt tasks` lists them")
    size = _size(settings)
    table = session.price_table(settings)
    models = {role: _models(settings, role, table) for role in Role}
    task = session.task_of(settings)
    judge = session.open_backend(settings.backend)
    try:
        prompts = prompt_sizes(task, judge, settings, size)
    finally:
        judge.close()
    kernel_tokens = estimated_tokens(task.baseline.text)
    found = estimate_cost(settings, size, models, prompts, kernel_tokens)
    assumptions = _assumptions(settings, found, kernel_tokens)
    if as_json:
        data = {"task": task.name, "backend": judge.name, "graph": settings.graph}
        print_json(data | _data(found, table, assumptions))
    else:
        _show(found, table, assumptions, f"{task.name} on {judge.name}")


def _size(settings: RunConfig) -> SearchSize:
    from accelopt.cost_estimate import SearchSize

    size = SearchSize.of(settings)
    if settings.graph == "optimize":
        return size
    if settings.graph == "best-of-n":
        # Every round starts from the baseline, and nothing is learned.
        return replace(size, beam_width=1, topk_experiences=0)
    raise ConfigError(
        f"the calls of graph {settings.graph!r} are not known",
        hint="estimate knows optimize and best-of-n",
    )


def _models(settings: RunConfig, role: Role, table: PriceTable) -> tuple[PricedModel, ...]:
    from accelopt.cost_estimate import PricedModel, is_reasoning
    from accelopt.model_names import parse_models
    from accelopt.plugins import installed

    known = installed().chat_models
    found = []
    for choice in parse_models(settings.model_for(role)):
        if choice.provider not in known:
            raise ConfigError(
                f"unknown model {choice.label!r}", hint="`accelopt models` lists the providers"
            )
        price = table.price(choice.label, choice.base_url or settings.base_url)
        found.append(
            PricedModel(
                label=choice.address,
                weight=choice.weight,
                price=price,
                reasoning=is_reasoning(choice.name, settings.reasoning_effort),
            )
        )
    return tuple(found)


def _assumptions(settings: RunConfig, found: CostEstimate, kernel_tokens: int) -> list[str]:
    """What the figures rest on, one line each."""
    from accelopt import cost_estimate as known
    from accelopt.models import Role

    reasoning = {
        model.label: model.reasoning
        for role in found.roles
        for model in role.models
        if role.calls.high
    }
    answer = known.answer_tokens(Role.EXECUTOR, kernel_tokens, settings.edit_mode)
    lines = [
        f"tokens in: the prompts of this task by their length, give or take"
        f" {known.INPUT_ERROR:.0%}; planner prompts grow by lessons and tried plans",
        f"a kernel answer: {_range(answer)}"
        f" (the baseline has about {kernel_tokens:,}; answers are {_how(settings.edit_mode)})",
        f"a plan: {_range(known.PLAN_TOKENS)}; a lesson: {_range(known.LESSON_TOKENS)}",
        f"a reasoning model: {_range(known.REASONING_TOKENS)} more per answer ("
        + (", ".join(label for label, does in reasoning.items() if does) or "none here")
        + ")",
    ]
    if settings.max_output_tokens is not None:
        lines.append(f"no answer is longer than {settings.max_output_tokens:,} tokens")
    lines += [
        f"low: half the beam, no repairs, no lessons; likely: a full beam,"
        f" {known.FAILING_SHARE:.0%} of the kernels fail and a repair mends"
        f" {known.REPAIRED_SHARE:.0%}, half the lessons; high: every call there can be",
        f"not counted: an unusable answer is asked for again, up to {settings.reply_reasks}"
        f" {'time' if settings.reply_reasks == 1 else 'times'}",
    ]
    return lines


def _how(edit_mode: str) -> str:
    return "complete files" if edit_mode == "full" else "edits"


def _range(spread: Spread) -> str:
    return f"{spread.low:,.0f} to {spread.high:,.0f} tokens, likely {spread.likely:,.0f}"


def _data(found: CostEstimate, table: PriceTable, assumptions: list[str]) -> dict[str, Any]:
    """The stable machine-readable form."""
    return {
        **_figures(found),
        "cost_usd_at_least": found.known_usd.low if _partly_known(found) else None,
        "unpriced_models": list(found.unpriced),
        "prices_as_of": table.as_of,
        "roles": [
            {"role": role.role.value, "models": [model.label for model in role.models]}
            | _figures(role)
            for role in found.roles
        ],
        "assumptions": assumptions,
    }


def _figures(part: CostEstimate | RoleEstimate) -> dict[str, Any]:
    cost = part.cost_usd
    return {
        "calls": round(part.calls.high),
        "calls_likely": round(part.calls.likely),
        "input_tokens": round(part.input_tokens.likely),
        "output_tokens": round(part.output_tokens.likely),
        "cost_usd_low": None if cost is None else cost.low,
        "cost_usd_likely": None if cost is None else cost.likely,
        "cost_usd_high": None if cost is None else cost.high,
    }


def _partly_known(found: CostEstimate) -> bool:
    return not found.unpriced or found.known_usd.high > 0


def _show(found: CostEstimate, table: PriceTable, assumptions: list[str], title: str) -> None:
    from accelopt.cli.output import print_table

    rows = [
        _row(role.role.value, ", ".join(model.label for model in role.models), role, role.cost_usd)
        for role in found.roles
    ]
    rows.append(_row("total", "", found, found.cost_usd))
    if found.unpriced and _partly_known(found):
        known = found.known_usd
        rows[-1][-3:] = [f"at least {_usd(x)}" for x in (known.low, known.likely, known.high)]
    print_table(
        _COLUMNS, rows, title=title, right=_COLUMNS[2:], flexible=["model"], optional=["model"]
    )
    typer.echo("calls are the most there can be, tokens the likely ones")
    for line in assumptions:
        typer.echo(f"- {line}")
    source = f", {table.source}" if table.source else ""
    own = "; prices of your own win" if table.own else ""
    typer.echo(f"- prices as of {table.as_of}{source}{own}")
    for label in found.unpriced:
        typer.echo(
            f"note: the price of {label} is not known; write it to a file and give that with"
            f' --prices FILE: [models] "{label}" = {{ input = USD, output = USD }}, per million'
            " tokens"
        )
    tokens = found.input_tokens.likely + found.output_tokens.likely
    typer.echo(
        f"at most {found.calls.high:,.0f} model calls, about {tokens / 1e6:.3g} million tokens,"
        f" {_total(found)}"
    )


def _row(
    name: str, models: str, part: CostEstimate | RoleEstimate, cost: Spread | None
) -> list[str]:
    figures = [part.calls.high, part.input_tokens.likely, part.output_tokens.likely]
    costs = (
        [_UNKNOWN] * 3 if cost is None else [_usd(x) for x in (cost.low, cost.likely, cost.high)]
    )
    return [name, models, *(f"{figure:,.0f}" for figure in figures), *costs]


def _total(found: CostEstimate) -> str:
    cost = found.cost_usd
    if cost is not None:
        if not cost.high:
            return "0 USD"
        return f"{_usd(cost.low)} to {_usd(cost.high)} USD (likely {_usd(cost.likely)})"
    if _partly_known(found):
        return f"at least {_usd(found.known_usd.low)} USD"
    return "USD unknown"


def _usd(value: float) -> str:
    """US dollars for people: what is not free does not read as zero."""
    return "0" if value == 0 else f"{value:,.2f}" if value >= 0.1 else f"{value:.2g}"
