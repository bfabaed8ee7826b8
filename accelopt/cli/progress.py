"""The live view of a run: an observer that draws, or prints plain lines without a terminal."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from accelopt.cli.output import console, dollars, duration, factor, microseconds, percent

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from accelopt.events import Event


class RunView:
    """What is known of a run, kept up to date by its events.

    Attributes:
        iteration, iterations: where the run is.
        attempts: finished attempts; many need no evaluation (no kernel, or a known one).
        evaluations: evaluations really made by this process.
        planned: attempts this run is expected to make in all.
        cost_usd: of the calls whose price is known, earlier sessions included once an iteration
            has ended.
        failures: calls and replies that went wrong.
    """

    def __init__(
        self, iterations: int, attempts_per_iteration: int, budget_usd: float | None = None
    ) -> None:
        self.started = time.monotonic()
        self.iteration = 0
        self.iterations = iterations
        self.attempts_per_iteration = attempts_per_iteration
        self.iteration_planned = 0
        self.iteration_done = 0
        self.attempts = 0
        self.evaluations = 0
        self.running = 0
        self.statuses: Counter[str] = Counter()
        self.model_calls = 0
        self.cached_calls = 0
        self.tokens = 0
        self.budget_usd = budget_usd
        self.cost_usd = 0.0
        self.failures: Counter[str] = Counter()
        self.baseline_us: float | None = None
        self.best_us: float | None = None
        self.baseline_percent: float | None = None
        self.best_percent: float | None = None
        self.lessons = 0

    def update(self, event: Event) -> None:
        """Take an event in."""
        kind = event["kind"]
        if kind == "iteration_started":
            self.iteration = event.get("iteration", self.iteration)
            self.iterations = event.get("iterations", self.iterations)
            self.iteration_planned = event.get("planned_evaluations", 0)
            self.iteration_done = 0
        elif kind == "evaluation_started":
            self.running += 1
        elif kind == "evaluation_finished":
            self._evaluated(event)
        elif kind == "model_call_finished":
            self.model_calls += 1
            self.cached_calls += bool(event.get("cached"))
            self.tokens += event.get("input_tokens", 0) + event.get("output_tokens", 0)
            if not event.get("cached"):
                self.cost_usd += event.get("cost_usd", 0.0)
        elif kind in ("model_call_failed", "reply_unusable"):
            self.failures[event.get("failure", "?")] += 1
        elif kind == "beam_selected":
            self.cost_usd = event.get("cost_usd", self.cost_usd)
        elif kind == "experience_added":
            self.lessons += 1

    def _evaluated(self, event: Event) -> None:
        self.attempts += 1
        if event.get("cached") is False:
            # The others were known from the journal, or had no kernel to judge.
            self.running = max(0, self.running - 1)
            self.evaluations += 1
        self.iteration_done += 1
        self.statuses[event.get("status", "?")] += 1
        latency = event.get("latency_us")
        if latency is None:
            return
        if event.get("candidate") == "baseline":
            self.baseline_us, self.baseline_percent = latency, event.get("percent_of_peak")
        if self.best_us is None or latency < self.best_us:
            self.best_us, self.best_percent = latency, event.get("percent_of_peak")

    @property
    def speedup(self) -> float | None:
        """Baseline latency / best latency."""
        return self.baseline_us / self.best_us if self.baseline_us and self.best_us else None

    @property
    def elapsed_s(self) -> float:
        """Seconds since the view was made."""
        return time.monotonic() - self.started

    @property
    def cost(self) -> str:
        """Money spent, against the budget where there is one; empty when nothing costs anything."""
        if self.budget_usd is not None:
            share = 100 * self.cost_usd / self.budget_usd
            return f"{dollars(self.cost_usd)} of {dollars(self.budget_usd)} ({share:.0f} %)"
        return dollars(self.cost_usd) if self.cost_usd else ""

    @property
    def left_s(self) -> float | None:
        """Expected seconds to go, from the share of iterations that are done; None at first."""
        if self.iteration == 0 or not self.iterations:
            return None
        inner = min(1.0, self.iteration_done / max(1, self.iteration_planned))
        done = (self.iteration - 1 + inner) / self.iterations
        return self.elapsed_s * (1 - done) / done if done > 0.02 else None


class PlainProgress:
    """Prints one line per iteration and per improvement."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self._out = console(stderr=True)

    def observe(self, event: Event) -> None:
        """Print what a reader of a log wants to know."""
        before = self.view.best_us
        self.view.update(event)
        kind = event["kind"]
        if kind == "iteration_started":
            self._line(f"iteration {self.view.iteration}/{self.view.iterations}")
        elif kind == "evaluation_finished" and self.view.best_us != before:
            self._line(
                f"{event.get('candidate', '')}: {microseconds(self.view.best_us)}, "
                f"{factor(self.view.speedup)}, {percent(self.view.best_percent)} of peak"
            )
        elif kind == "beam_selected":
            self._line(
                f"iteration {self.view.iteration} done: {self.view.attempts} attempts, "
                f"{self.view.evaluations} evaluations, "
                f"best {microseconds(self.view.best_us)}, {self.view.model_calls} model calls"
                + (f", {self.view.cost}" if self.view.cost else "")
            )
        elif kind in ("warning", "run_stopped") and event.get("message"):
            self._line(event["message"])

    def _line(self, text: str) -> None:
        self._out.print(
            f"[{duration(self.view.elapsed_s):>6}] {text}", markup=False, soft_wrap=True
        )

    def close(self) -> None:
        """Nothing to release."""


class LiveProgress:
    """Draws a small table that is redrawn in place."""

    def __init__(self, view: RunView, title: str) -> None:
        from rich.live import Live

        self.view = view
        self.title = title
        self._message = ""
        self._live: Live = Live(
            console=console(stderr=True), refresh_per_second=4, get_renderable=self._table
        )
        self._live.start()

    def observe(self, event: Event) -> None:
        """Take an event in; the next redraw shows it."""
        self.view.update(event)
        if event["kind"] == "warning":
            self._message = event.get("message", "")

    def close(self) -> None:
        """Stop redrawing; the last state stays on the screen."""
        self._live.stop()

    def _table(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        view = self.view
        table = Table.grid(padding=(0, 2))
        bar = _bar(view.iteration_done, view.iteration_planned)
        attempts = f"{view.iteration_done}/{view.iteration_planned}"
        statuses = "  ".join(f"{n} {status}" for status, n in view.statuses.most_common())
        left = view.left_s
        where = f"{view.iteration}/{view.iterations}  {bar} {attempts} attempts"
        rows = [
            ("iteration", where if view.iteration else "judging the starting kernel"),
            ("evaluations", f"{view.evaluations} done, {view.running} running   {statuses}"),
            (
                "best",
                f"{microseconds(view.best_us)}  ({factor(view.speedup)}, "
                f"{percent(view.baseline_percent)} -> {percent(view.best_percent)} of peak)",
            ),
            (
                "models",
                f"{view.model_calls} calls, {view.tokens} tokens, {view.lessons} lessons learned"
                + (f", {view.failures.total()} failures" if view.failures else ""),
            ),
            ("spent", view.cost),
            (
                "time",
                f"{duration(view.elapsed_s)}"
                + ("" if left is None else f", about {duration(left)} left"),
            ),
        ]
        if self._message:
            rows.append(("warning", self._message))
        table.add_row(Text(self.title, style="bold"))
        for name, value in rows:
            if not value:
                continue
            table.add_row(Text(f"{name:<12}", style="dim") + Text(value))
        return table


def _bar(done: int, planned: int, width: int = 20) -> str:
    filled = round(width * min(1.0, done / planned)) if planned else 0
    return "━" * filled + "─" * (width - filled)


def make_progress(
    title: str,
    *,
    iterations: int,
    attempts_per_iteration: int,
    budget_usd: float | None = None,
    live: bool | None = None,
) -> LiveProgress | PlainProgress:
    """A live view on a terminal, plain lines elsewhere; both write to standard error."""
    view = RunView(iterations, attempts_per_iteration, budget_usd)
    if live if live is not None else console(stderr=True).is_terminal:
        return LiveProgress(view, title)
    return PlainProgress(view)
