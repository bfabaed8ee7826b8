"""The planner: finds what applies, orders it by the profile, writes one plan per index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from accelopt.errors import TaskError
from accelopt.requests import PlanRequest
from accelopt_rewriter.analysis import Kernel, read_kernel
from accelopt_rewriter.bottleneck import busy_fractions, share
from accelopt_rewriter.catalog import GROUPS, REWRITES
from accelopt_rewriter.plan import PlanStep, spec_of
from accelopt_rewriter.rewrite import REWRITING
from accelopt_rewriter.static import Value, parse_arguments

HEADLINE_CHARACTERS = 200
"""As much of a plan's first line as the list of tried plans keeps."""

_PAIRS = 4
"""How many of the best rewrites are offered together with a second one."""


@dataclass(frozen=True)
class Option:
    """One plan that changes the kernel.

    Attributes:
        steps: what it does.
        title: one line.
        kind: `one` rewrite everywhere, a `group`, a `pair`, one `site`, or `everything`.
        sites: where its first step applies now, one line each.
    """

    steps: tuple[PlanStep, ...]
    title: str
    kind: str
    sites: tuple[str, ...]

    @property
    def headline(self) -> str:
        """First line of the plan; the same whenever this plan is offered for this kernel."""
        return f"{spec_of(self.steps)}: {self.title}"[:HEADLINE_CHARACTERS]

    @property
    def relieves(self) -> frozenset[str]:
        """Engines that have less to do afterwards."""
        return frozenset().union(*(REWRITES[step.rewrite].relieves for step in self.steps))


def answer(request: PlanRequest) -> str:
    """The plan for a request."""
    arguments = tuple(parse_arguments(request.problem.arguments))
    tried = {line.strip() for line in request.tried}
    try:
        options = [o for o in ordered(request, arguments) if o.headline not in tried]
    except (SyntaxError, ValueError, TaskError) as error:
        return f"No rewrite applies: the kernel can't be read ({error}).\n\nrewrite: none\n"
    if request.index >= len(options):
        return (
            "No further rewrite applies to this kernel.\n\n"
            f"{len(options)} untried plans were found, and this is plan {request.index}.\n\n"
            "rewrite: none\n"
        )
    return _text(options[request.index], request)


def ordered(request: PlanRequest, arguments: tuple[Value | None, ...]) -> list[Option]:
    """Every plan for the kernel, the most promising first."""
    busy = busy_fractions(request.profile, request.bottleneck)

    def promise(option: Option) -> tuple[float, int, str]:
        # Rounded, so that noise in the counters does not reorder plans.
        first = REWRITES[option.steps[0].rewrite].priority
        return (-round(share(option.relieves, busy), 1), first, spec_of(option.steps))

    kinds: dict[str, list[Option]] = {}
    with REWRITING:
        found = find_options(request.kernel, arguments)
    for option in found:
        kinds.setdefault(option.kind, []).append(option)
    ranked = {kind: sorted(options, key=promise) for kind, options in kinds.items()}
    ones = ranked.get("one", [])
    deeper = [*ranked.get("group", [])[:1], *ranked.get("everything", [])]
    deeper += ranked.get("group", [])[1:]
    result: list[Option] = []
    # The best single rewrite first; then plans that reach deeper take turns with single ones, so
    # that a search with few plans per candidate still gets somewhere.
    for position in range(max(len(ones), len(deeper))):
        result += ones[position : position + 1] + deeper[position : position + 1]
    for kind in ("pair", "site"):
        result += ranked.get(kind, [])
    return result


@lru_cache(maxsize=64)
def find_options(text: str, arguments: tuple[Value | None, ...]) -> tuple[Option, ...]:
    """Every plan that changes the kernel. No two have the same steps."""
    kernel = read_kernel(text, arguments)
    found: dict[tuple[PlanStep, ...], Option] = {}

    def add(kind: str, steps: tuple[PlanStep, ...], title: str, sites: tuple[str, ...]) -> None:
        found.setdefault(steps, Option(steps, title, kind, sites))

    applicable: list[str] = []
    for name, rewrite in REWRITES.items():
        sites = rewrite.find(kernel)
        if not sites:
            continue
        applicable.append(name)
        lines = tuple(f"line {site.line}: {site.what}" for site in sites)
        add("one", (PlanStep(name),), rewrite.title, lines)
        if len(sites) > 1:
            for site, line in zip(sites, lines, strict=True):
                add("site", (PlanStep(name, f"L{site.line}"),), rewrite.title, (line,))
    for title, names in GROUPS.items():
        steps = _effective(text, names, arguments)
        if len(steps) > 1:
            add("group", steps, title, _places(kernel, steps))
    every = tuple(name for names in GROUPS.values() for name in names)
    steps = _effective(text, every, arguments)
    if len(steps) > 1:
        add("everything", steps, "carry out every group of rewrites", _places(kernel, steps))
    for first in sorted(applicable, key=lambda name: REWRITES[name].priority)[:_PAIRS]:
        later = read_kernel(REWRITES[first].apply_everywhere(text, arguments), arguments)
        for name, rewrite in REWRITES.items():
            if name != first and rewrite.find(later):
                title = f"{REWRITES[first].title}; then {rewrite.title}"
                pair = (PlanStep(first), PlanStep(name))
                add("pair", pair, title, _places(kernel, pair))
    return tuple(found.values())


def _effective(
    text: str, names: Sequence[str], arguments: tuple[Value | None, ...]
) -> tuple[PlanStep, ...]:
    """Those of the rewrites that change the kernel, carried out one after the other."""
    steps = []
    for name in names:
        after = REWRITES[name].apply_everywhere(text, arguments)
        if after != text:
            steps.append(PlanStep(name))
            text = after
    return tuple(steps)


def _places(kernel: Kernel, steps: Sequence[PlanStep]) -> tuple[str, ...]:
    places = []
    for step in steps:
        sites = REWRITES[step.rewrite].find(kernel)
        where = ", ".join(f"line {site.line}" for site in sites) or "after the steps before it"
        places.append(f"{step.rewrite}: {where}")
    return tuple(places)


def _text(option: Option, request: PlanRequest) -> str:
    busy = busy_fractions(request.profile, request.bottleneck)
    engines = sorted(option.relieves - {"latency"}, key=lambda e: (-busy.get(e, 0.0), e))
    load = ", ".join(f"{e} {100 * min(busy[e], 1.0):.0f} %" for e in engines if busy.get(e))
    lines = [option.headline, "", "Why:"]
    for step in option.steps:
        rewrite = REWRITES[step.rewrite]
        lines.append(f"- {step.rewrite}: {rewrite.why}.")
    if load:
        lines.append(f"- Busy now: {load}.")
    lines += ["", "What:"]
    lines += [f"- {REWRITES[step.rewrite].title}." for step in option.steps]
    lines += ["", "Where:"]
    lines += [f"- {site}" for site in option.sites]
    lines += ["", f"rewrite: {spec_of(option.steps)}", ""]
    return "\n".join(lines)
