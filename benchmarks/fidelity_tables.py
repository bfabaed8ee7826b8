"""Tables of what fidelity.py found, and the document that they stand in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fidelity_plot

from accelopt.errors import ConfigError
from accelopt.files import write_atomic
from accelopt_simulator.latency.parameters import FITTED

DOCS = Path(__file__).parents[1] / "docs"
DOCUMENT, FIGURE = DOCS / "latency-model.md", DOCS / "fidelity.svg"
SHORT = {
    "hbm_read_bytes": "HBM read",
    "hbm_write_bytes": "HBM write",
    "spill_save_bytes": "spill save",
    "spill_reload_bytes": "spill reload",
    "hardware_flops": "FLOPs",
    "transpose_flops": "transpose FLOPs",
    "scalar_engine_active_time_percent": "scalar",
    "vector_engine_active_time_percent": "vector",
    "gpsimd_engine_active_time_percent": "gpsimd",
}
LIMITS = {
    "hbm": "10 %",
    "spill": "15 % on gqa_full, bmm_softmax and lora; a factor of two elsewhere; 0 where none",
    "hardware": "exact",
    "transpose": "exact",
}
Report = Mapping[str, Any]
Rows = Iterable[Sequence[str]]


def text(found: Report) -> str:
    """All tables."""
    parts = [
        f"Calibration {found['calibration']}",
        *(f"**{title}**\n\n{body}" for title, body in _sections(found).items() if body),
    ]
    return "\n\n".join(parts)


def write_document(found: Report) -> None:
    """Rewrite the generated parts of the document, and draw its figure.

    Raises:
        ConfigError: the document lacks a marker.
    """
    body = DOCUMENT.read_text(encoding="utf-8")
    for name, table in ({"parameters": _parameters(found)} | _sections(found)).items():
        pattern = rf"(<!-- generated: {re.escape(name)} -->\n).*?(<!-- /generated -->)"
        body, count = re.subn(
            pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", body, flags=re.DOTALL
        )
        if count != 1:
            raise ConfigError(f"{DOCUMENT} has no place for the table `{name}`")
    write_atomic(DOCUMENT, body)
    write_atomic(FIGURE, fidelity_plot.draw(found))


def _sections(found: Report) -> dict[str, str]:
    return {
        "kernels": _tasks(found),
        "counters": _counters(found),
        "counter limits": _limits(found),
        "families": _families(found),
        "other kernels": _entries(found),
        "pairs": _pairs(found),
        "not scored": _unscored(found),
        "not covered": _missing(found),
    }


def _parameters(found: Report) -> str:
    rows = [
        (f"`{p.name}`", p.meaning, f"{p.prior:g}", f"{found['fitted'][p.name]:g}", p.unit, p.source)
        for p in FITTED
    ]
    return _table("parameter|meaning|>prior|>value|unit|where the prior comes from", rows)


def _tasks(found: Report) -> str:
    rows = [
        (
            name,
            f"{row['measured_us']:,.1f}",
            f"{row['predicted_us']:,.1f}",
            _percent(row["error"]),
            "" if row["held_out_us"] is None else f"{row['held_out_us']:,.1f}",
            _percent(row["held_out_error"]),
        )
        for name, row in found["tasks"].items()
    ]
    table = _table("kernel|>measured µs|>predicted µs|>error|>left out µs|>error", rows)
    words = (
        f"Mean error {_size(found['mean_abs_error'])}, worst {_size(found['worst_abs_error'])}, "
        f"Kendall tau {_number(found['kendall_tau'])}. "
    )
    if found["loo_mean_abs_error"] is not None:
        words += (
            f"Each left out of its fit: mean {_size(found['loo_mean_abs_error'])}, Kendall tau "
            f"{_number(found['loo_kendall_tau'])}. "
        )
    words += (
        f"{found['inside_interval']} of {len(found['tasks'])} measurements lie inside the stated "
        "80 % interval."
    )
    return f"{table}\n\n{words}"


def _counters(found: Report) -> str:
    counters = found["counters"]
    names = list(dict.fromkeys(name for c in counters.values() for name in c["tasks"]))
    rows = [
        [name, *(_counter(c, counters[c]["tasks"].get(name)) for c in counters)] for name in names
    ]
    head = "|".join(f">{SHORT[counter]}" for counter in counters)
    return _table(f"kernel|{head}", rows) if names else ""


def _counter(counter: str, cell: Report | None) -> str:
    if cell is None:
        return ""
    mark = "" if cell["ok"] else " ✗"
    if "percent" in counter:
        return f"{100 * cell['predicted']:.1f} / {100 * cell['published']:.1f}{mark}"
    if cell["error"] is None:
        return f"{cell['predicted']:,.0f} B, not 0{mark}"
    if cell["predicted"] == cell["published"]:
        return "0" if cell["predicted"] == 0 else "="
    decimals = 1 if abs(cell["error"]) >= 0.001 else 3
    return f"{100 * cell['error']:+.{decimals}f} %{mark}"


def _limits(found: Report) -> str:
    rows = [
        (
            SHORT[name],
            LIMITS.get(name.split("_")[0], "10 points of active time"),
            f"{counter['within']} of {counter['of']}",
        )
        for name, counter in found["counters"].items()
    ]
    return _table("counter|near means within|>near", rows) if rows else ""


def _families(found: Report) -> str:
    rows = [
        (
            name,
            str(family["count"]),
            _size(family["mean_abs_error"]),
            _size(family["worst_abs_error"]),
            _number(family["kendall_tau"]),
            _number(family["spearman_rho"]),
            f"{family['inside_interval']} of {family['count']}",
        )
        for name, family in found["families"].items()
    ]
    head = "family|>kernels|>mean error|>worst|>Kendall tau|>Spearman rho|>in the 80 % interval"
    return _table(head, rows) if rows else ""


def _entries(found: Report) -> str:
    entries = [e for family in found["families"].values() for e in family["entries"].items()]
    return _measured(entries)


def _unscored(found: Report) -> str:
    return _measured([(row["measurement"], row) for row in found["unscored"]], notes=True)


def _measured(entries: Sequence[tuple[str, Report]], *, notes: bool = False) -> str:
    rows = [
        (
            name,
            row["file"],
            row["device"],
            f"{row['measured_us']:,.1f}",
            f"{row['predicted_us']:,.1f}",
            _percent(row["error"]),
            *((row["note"],) if notes else ()),
        )
        for name, row in entries
    ]
    head = "measurement|kernel|device|>measured µs|>predicted µs|>error"
    return _table(head + ("|why not scored" if notes else ""), rows) if rows else ""


def _pairs(found: Report) -> str:
    pairs = found["pairs"]
    rows = []
    for pair in pairs["rows"]:
        sign = "right" if pair["sign_right"] else "wrong"
        verdict = "tie" if pair["tie"] else sign
        fast = pair["fast"]
        # The same row read in two ways.
        if len({other["file"] for other in pairs["rows"] if other["fast"] == fast}) > 1:
            fast += f" ({pair['file']})"
        rows.append(
            (
                fast,
                pair["slow"],
                f"{pair['published_ratio']:.3f}",
                f"{pair['predicted_ratio']:.3f}",
                f"{pair['lowest_ratio']:.3f} to {pair['highest_ratio']:.3f}",
                _percent(pair["ratio_error"]),
                {True: "as published", False: "differs", None: "unknown"}[pair["traffic_matches"]],
                verdict if pair["counted"] or pair["tie"] else f"({verdict})",
            )
        )
    if not rows:
        return ""
    head = (
        "kernel|against|>published ratio|>predicted|>over 14 fits|>error|traffic as published|sign"
    )
    words = (
        f"{pairs['signs_right']} of {pairs['counted']} counted signs are right; the mean error of "
        f"their ratios is {_size(pairs['mean_abs_ratio_error'])}."
    )
    return f"{_table(head, rows)}\n\n{words}"


def _missing(found: Report) -> str:
    rows = [(f["measurement"], f"could not be traced: {f['why']}") for f in found["failed"]]
    rows += [(item["measurement"], item["why"]) for item in found["not_covered"]]
    return _table("measurement|why", rows) if rows else "None."


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %"


def _size(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _table(head: str, rows: Rows) -> str:
    """A Markdown table; columns whose name starts with `>` stand to the right."""
    columns = head.split("|")
    lines = [
        "| " + " | ".join(column.lstrip(">") for column in columns) + " |",
        "|" + "|".join("--:" if column.startswith(">") else "---" for column in columns) + "|",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)
