"""The detail panel of the picture: a few dozen instructions with their names and lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelopt_simulator.latency.critical_path import WAIT_NAMES, CriticalPath
from accelopt_simulator.latency.execution import Execution, Wait
from accelopt_simulator.latency.explain import wait_text
from accelopt_simulator.timeline.drawing import (
    FAINT,
    INK,
    clean,
    line,
    rect,
    shorten,
    text,
    text_width,
    ticks,
)
from accelopt_simulator.timeline.lanes import Lane, lane_of, rows
from accelopt_simulator.timeline.palette import CLASSES, LIGHT, NAMES, classes_of

DETAIL_LANE = 92
"""Height of a lane with its distance to the next."""
BAR = 80
MAX_BARS = 1500
"""Bars of a lane: a window of odd shape may hold more than a picture should."""
NAME_SIZE, TURNED_SIZE = 9.0, 8.0


def draw_detail(
    execution: Execution,
    among: list[Lane],
    path: CriticalPath,
    window_us: tuple[float, float],
    *,
    source_lines: Sequence[str],
    x: float,
    y: float,
    width: float,
) -> list[str]:
    """The lanes of `window_us`, the critical path through them, and a time axis.

    Args:
        execution, among, path: the run, its lanes and its critical path.
        window_us: what to show.
        source_lines: the kernel's text by line, for tooltips.
        x, y, width: where the panel goes, in pixels.
    """
    low, high = (1e3 * t for t in window_us)
    scale = width / (high - low)
    classes = classes_of(execution)
    backgrounds, content = [], []
    for position, lane in enumerate(among):
        top = y + DETAIL_LANE * position
        backgrounds.append(rect(x, top, width, BAR, "#f5f5f5"))
        backgrounds.append(text(x - 8, top + BAR / 2 + 4, lane.name, anchor="end"))
        content.append(f'<g id="detail-{lane.name.replace(" ", "-")}">')
        start, end = execution.start_ns[lane.members], execution.end_ns[lane.members]
        seen = np.flatnonzero((end > low) & (start < high))[:MAX_BARS]
        row = rows(start[seen], end[seen])
        height = BAR / (int(row.max(initial=0)) + 1)
        left = x + scale * (np.maximum(low, start[seen]) - low)
        right = x + scale * (np.minimum(high, end[seen]) - low)
        for i, index in enumerate(lane.members[seen].tolist()):
            box = float(left[i]), top + height * int(row[i]), float(right[i] - left[i]), height
            content += _bar(execution, index, NAMES[int(classes[index])], box, source_lines)
        content.append("</g>")
    axis = _axis(window_us, x, y + DETAIL_LANE * len(among) - 4, width)
    # The path lies behind the bars, so that it crosses no name.
    behind = _path(execution, among, path, (low, high), x, y, width)
    return [*backgrounds, *behind, *content, *axis]


def _bar(
    execution: Execution,
    index: int,
    kind: str,
    box: tuple[float, float, float, float],
    source_lines: Sequence[str],
) -> list[str]:
    left, top, width, height = box
    op, number = execution.op_names[execution.op[index]], int(execution.line[index])
    tip = f"<title>{clean(_tooltip(execution, index, source_lines))}</title>"
    # A gap between neighbours, unless that would be all of the bar.
    drawn = max(width - 0.6, min(width, 0.6))
    bar = rect(left, top, drawn, height, CLASSES[kind], inside=tip)
    name = kind if kind in ("load", "store", "spill") else op
    ink = INK if kind in LIGHT else "#ffffff"
    return [bar, *_label(name, number, box, ink)]


def _label(name: str, number: int, box: tuple[float, float, float, float], ink: str) -> list[str]:
    """Name and line within a bar: side by side, one above the other, turned, or not at all."""
    left, top, width, height = box
    where = f"line {number}" if number else "compiler"
    if height < 26:
        both = f"{name}, {where}"
        words = both if text_width(both, NAME_SIZE) + 6 <= width else name
        if height < 11 or text_width(words, NAME_SIZE) + 6 > width:
            return []
        stacked = [(words, 3.0)]
    elif max(text_width(name, NAME_SIZE), text_width(where, NAME_SIZE)) + 6 <= width:
        stacked = [(name, -2.0), (where, 10.0)]
    else:
        return _turned_label(name, number, where, box, ink)
    middle, centre = left + width / 2, top + height / 2
    return [
        text(middle, centre + drop, words, size=NAME_SIZE, anchor="middle", fill=ink)
        for words, drop in stacked
    ]


def _turned_label(
    name: str, number: int, where: str, box: tuple[float, float, float, float], ink: str
) -> list[str]:
    left, top, width, height = box
    if height < 40 or width < 10:
        return []
    lines = [name, where] if width >= 22 else [f"{number} {name}" if number else name]
    first = left + width / 2 + 3 - 5 * (len(lines) - 1)
    return [
        text(
            first + 10 * i,
            top + height - 4,
            shorten(words, height - 8, TURNED_SIZE),
            size=TURNED_SIZE,
            fill=ink,
            turned=True,
        )
        for i, words in enumerate(lines)
    ]


def _tooltip(execution: Execution, index: int, source_lines: Sequence[str]) -> str:
    op, number = execution.op_names[execution.op[index]], int(execution.line[index])
    begin, end = execution.start_ns[index] / 1e3, execution.end_ns[index] / 1e3
    words = f"{op}, line {number}: {begin:.3f} to {end:.3f} us"
    cause = int(execution.cause[index])
    if cause >= 0:
        words += "; waited for " + wait_text(
            WAIT_NAMES[Wait(int(execution.wait[index]))],
            int(execution.line[cause]),
            execution.op_names[execution.op[cause]],
            elsewhere=bool(execution.engine[cause] != execution.engine[index]),
        )
    if 0 < number <= len(source_lines):
        words += f"; {source_lines[number - 1].strip()}"
    return words


def _path(
    execution: Execution,
    among: list[Lane],
    path: CriticalPath,
    window_ns: tuple[float, float],
    x: float,
    y: float,
    width: float,
) -> list[str]:
    low, high = window_ns
    seen = np.flatnonzero((path.to_ns > low) & (path.from_ns < high))
    on_lane = lane_of(execution, among)[path.instances[seen]]
    points = []
    for step, position in zip(seen.tolist(), on_lane.tolist(), strict=True):
        if position < 0:
            continue
        level = y + DETAIL_LANE * position + BAR + 5
        for at in (float(path.from_ns[step]), float(path.to_ns[step])):
            across = x + width * (min(high, max(low, at)) - low) / (high - low)
            points.append(f"{across:.1f},{level:.1f}")
    if not points:
        return []
    return [
        f'<polyline id="critical-path" fill="none" stroke="#000000" stroke-width="1.6" '
        f'stroke-linejoin="round" points="{" ".join(points)}"/>'
    ]


def _axis(window_us: tuple[float, float], x: float, y: float, width: float) -> list[str]:
    low, high = window_us
    parts = [line(x, y, x + width, y)]
    for value, label in ticks(low, high):
        at = x + width * (value - low) / (high - low)
        parts.append(line(at, y, at, y + 5, INK))
        parts.append(text(at, y + 17, label, size=10, anchor="middle"))
    parts.append(text(x + width + 8, y + 17, "us", size=10))
    parts.append(line(x, y + 22, x + width, y + 22, FAINT))
    return parts
