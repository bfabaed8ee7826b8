"""What an optimization gave: kernels, their lineage, and what they cost."""

from __future__ import annotations

import html
from functools import cached_property
from pathlib import Path

from accelopt.candidate import Candidate, Experience, Plan
from accelopt.device import DeviceSpec, percent_of_peak
from accelopt.evidence import FOLDER as EVIDENCE_FOLDER
from accelopt.faster import Comparison
from accelopt.graphs import RunResult
from accelopt.kernel import KernelTask
from accelopt.run_store import RunStore


class Optimization:
    """The result of `accelopt.optimize`; its run folder holds it for good.

    Attributes:
        run_folder: the run folder.
        task: the task.
        result: counts and costs: `evaluations`, `model_calls`, `input_tokens`, `output_tokens`,
            `cost_usd`, `unpriced_calls`, `failures`.
    """

    def __init__(
        self, run_folder: Path, task: KernelTask, device: DeviceSpec, result: RunResult
    ) -> None:
        self.run_folder = run_folder
        self.task = task
        self.result = result
        self._device = device

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.run_folder.name

    @property
    def status(self) -> str:
        """`finished`, or `stopped` when it can be resumed."""
        return self.result.status

    @property
    def message(self) -> str:
        """Why it stopped; empty when it was asked to, or finished."""
        return self.result.message

    @property
    def baseline(self) -> Candidate:
        """The starting kernel, evaluated."""
        return self.result.baseline

    @property
    def best(self) -> Candidate:
        """The fastest correct kernel; the baseline when nothing was faster."""
        return self.result.best

    @property
    def best_kernel(self) -> Path:
        """File of the best kernel."""
        return self.run_folder / "best.py"

    @property
    def speedup(self) -> float | None:
        """Baseline latency / best latency; None without them.

        On a backend that measures, both are measured afresh when the search has ended.
        """
        before, after = self.result.baseline_us, self.result.best_us
        return before / after if before and after else None

    @property
    def comparison(self) -> Comparison | None:
        """Whether the best kernel is faster than the baseline; None when they are the same."""
        return self.result.comparison

    @property
    def evidence(self) -> Path:
        """Folder of the best kernel's evidence; `accelopt verify` judges it again."""
        return self.run_folder / EVIDENCE_FOLDER

    @property
    def cost_usd(self) -> float | None:
        """What the model calls cost in US dollars; None when the price of any is not known."""
        return None if self.result.unpriced_calls else self.result.cost_usd

    def percent_of_peak(self, candidate: Candidate) -> float | None:
        """A candidate's percent of the device's peak; None without a latency."""
        us = candidate.latency_us
        return None if us is None else percent_of_peak(us, self.task.work, self._device)

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Every candidate, the baseline first, then in the order of the search."""
        with RunStore.open(self.run_folder) as store:
            return store.candidates()

    @cached_property
    def plans(self) -> list[Plan]:
        """Every plan."""
        with RunStore.open(self.run_folder) as store:
            return store.plans()

    @cached_property
    def experiences(self) -> list[Experience]:
        """The lessons of this run."""
        with RunStore.open(self.run_folder) as store:
            return store.experiences()

    def lineage(self, candidate: Candidate | None = None) -> list[Candidate]:
        """How a candidate came about: from the baseline to it; by default the best one."""
        by_id = {known.id: known for known in self.candidates}
        line = [candidate or self.best]
        while line[-1].parent:
            line.append(by_id[line[-1].parent])
        return line[::-1]

    def __repr__(self) -> str:
        return (
            f"<Optimization {self.run_id}: {self.status}, {self.task.name},"
            f" {_us(self.result.baseline_us)} -> {_us(self.result.best_us)}>"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = {
            "task": self.task.name,
            "status": self.status + (f": {self.message}" if self.message else ""),
            "baseline": _us(self.result.baseline_us),
            "best": f"{_us(self.result.best_us)} ({self.best.id})",
            "speedup": "-" if self.speedup is None else f"{self.speedup:.2f}x",
            "verdict": "-" if self.comparison is None else self.comparison.outcome.value,
            "of peak": f"{_percent(self.percent_of_peak(self.baseline))} before, "
            f"{_percent(self.percent_of_peak(self.best))} after",
            "effort": f"{self.result.evaluations} evaluations, "
            f"{self.result.model_calls} model calls",
            "best kernel": str(self.best_kernel),
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
        )
        return f"<table>{cells}</table>"


def _us(latency_us: float | None) -> str:
    return "-" if latency_us is None else f"{latency_us:.1f} us"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"
