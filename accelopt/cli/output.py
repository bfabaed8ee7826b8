"""How commands print: tables and lines for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Characters: the widest table a pipe may get.
UNBOUNDED = 10_000


def console(*, stderr: bool = False) -> Console:
    """A rich console; colour and width follow the terminal."""
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def print_json(data: Any) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    right: Sequence[str] = (),
    flexible: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> None:
    """A table that fits the terminal: `optional` columns are left out in their order, then
    `flexible` ones folded. In a pipe or a file
    the table is as wide as it needs to be."""
    from rich.measure import Measurement

    out = console()
    dropped: list[str] = []
    for name in (None, *optional):
        if name is not None:
            dropped.append(name)
        table = _table(columns, rows, title, right, flexible, dropped)
        width = Measurement.get(out, out.options.update(max_width=UNBOUNDED), table).maximum
        if width <= out.width or not out.is_terminal:
            break
    if not out.is_terminal:
        # A file or a pipe has no width to respect.
        out.width = max(width, out.width)
    out.print(table)


def _table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str,
    right: Sequence[str],
    flexible: Sequence[str],
    dropped: Sequence[str],
) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    kept = [index for index, name in enumerate(columns) if name not in dropped]
    for name in (columns[index] for index in kept):
        table.add_column(
            name,
            justify="right" if name in right else "left",
            overflow="fold",
            no_wrap=name not in flexible,
        )
    for row in rows:
        table.add_row(*(_escape(row[index]) for index in kept))
    return table


def print_facts(facts: Mapping[str, str], *, stderr: bool = False) -> None:
    """Aligned `name  value` lines; never wrapped, so that paths can be copied."""
    width = max(len(name) for name in facts)
    out = console(stderr=stderr)
    for name, value in facts.items():
        out.print(f"[bold]{name:<{width}}[/]  {_escape(value)}", soft_wrap=True)


def _escape(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def shapes(extents: Sequence[tuple[int, ...]]) -> str:
    """Array shapes for people; equal neighbours are counted: `4 of 10944x2048`."""
    parts: list[str] = []
    for shape, group in groupby(extents):
        count = len(list(group))
        text = "x".join(map(str, shape))
        parts.append(text if count == 1 else f"{count} of {text}")
    return ", ".join(parts)


def microseconds(value: float | None) -> str:
    """A latency for people."""
    if value is None:
        return "-"
    return f"{value / 1000:.3f} ms" if value >= 1000 else f"{value:.1f} us"


def percent(value: float | None) -> str:
    """A percentage for people."""
    return "-" if value is None else f"{value:.1f} %"


def factor(value: float | None) -> str:
    """A speedup for people."""
    return "-" if value is None else f"{value:.2f}x"


def short_path(path: str) -> str:
    """A path for people: relative when it lies below the working directory."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def duration(seconds: float) -> str:
    """A duration for people."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def dollars(value: float) -> str:
    """A sum of money for people."""
    return f"{value:.2f} USD" if value >= 1 else f"{value:.4f} USD"
