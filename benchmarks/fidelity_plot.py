"""Predicted against measured latency, as a scatter plot in SVG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any
from xml.sax.saxutils import escape

SIZE, LEFT, TOP, RIGHT, BOTTOM = 660, 76, 58, 24, 60
LOW_US, HIGH_US = 80.0, 80_000.0
TICKS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
BAND = 1.2
RADIUS, LINE, LETTER = 5.0, 13.0, 7.0

BASELINE = ("14 NKIBench baselines (fitted; filled)", "#1f4e9c", "circle")
STYLES = {
    "nkibench-best": ("NKIBench, optimised kernels", "#b3261e", "triangle"),
    "aws-mamba": ("AWS Mamba kernels", "#c77700", "circle"),
    "aws-matmul-trn2": ("AWS matmul kernels, Trainium 2", "#2e7d32", "square"),
}
OTHER = ("other kernels", "#6a1b9a", "diamond")


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    width: float
    height: float

    def overlap(self, other: _Box) -> float:
        """Common area."""
        wide = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        high = min(self.top + self.height, other.top + other.height) - max(self.top, other.top)
        return max(0.0, wide) * max(0.0, high)


def draw(found: Mapping[str, Any]) -> str:
    """The figure."""
    side = SIZE
    width, height = LEFT + side + RIGHT, TOP + side + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif" '
        'font-size="12" fill="#222">',
        "<title>Predicted against measured latency</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="16" font-weight="bold">'
        "Predicted against measured latency</text>",
        f'<text x="{LEFT}" y="43" fill="#555">Baselines: mean error '
        f"{100 * found['mean_abs_error']:.1f} %"
        + (
            f", {100 * found['loo_mean_abs_error']:.1f} % when left out of the fit"
            if found["loo_mean_abs_error"] is not None
            else ""
        )
        + "</text>",
        *_grid(),
    ]
    points: list[tuple[float, float]] = []
    for name, family in found["families"].items():
        style = STYLES.get(name, OTHER)
        for row in family["entries"].values():
            points.append((_x(row["measured_us"]), _y(row["predicted_us"])))
            parts.append(_mark(*points[-1], style, filled=False))
    own = {
        name: (_x(row["measured_us"]), _y(row["predicted_us"]))
        for name, row in found["tasks"].items()
    }
    styles = [BASELINE, *(STYLES.get(name, OTHER) for name in found["families"])]
    legend = _Box(LEFT + 14, TOP + 14, 272, 20 * (len(styles) + 1) + 12)
    parts += _labels(own, [*points, *own.values()], legend)
    parts += [_mark(*point, BASELINE, filled=True) for point in own.values()]
    parts += _legend(styles, legend)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _x(value: float) -> float:
    return LEFT + SIZE * math.log(value / LOW_US) / math.log(HIGH_US / LOW_US)


def _y(value: float) -> float:
    return TOP + SIZE - (_x(value) - LEFT)


def _grid() -> list[str]:
    low, high = LOW_US, HIGH_US
    corners = [(low, low), (low, low * BAND), (high / BAND, high), (high, high)]
    corners += [(high, high / BAND), (low * BAND, low)]
    band = " ".join(f"{_x(a):.1f},{_y(b):.1f}" for a, b in corners)
    parts = [f'<polygon points="{band}" fill="#e4ebf5"/>']
    for tick in TICKS:
        at, up = _x(tick), _y(tick)
        words = f"{tick:,} µs" if tick < 1_000 else f"{tick // 1_000} ms"
        parts += [
            f'<path d="M{at:.1f} {TOP}V{TOP + SIZE}M{LEFT} {up:.1f}H{LEFT + SIZE}" '
            'stroke="#ddd" fill="none"/>',
            f'<text x="{at:.1f}" y="{TOP + SIZE + 18}" text-anchor="middle">{words}</text>',
            f'<text x="{LEFT - 8}" y="{up + 4:.1f}" text-anchor="end">{words}</text>',
        ]
    middle = TOP + SIZE / 2
    return [
        *parts,
        f'<path d="M{LEFT} {TOP + SIZE}L{LEFT + SIZE} {TOP}" stroke="#7a8ca8" fill="none"/>',
        f'<rect x="{LEFT}" y="{TOP}" width="{SIZE}" height="{SIZE}" fill="none" stroke="#888"/>',
        f'<text x="{LEFT + SIZE / 2}" y="{TOP + SIZE + 44}" text-anchor="middle">measured</text>',
        f'<text x="20" y="{middle}" text-anchor="middle" '
        f'transform="rotate(-90 20 {middle})">predicted</text>',
    ]


def _mark(x: float, y: float, style: tuple[str, str, str], *, filled: bool) -> str:
    _, colour, shape = style
    paint = f'stroke="{colour}" stroke-width="1.5" fill="{colour if filled else "none"}"'
    r = RADIUS
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" {paint}/>'
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "triangle": [(0, -1.2 * r), (1.1 * r, 0.8 * r), (-1.1 * r, 0.8 * r)],
        "diamond": [(0, -1.3 * r), (1.3 * r, 0), (0, 1.3 * r), (-1.3 * r, 0)],
    }[shape]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon points="{points}" {paint}/>'


def _labels(
    own: Mapping[str, tuple[float, float]], points: Sequence[tuple[float, float]], legend: _Box
) -> list[str]:
    """Names beside their points, each where it covers least, with a line where it is far."""
    taken = [_Box(x - 8, y - 8, 16, 16) for x, y in points] + [legend]
    frame = _Box(LEFT, TOP, SIZE, SIZE)
    parts = []
    for name, (x, y) in sorted(own.items(), key=lambda item: item[1]):
        width = LETTER * len(name) + 4
        best, least = _Box(0, 0, 0, 0), math.inf
        for distance, turn in product((12, 24, 40, 60, 85, 115), range(16)):
            angle = 2 * math.pi * turn / 16
            dx, dy = math.cos(angle), -math.sin(angle)
            # The nearest edge of the box stands at that distance.
            left = x + distance * dx - width * (1 - dx) / 2
            top = y + distance * dy - LINE * (1 - dy) / 2
            box = _Box(left, top, width, LINE)
            outside = width * LINE - box.overlap(frame)
            cost = 50 * (sum(box.overlap(other) for other in taken) + outside)
            cost += distance + (8 if abs(dx + dy) > 1.2 else 0)  # not along the diagonal
            if cost < least:
                best, least = box, cost
        taken.append(best)
        near_x = min(max(x, best.left), best.left + best.width)
        near_y = min(max(y, best.top), best.top + best.height)
        if math.hypot(near_x - x, near_y - y) > 16:
            parts.append(f'<path d="M{x:.1f} {y:.1f}L{near_x:.1f} {near_y:.1f}" stroke="#9aa7bb"/>')
        parts.append(
            f'<text x="{best.left + 2:.1f}" y="{best.top + LINE - 3:.1f}" '
            f'fill="{BASELINE[1]}">{escape(name)}</text>'
        )
    return parts


def _legend(styles: Sequence[tuple[str, str, str]], box: _Box) -> list[str]:
    parts = [
        f'<rect x="{box.left}" y="{box.top}" width="{box.width}" height="{box.height}" '
        'fill="white" stroke="#bbb"/>'
    ]
    for at, style in enumerate(styles):
        y = box.top + 18 + 20 * at
        parts.append(_mark(box.left + 18, y, style, filled=style is BASELINE))
        parts.append(f'<text x="{box.left + 34}" y="{y + 4}">{escape(style[0])}</text>')
    y = box.top + 18 + 20 * len(styles)
    parts += [
        f'<rect x="{box.left + 8}" y="{y - 6}" width="20" height="12" fill="#e4ebf5"/>',
        f'<path d="M{box.left + 8} {y}h20" stroke="#7a8ca8"/>',
        f'<text x="{box.left + 34}" y="{y + 4}">equal, and ±20 %</text>',
    ]
    return parts
