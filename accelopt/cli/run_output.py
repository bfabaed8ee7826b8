"""How a run's result is printed: for people, and as the stable JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from accelopt.cli.output import (
    console,
    dollars,
    duration,
    factor,
    microseconds,
    percent,
    print_facts,
    short_path,
)

if TYPE_CHECKING:
    from accelopt.device import DeviceSpec
    from accelopt.graphs import RunResult
    from accelopt.kernel import KernelTask
    from accelopt.run_store import RunStore


def result_data(
    result: RunResult, task: KernelTask, backend: str, device: DeviceSpec, store: RunStore
) -> dict[str, Any]:
    """The stable machine-readable form of a run's result."""
    from accelopt.device import percent_of_peak

    baseline_us, best_us = result.baseline_us, result.best_us
    return {
        "task": task.name,
        "backend": backend,
        "run": store.run_id,
        "run_folder": str(store.path.resolve()),
        "status": result.status,
        "message": result.message,
        "baseline_latency_us": baseline_us,
        "best_latency_us": best_us,
        "speedup": None if not baseline_us or not best_us else baseline_us / best_us,
        "comparison": None if result.comparison is None else result.comparison.model_dump(),
        "percent_of_peak_baseline": None
        if baseline_us is None
        else percent_of_peak(baseline_us, task.work, device),
        "percent_of_peak_best": None
        if best_us is None
        else percent_of_peak(best_us, task.work, device),
        "best_kernel": str(store.best_path.resolve()) if store.best_path.exists() else None,
        "best_candidate": result.best.id,
        "evaluations": result.evaluations,
        "reused_evaluations": result.reused_evaluations,
        "model_calls": result.model_calls,
        "input_tokens": result.input_tokens,
        "output_tokens": result.output_tokens,
        "cost_usd": result.cost_usd if not result.unpriced_calls else None,
        "unpriced_calls": result.unpriced_calls,
        "failures": dict(result.failures),
        "calibration": result.best.evaluation.calibration,
        "judged": dict(result.judged),
        "notes": list(result.best.evaluation.notes),
    }


def show_result(data: Mapping[str, Any], task: KernelTask, elapsed_s: float) -> None:
    """Print a result for people."""
    alone = " (of the bytes alone)" if task.work.from_bytes_alone else ""
    facts = {
        "task": f"{data['task']} on {data['backend']}",
        "baseline": microseconds(data["baseline_latency_us"]),
        "best": microseconds(data["best_latency_us"]),
        "speedup": factor(data["speedup"]),
        "of peak": f"{percent(data['percent_of_peak_baseline'])} before, "
        f"{percent(data['percent_of_peak_best'])} after{alone}",
        "effort": f"{evaluations_line(data)}, {data['model_calls']} model calls, "
        f"{duration(elapsed_s)}",
    }
    cost = cost_line(data)
    if cost:
        facts["cost"] = cost
    if data["failures"]:
        facts["failures"] = failures_line(data["failures"])
    if data["comparison"]:
        facts["verdict"] = verdict_line(data["comparison"])
    for label, words in data["judged"].items():
        # One line each, and none in place of a figure above.
        facts.setdefault(label, " ".join(words.split()))
    facts["best kernel"] = short_path(data["best_kernel"]) if data["best_kernel"] else "-"
    facts["run folder"] = short_path(data["run_folder"])
    print_facts(facts)
    for note in data["notes"]:
        console().print(f"note: {note}", markup=False, soft_wrap=True)


def verdict_line(comparison: Mapping[str, Any]) -> str:
    """The comparison with the baseline, with its grounds."""
    low, high = comparison["low"], comparison["high"]
    return f"{comparison['outcome']}, {low:.3f}x to {high:.3f}x ({comparison['method']})"


def evaluations_line(data: Mapping[str, Any]) -> str:
    """How many programs were judged, and how many had been before."""
    known = data["reused_evaluations"]
    return f"{data['evaluations']} evaluations" + (f" ({known} known before)" if known else "")


def cost_line(data: Mapping[str, Any]) -> str:
    """Tokens and money of a run; empty for one whose model costs nothing."""
    tokens = data["input_tokens"] + data["output_tokens"]
    unpriced = data["unpriced_calls"]
    if unpriced:
        price = f"price of {unpriced} of {data['model_calls']} calls unknown"
    elif data["cost_usd"]:
        price = dollars(data["cost_usd"])
    else:
        return ""
    return f"{tokens:,} tokens, {price}"


def failures_line(failures: Mapping[str, int]) -> str:
    """What went wrong with model calls, the most frequent first."""
    return ", ".join(f"{count} {kind}" for kind, count in failures.items())
