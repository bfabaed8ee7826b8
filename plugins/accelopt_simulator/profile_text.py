"""A kernel's predicted profile for people, and for a model's prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from accelopt.cli.output import console, microseconds, percent, print_facts, print_table
from accelopt_simulator.kernel_profile import KernelProfile
from accelopt_simulator.latency.explain import EngineTime, LineShare, RooflinePosition

__all__ = ["KernelProfile", "engine_bar", "latency_range", "prompt_text", "show_profile", "size"]

BAR_WIDTH = 40
PROMPT_BAR_WIDTH = 20
BAR_MARKS = "█▓░·"
"""Busy, waiting for data, waiting for space, idle: of falling weight, so no colour is needed."""
PROMPT_MARKS = "#ds."
BAR_COLOURS = ("green", "yellow", "red", "bright_black")
PROMPT_SOURCE = 60
"""Characters of a source line in a prompt."""
SOURCE = 48
PROMPT_LINES, PROMPT_NOTES, PROMPT_ITEMS = 10, 3, 5


def latency_range(latency_us: float, low_us: float, high_us: float) -> str:
    """`893 us (830-950)`, or `2.205 ms (2.051-2.337)`."""
    if latency_us >= 1000:
        latency, low, high = (f"{us / 1e3:.4g}" for us in (latency_us, low_us, high_us))
        return f"{latency} ms ({low}-{high})"
    latency, low, high = (
        f"{us:.0f}" if us >= 100 else f"{us:.3g}" for us in (latency_us, low_us, high_us)
    )
    return f"{latency} us ({low}-{high})"


def engine_bar(times: EngineTime, width: int, marks: str = BAR_MARKS) -> str:
    """A bar of `width` characters: busy, waiting for data, waiting for space, idle."""
    return "".join(mark * count for mark, count in zip(marks, _counts(times, width), strict=True))


def _counts(times: EngineTime, width: int) -> list[int]:
    """Characters of each part, rounded so that they fill the width exactly."""
    total = times.total_us
    if total <= 0:
        return [0, 0, 0, width]
    parts = [
        width * us / total
        for us in (
            times.busy_us, times.waiting_for_data_us, times.waiting_for_space_us, times.idle_us,
        )
    ]  # fmt: skip
    counts = [int(part) for part in parts]
    rest = sorted(range(4), key=lambda i: counts[i] - parts[i])
    for i in rest[: width - sum(counts)]:
        counts[i] += 1
    return counts


def _shares(times: EngineTime) -> tuple[float, float, float, float]:
    total = times.total_us or 1.0
    return (
        100 * times.busy_us / total,
        100 * times.waiting_for_data_us / total,
        100 * times.waiting_for_space_us / total,
        100 * times.idle_us / total,
    )


def size(count: float) -> str:
    """A number of bytes for people."""
    for factor, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"


def _trim(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 3].rstrip() + "..."


def _what_if(profile: KernelProfile) -> list[tuple[str, float, float]]:
    return [(label, us, profile.change_percent(us)) for label, us in profile.what_if]


def _roofline(position: RooflinePosition) -> str:
    intensity = position.intensity_flops_per_byte
    where = "no memory traffic" if intensity is None else f"{intensity:.3g} FLOP/byte"
    return (
        f"{where} (balance {position.balance_flops_per_byte:.3g}), "
        f"{position.achieved_flops_per_s / 1e12:.3g} of "
        f"{position.attainable_flops_per_s / 1e12:.3g} attainable TFLOP/s, "
        f"HBM at {100 * position.hbm_share:.0f} % of its bandwidth"
    )


def show_profile(profile: KernelProfile, heading: Mapping[str, str]) -> None:
    """The profile for people.

    Args:
        profile: what to show.
        heading: facts to put first, such as task and backend.
    """
    facts = dict(heading)
    facts["latency"] = latency_range(profile.latency_us, profile.low_us, profile.high_us)
    if profile.percent_of_peak is not None:
        facts["of peak"] = percent(profile.percent_of_peak)
    facts["bound by"] = profile.bound
    if profile.roofline is not None:
        facts["roofline"] = _roofline(profile.roofline)
    print_facts(facts)
    _show_engines(profile)
    _show_lines(profile)
    if profile.what_if:
        rows = [
            [label, microseconds(us), f"{change:+.1f} %"] for label, us, change in _what_if(profile)
        ]
        print_table(["if", "latency", "change"], rows, right=["latency", "change"])
    if profile.spills:
        rows = [[name, size(saved), size(again)] for name, (saved, again) in _spills(profile)]
        print_table(["spilled", "saved", "reloaded"], rows, right=["saved", "reloaded"])
    for note in profile.notes:
        console().print(f"note: {note}", soft_wrap=True, markup=False)


def _spills(profile: KernelProfile) -> list[tuple[str, tuple[float, float]]]:
    return sorted(profile.spills.items(), key=lambda item: -sum(item[1]))


def _show_engines(profile: KernelProfile) -> None:
    from rich.text import Text

    out = console()
    out.print()
    for name, times in profile.engine_times.items():
        row = Text(f"{name:<7} ")
        counts = _counts(times, BAR_WIDTH)
        for mark, count, colour in zip(BAR_MARKS, counts, BAR_COLOURS, strict=True):
            row.append(mark * count, style=colour)
        busy, data, space, idle = _shares(times)
        row.append(
            f" {busy:3.0f} % busy, {data:3.0f} % data, {space:3.0f} % space, {idle:3.0f} % idle"
        )
        out.print(row, soft_wrap=True)
    meanings = ("busy", "waits for data", "waits for buffer space", "idle")
    legend = "  ".join(f"{mark} {words}" for mark, words in zip(BAR_MARKS, meanings, strict=True))
    out.print(f"{'':<7} {legend}", soft_wrap=True)


def _show_lines(profile: KernelProfile) -> None:
    rows = [
        [
            str(share.line) if share.line else "-",
            percent(100 * share.share),
            microseconds(share.path_us),
            ", ".join(share.engines),
            share.wait_text,
            _trim(profile.source(share.line) or ", ".join(share.ops), SOURCE),
        ]
        for share in profile.lines
    ]
    print_table(
        ["line", "of the time", "on path", "engine", "mostly waits for", "source"],
        rows,
        title="Lines that hold the critical path",
        right=["line", "of the time", "on path"],
        flexible=["mostly waits for"],
        optional=["on path", "engine"],
    )


def prompt_text(profile: KernelProfile) -> str:
    """The profile for a model's prompt: plain text, at most 25 lines."""
    lines = [_prompt_head(profile)]
    lines.append("Engines over time (# busy, d waits for data, s waits for buffer space, . idle):")
    for name, times in profile.engine_times.items():
        busy, data, space, idle = _shares(times)
        lines.append(
            f"  {name:<6} {engine_bar(times, PROMPT_BAR_WIDTH, PROMPT_MARKS)} busy {busy:.0f} %, "
            f"data {data:.0f} %, space {space:.0f} %, idle {idle:.0f} %"
        )
    if profile.lines:
        lines.append("Lines on the critical path (share of the time):")
    lines += [_prompt_line(profile, share) for share in profile.lines[:PROMPT_LINES]]
    if profile.what_if:
        parts = [f"{_one_line(label)}: {change:+.0f} %" for label, _, change in _what_if(profile)]
        lines.append("Change of the latency if: " + _some(parts))
    if profile.spills:
        parts = [
            f"{_one_line(name)} ({size(saved)} saved, {size(again)} reloaded)"
            for name, (saved, again) in _spills(profile)
        ]
        lines.append("Spilled from SBUF: " + _some(parts))
    if profile.roofline is not None:
        lines.append("Roofline: " + _roofline(profile.roofline))
    lines += [f"Note: {_one_line(note)}" for note in profile.notes[:PROMPT_NOTES]]
    return "\n".join(lines)


def _prompt_head(profile: KernelProfile) -> str:
    words = f"Latency {latency_range(profile.latency_us, profile.low_us, profile.high_us)}"
    if profile.percent_of_peak is not None:
        words += f", {profile.percent_of_peak:.1f} % of peak"
    by = (
        "no single engine (latency)"
        if profile.bound == "latency"
        else f"the {profile.bound} engine"
    )
    return f"{words}, bound by {by}."


def _prompt_line(profile: KernelProfile, share: LineShare) -> str:
    where = f"line {share.line}" if share.line else "no line"
    source = _one_line(profile.source(share.line)) or ", ".join(share.ops)
    return (
        f"  {where}: {100 * share.share:.0f} %, {'/'.join(share.engines)}, waits for "
        f"{share.wait_text}: {_trim(source, PROMPT_SOURCE)}"
    )


def _some(parts: Sequence[str]) -> str:
    more = len(parts) - PROMPT_ITEMS
    return "; ".join(parts[:PROMPT_ITEMS]) + (f"; and {more} more" if more > 0 else "")


def _one_line(words: str) -> str:
    return " ".join(words.split())
