"""Strokes of an SVG: text, batches of bars, axes. Lengths in pixels."""

from __future__ import annotations

import math
from xml.sax.saxutils import escape

import numpy as np

from accelopt_simulator.latency.execution import Floats

FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"
INK = "#1a1a1a"
FAINT = "#d9d9d9"
CHAR_SHARE = 0.67
"""Width of a character over the font size: wide enough for common sans-serif fonts."""


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: float = 11,
    anchor: str = "start",
    fill: str = INK,
    bold: bool = False,
    turned: bool = False,
) -> str:
    """A line of text; `turned` ones read upwards from their point."""
    extra = ' font-weight="bold"' if bold else ""
    if turned:
        extra += f' transform="rotate(-90 {x:.1f} {y:.1f})"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
        f'fill="{fill}"{extra}>{clean(words)}</text>'
    )


def clean(words: str) -> str:
    """Text that XML takes: escaped, without control characters and lone surrogates."""
    kept = "".join(c if c.isprintable() else " " for c in words)
    return escape(kept, {'"': "&quot;"})


def text_width(words: str, size: float) -> float:
    """A safe guess of how wide a text is."""
    return len(words) * size * CHAR_SHARE


def shorten(words: str, width: float, size: float) -> str:
    """As much of a text as fits."""
    room = int(width / (size * CHAR_SHARE))
    return words if len(words) <= room else words[: max(0, room - 1)] + "…" if room > 2 else ""


def rect(
    x: float, y: float, width: float, height: float, fill: str, *, more: str = "", inside: str = ""
) -> str:
    """A rectangle; `inside` is markup, such as a `<title>`."""
    head = f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" fill="{fill}"'
    return f"{head}{more}>{inside}</rect>" if inside else f"{head}{more}/>"


def line(x1: float, y1: float, x2: float, y2: float, colour: str = INK, width: float = 1) -> str:
    """A straight line."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="{width:g}"/>'
    )


def bars(x: float, y: float, height: float, column_width: float, shade: Floats, fill: str) -> str:
    """Columns of one colour, as dark as `shade` (0 to 1) says; equal neighbours are one bar."""
    levels = np.ceil(np.clip(shade, 0.0, 1.0) * LEVELS - 1e-9).astype(np.int64)
    borders = np.flatnonzero(np.diff(levels)) + 1
    begins = np.concatenate(([0], borders)).tolist()
    stops = np.concatenate((borders, [len(levels)])).tolist()
    shapes: dict[int, list[str]] = {}
    for begin, stop in zip(begins, stops, strict=True):
        level = int(levels[begin])
        if level:
            left, width = x + begin * column_width, (stop - begin) * column_width
            shapes.setdefault(level, []).append(
                f"M{left:.6g} {y:.6g}h{width:.6g}v{height:g}h-{width:.6g}z"
            )
    return "".join(
        f'<path fill="{fill}" fill-opacity="{0.15 + 0.85 * level / LEVELS:.2f}" '
        f'd="{"".join(parts)}"/>'
        for level, parts in sorted(shapes.items())
    )


LEVELS = 8
"""Shades of a bar."""


def area(
    x: float, base: float, height: float, column_width: float, share: Floats, fill: str
) -> str:
    """A filled step curve; `share` is the height of each column, 0 to 1."""
    points = [f"M{x:.1f} {base:.1f}"]
    last = None
    for i, value in enumerate(np.clip(share, 0.0, 1.0).tolist()):
        level = base - height * value
        if last is None or abs(level - last) > 0.05:
            points.append(f"H{x + i * column_width:.1f}V{level:.1f}")
            last = level
    points.append(f"H{x + len(share) * column_width:.1f}V{base:.1f}Z")
    return f'<path fill="{fill}" fill-opacity="0.45" stroke="{fill}" d="{"".join(points)}"/>'


def ticks(low: float, high: float, most: int = 10) -> list[tuple[float, str]]:
    """Round values within `low .. high`, about as many as `most`, with their labels."""
    span = high - low
    if span <= 0:
        return []
    rough = span / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    values = [(first + i) * step for i in range(count)]
    return [(value, f"{value:.{decimals}f}") for value in values]
