"""A predicted execution as one self-contained picture."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from accelopt_simulator.latency.critical_path import CriticalPath, critical_path
from accelopt_simulator.latency.execution import Execution, Floats, MemoryUse
from accelopt_simulator.timeline.detail import DETAIL_LANE, draw_detail
from accelopt_simulator.timeline.drawing import (
    CHAR_SHARE,
    FAINT,
    FONT,
    INK,
    area,
    bars,
    line,
    rect,
    shorten,
    text,
    text_width,
    ticks,
)
from accelopt_simulator.timeline.lanes import Lane, lane_of, lanes
from accelopt_simulator.timeline.palette import CLASSES, NAMES, classes_of
from accelopt_simulator.timeline.sampling import coverage, step_maxima, zoom_window

WIDTH = 1240
LEFT = 110
PLOT = 1060
COLUMNS = 1060
"""One per pixel: more bars than that say nothing."""
LANE, LANE_STEP, PATH = 20, 30, 3
MEMORY, MEMORY_STEP = 44, 58
TOP = 84
AXIS = 34
MEMORY_COLOURS = {"SBUF": "#3b6fb6", "PSUM": "#b6783b"}


def to_svg(
    execution: Execution,
    *,
    title: str,
    source_lines: Sequence[str] = (),
    latency_us: float | None = None,
    bound_by: str = "",
) -> str:
    """Lanes of the whole run, memory use below them, and a window of its steady state in detail.

    A pixel column of a lane has the colour of the class that takes most of it, as dark as the lane
    is busy; the black strip below a lane is as dark as the lane is on the critical path.

    Args:
        execution: the run.
        title: heading, such as `silu on trn1`.
        source_lines: the kernel's text by line, for tooltips.
        latency_us: predicted latency in microseconds, fixed overhead included; the makespan when
            None.
        bound_by: what bounds the kernel; empty to leave it out.
    """
    among = lanes(execution)
    path = critical_path(execution)
    span = execution.makespan_ns if execution.makespan_ns > 0 else 1.0
    edges = np.linspace(0.0, span, COLUMNS + 1)
    low, high = zoom_window(execution, among)
    detail_us = low / 1e3, (high if high > low else span) / 1e3
    parts = [*_heading(execution, title, latency_us, bound_by)]
    parts += _lanes(execution, among, path, edges)
    y = TOP + LANE_STEP * len(among)
    for name, use in (("SBUF", execution.sbuf), ("PSUM", execution.psum)):
        parts += _memory(name, use, edges, y)
        y += MEMORY_STEP
    parts += _axis(span / 1e3, y - 8, detail_us)
    y += AXIS + 40
    used = [lane for lane in among if len(lane.members)]
    parts += draw_detail(
        execution, used, path, detail_us, source_lines=source_lines, x=LEFT, y=y, width=PLOT
    )
    y += DETAIL_LANE * len(used) + AXIS + 24
    legend, height = _legend(execution, y)
    parts += legend
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
        f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="{FONT}">\n'
        f"{rect(0, 0, WIDTH, height, '#ffffff')}\n{body}\n</svg>\n"
    )


def duration(us: float) -> str:
    """A time for people."""
    return f"{us / 1e3:.4g} ms" if us >= 10_000 else f"{us:.4g} us"


def _heading(
    execution: Execution, title: str, latency_us: float | None, bound_by: str
) -> list[str]:
    makespan = execution.makespan_ns / 1e3
    facts = [f"latency {duration(makespan if latency_us is None else latency_us)}"]
    if bound_by:
        facts.append(f"bound by {bound_by}")
    facts.append(f"{len(execution)} instructions in {duration(makespan)}")
    if execution.repeats > 1:
        facts.append(f"this stretch stands for {execution.repeats:g} of its kind")
    return [
        text(16, 28, shorten(title, WIDTH - 32, 17), size=17, bold=True),
        text(16, 50, " · ".join(facts), size=12),
        text(LEFT + PLOT + 8, TOP - 8, "busy", size=10),
    ]


def _lanes(execution: Execution, among: list[Lane], path: CriticalPath, edges: Floats) -> list[str]:
    classes = classes_of(execution)
    on_lane = lane_of(execution, among)[path.instances]
    parts = []
    for position, lane in enumerate(among):
        y = TOP + LANE_STEP * position
        start, end = execution.start_ns[lane.members], execution.end_ns[lane.members]
        total = coverage(start, end, edges)
        of_lane = classes[lane.members]
        present = np.unique(of_lane)
        by_class = [coverage(start[of_lane == c], end[of_lane == c], edges) for c in present]
        winner = np.argmax(np.stack(by_class), axis=0) if by_class else np.zeros(len(total))
        parts.append(f'<g id="lane-{lane.name.replace(" ", "-")}" shape-rendering="crispEdges">')
        parts.append(rect(LEFT, y, PLOT, LANE, "#f5f5f5"))
        for i, code in enumerate(present.tolist()):
            shade = np.where(winner == i, total, 0.0)
            parts.append(bars(LEFT, y, LANE, PLOT / COLUMNS, shade, CLASSES[NAMES[code]]))
        steps = on_lane == position
        on_path = coverage(path.from_ns[steps], path.to_ns[steps], edges)
        parts.append(bars(LEFT, y + LANE + 1, PATH, PLOT / COLUMNS, on_path, "#000000"))
        parts.append("</g>")
        parts.append(text(LEFT - 8, y + 14, lane.name, anchor="end"))
        parts.append(text(LEFT + PLOT + 8, y + 14, f"{100 * total.mean():.0f} %", size=10))
    return parts


def _memory(name: str, use: MemoryUse, edges: Floats, y: float) -> list[str]:
    peak = float(use.bytes_per_partition.max(initial=0.0))
    capacity = max(float(use.capacity_bytes), 1.0)
    # What exceeds the capacity must be seen, not cut off.
    scale = max(capacity, peak)
    base = y + MEMORY
    limit = base - MEMORY * capacity / scale
    share = step_maxima(use, edges) / scale
    colour = MEMORY_COLOURS[name]
    return [
        rect(LEFT, y, PLOT, MEMORY, "#fafafa"),
        area(LEFT, base, MEMORY, PLOT / COLUMNS, share, colour),
        line(LEFT, limit, LEFT + PLOT, limit, "#888888"),
        line(LEFT, base, LEFT + PLOT, base, FAINT),
        text(LEFT - 8, y + 18, name, anchor="end"),
        text(LEFT - 8, y + 32, f"of {capacity / 1024:.4g} KiB", size=9, anchor="end"),
        text(LEFT + PLOT + 8, y + 18, "peak", size=10),
        text(LEFT + PLOT + 8, y + 31, f"{100 * peak / capacity:.0f} %", size=10),
    ]


def _axis(span_us: float, y: float, detail_us: tuple[float, float]) -> list[str]:
    unit, factor = ("ms", 1e3) if span_us >= 10_000 else ("us", 1.0)
    parts = [line(LEFT, y, LEFT + PLOT, y)]
    for value, label in ticks(0.0, span_us / factor):
        x = LEFT + PLOT * value * factor / span_us
        parts.append(line(x, y, x, y + 5))
        parts.append(text(x, y + 17, label, size=10, anchor="middle"))
    parts.append(text(LEFT + PLOT + 8, y + 17, unit, size=10))
    if detail_us[1] - detail_us[0] > 0.95 * span_us:
        return parts
    # Which part the panel below shows, as a wedge that opens towards it.
    left, right = (LEFT + PLOT * t / span_us for t in detail_us)
    top, bottom = y + 24, y + AXIS + 26
    parts.append(
        f'<path fill="#eeeeee" d="M{left:.1f} {top:.1f}H{max(right, left + 1):.1f}'
        f'L{LEFT + PLOT:.1f} {bottom:.1f}H{LEFT:.1f}Z"/>'
    )
    return parts


def _legend(execution: Execution, y: float) -> tuple[list[str], float]:
    present = np.unique(classes_of(execution)).tolist()
    parts = []
    x = float(LEFT)
    for code in present:
        name = NAMES[code]
        parts.append(rect(x, y - 9, 12, 12, CLASSES[name]))
        parts.append(text(x + 17, y + 1, name, size=10))
        x += 17 + text_width(name, 10) + 14
    path = "critical path (below each lane)"
    if x + 17 + len(path) * 10 * CHAR_SHARE > LEFT + PLOT:
        x, y = float(LEFT), y + 20
    parts.append(rect(x, y - 5, 12, PATH, INK))
    parts.append(text(x + 17, y + 1, path, size=10))
    return parts, y + 20
