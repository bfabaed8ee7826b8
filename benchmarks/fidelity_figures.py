"""The figures that fidelity.py reports: errors, ranks, counters and pairs, as dictionaries."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fidelity_cases import Case
from scipy.stats import kendalltau, spearmanr

from accelopt.errors import ConfigError
from accelopt_simulator.latency.calibration import Calibration

NEAR, SAME_SPILL, POINTS, TRAFFIC, TIE = 0.10, 0.15, 0.10, 0.05, 0.005
WELL_KNOWN_SPILLS = ("gqa_full", "bmm_softmax", "lora")
"""Tasks whose spill bytes must come within `SAME_SPILL`; those of others within a factor of two."""

ACTIVE = tuple(f"{engine}_engine_active_time_percent" for engine in ("scalar", "vector", "gpsimd"))
EXTRA_PAIRS = (("aws-mamba-v1-4096x512", "aws-mamba-table-v3-4096x512"),)
"""(slow, fast) besides those of the index."""


@dataclass(kw_only=True)
class Outcome:
    """What the model says about a case."""

    case: Case
    predicted_us: float = math.nan
    interval_us: tuple[float, float] = (math.nan, math.nan)
    held_out_us: float | None = None
    profile: dict[str, Any] = field(default_factory=dict)
    folds_us: dict[str, float] = field(default_factory=dict)
    failure: str = ""

    @property
    def error(self) -> float:
        """Relative error of the latency."""
        return self.predicted_us / self.case.measured_us - 1

    @property
    def inside_interval(self) -> bool:
        """Whether the measurement lies in the stated interval."""
        return self.interval_us[0] <= self.case.measured_us <= self.interval_us[1]

    def row(self) -> dict[str, Any]:
        """For the report."""
        held_out = self.held_out_us
        return {
            "measurement": self.case.measurement,
            "file": self.case.file,
            "device": self.case.device,
            "measured_us": self.case.measured_us,
            "predicted_us": self.predicted_us,
            "error": self.error,
            "low_us": self.interval_us[0],
            "high_us": self.interval_us[1],
            "held_out_us": held_out,
            "held_out_error": held_out / self.case.measured_us - 1 if held_out else None,
            "note": self.case.note,
        }


def report(outcomes: Sequence[Outcome], fitted: Calibration, main: str) -> dict[str, Any]:
    """All figures. `main` is the family of the headline, or "" for all scored cases."""
    done = [o for o in outcomes if not o.failure and o.case.request is not None]
    scored = [o for o in done if o.case.scored]
    head = [o for o in scored if main in ("", o.case.family)]
    if not head:
        raise ConfigError("none of the measurements has a kernel that can be traced and scored")
    families = {o.case.family: None for o in scored if o.case.family != main}
    held_out = [o.held_out_us for o in head if o.held_out_us is not None]
    complete = len(held_out) == len(head)
    measured = [o.case.measured_us for o in head]
    return {
        "calibration": fitted.version,
        "fitted": fitted.fitted,
        **_errors([o.error for o in head]),
        "loo_mean_abs_error": _errors([h / m - 1 for h, m in zip(held_out, measured, strict=True)])[
            "mean_abs_error"
        ]
        if complete
        else None,
        "kendall_tau": _rank(kendalltau, [o.predicted_us for o in head], measured),
        "loo_kendall_tau": _rank(kendalltau, held_out, measured) if complete else None,
        "inside_interval": sum(o.inside_interval for o in head),
        "tasks": {o.case.name: o.row() for o in head},
        "counters": _counters(head),
        "families": {f: _family([o for o in scored if o.case.family == f]) for f in families},
        "unscored": [o.row() for o in done if not o.case.scored],
        "pairs": _pairs(done),
        "failed": [{"measurement": o.case.name, "why": o.failure} for o in outcomes if o.failure],
        "not_covered": [
            {"measurement": o.case.name, "why": o.case.note}
            for o in outcomes
            if o.case.request is None
        ],
    }


def _errors(errors: Sequence[float]) -> dict[str, float]:
    sizes = [abs(error) for error in errors]
    return {"mean_abs_error": sum(sizes) / len(sizes), "worst_abs_error": max(sizes)}


def _rank(statistic: Any, left: Sequence[float], right: Sequence[float]) -> float | None:
    if len(left) < 3:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant input: nothing to rank
        value = float(statistic(left, right).statistic)
    return None if math.isnan(value) else value


def _family(members: Sequence[Outcome]) -> dict[str, Any]:
    predicted = [o.predicted_us for o in members]
    measured = [o.case.measured_us for o in members]
    return {
        "count": len(members),
        **_errors([o.error for o in members]),
        "kendall_tau": _rank(kendalltau, predicted, measured),
        "spearman_rho": _rank(spearmanr, predicted, measured),
        "inside_interval": sum(o.inside_interval for o in members),
        "entries": {o.case.name: o.row() for o in members},
    }


def _counters(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """By counter: predicted and published values, and how many are near."""
    found = {}
    flops = ("hardware_flops", "transpose_flops")
    spills = ("spill_save_bytes", "spill_reload_bytes")
    for counter in ("hbm_read_bytes", "hbm_write_bytes", *spills, *flops, *ACTIVE):
        tasks = {}
        for outcome in outcomes:
            published = outcome.case.counters.get(counter)
            if counter in flops and published is None and "hbm_read_bytes" in outcome.case.counters:
                published = 0.0
            if published is None or (predicted := outcome.profile[counter]) is None:
                continue
            if counter in ACTIVE:
                published /= 100 if published > 1 else 1  # some sources give percent
                error = predicted - published
                limit = POINTS
            elif published == 0:
                error, limit = (0.0 if predicted == 0 else math.inf), 0.0
            elif counter in spills and outcome.case.fold not in WELL_KNOWN_SPILLS:
                error = predicted / published - 1
                limit = 1.0 if error > 0 else 0.5
            else:
                error = predicted / published - 1
                limit = SAME_SPILL if counter in spills else 1e-9 if counter in flops else NEAR
            tasks[outcome.case.name] = {
                "predicted": predicted,
                "published": published,
                "error": None if math.isinf(error) else error,
                "ok": bool(abs(error) <= limit),
            }
        if tasks:
            near = sum(task["ok"] for task in tasks.values())
            found[counter] = {"within": near, "of": len(tasks), "tasks": tasks}
    return found


def _pairs(done: Sequence[Outcome]) -> dict[str, Any]:
    """Predicted and published ratio of each pair, and how many signs are right."""
    by_id: dict[str, Outcome] = {}
    for outcome in sorted(done, key=lambda o: not o.case.scored):
        by_id.setdefault(outcome.case.measurement, outcome)
    wanted = [(by_id.get(o.case.pair or ""), o) for o in done if o.case.pair]
    wanted += [(by_id.get(slow), by_id[fast]) for slow, fast in EXTRA_PAIRS if fast in by_id]
    rows = [_pair(slow, fast) for slow, fast in wanted if slow is not None]
    judged = [row for row in rows if row["counted"] and not row["tie"]]
    return {
        "counted": len(judged),
        "signs_right": sum(row["sign_right"] for row in judged),
        "mean_abs_ratio_error": _errors([row["ratio_error"] for row in judged])["mean_abs_error"]
        if judged
        else None,
        "rows": rows,
    }


def _pair(slow: Outcome, fast: Outcome) -> dict[str, Any]:
    published = slow.case.measured_us / fast.case.measured_us
    predicted = slow.predicted_us / fast.predicted_us
    ratios = [slow.folds_us[fold] / fast.folds_us[fold] for fold in fast.folds_us]
    matches = [match for match in (_matches(slow), _matches(fast)) if match is not None]
    scored = slow.case.scored and fast.case.scored
    return {
        "slow": slow.case.measurement,
        "fast": fast.case.measurement,
        "file": fast.case.file,
        "published_ratio": published,
        "predicted_ratio": predicted,
        "ratio_error": predicted / published - 1,
        "lowest_ratio": min(ratios, default=predicted),
        "highest_ratio": max(ratios, default=predicted),
        "tie": abs(published - 1) < TIE,
        "sign_right": (predicted > 1) == (published > 1),
        "traffic_matches": all(matches) if matches else None,
        "counted": scored and all(matches),
    }


def _matches(outcome: Outcome) -> bool | None:
    """Whether bytes and FLOPs are the published ones; None when none are published."""
    if not outcome.case.traffic:
        return None
    profile = outcome.profile
    predicted = {
        "hbm_bytes": profile["hbm_read_bytes"] + profile["hbm_write_bytes"],
        "hardware_flops": profile["hardware_flops"],
    }
    return all(
        abs(predicted[name] / value - 1) <= TRAFFIC for name, value in outcome.case.traffic.items()
    )
