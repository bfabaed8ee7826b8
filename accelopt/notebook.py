"""The live view of a run in a notebook: one output that is redrawn in place."""

from __future__ import annotations

import html
import sys
import time
from typing import TYPE_CHECKING, Any

from accelopt.cli.output import duration, factor, microseconds, percent
from accelopt.cli.progress import RunView

if TYPE_CHECKING:
    from accelopt.config import RunConfig
    from accelopt.events import Event

_LEAST_PAUSE_S = 0.2


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    # Not imported here: a process that has no IPython loaded is no notebook.
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"


class NotebookProgress:
    """An observer that shows a small table below the cell.

    Args:
        title: above the table.
        config: of the run.
    """

    def __init__(self, title: str, config: RunConfig) -> None:
        from IPython.display import HTML, display

        self.view = RunView(
            config.iterations, config.num_plans * config.num_samples, config.budget_usd
        )
        self._title = title
        self._html: Any = HTML
        self._shown_s = time.monotonic()
        self._handle: Any = display(HTML(self.table()), display_id=True)

    def observe(self, event: Event) -> None:
        """Take an event in; redraw, but not too often."""
        self.view.update(event)
        now_s = time.monotonic()
        if now_s - self._shown_s >= _LEAST_PAUSE_S:
            self._shown_s = now_s
            self._handle.update(self._html(self.table()))

    def close(self) -> None:
        """Show the last state, which stays."""
        self._handle.update(self._html(self.table()))

    def table(self) -> str:
        """The table as HTML."""
        view = self.view
        statuses = ", ".join(f"{count} {status}" for status, count in view.statuses.most_common())
        share = 100 * view.iteration_done / max(1, view.iteration_planned)
        rows = {
            "iteration": f"{view.iteration} of {view.iterations}",
            "attempts": f"{view.iteration_done} of {view.iteration_planned}",
            "evaluations": f"{view.evaluations} done, {view.running} running; {statuses or '-'}",
            "best": f"{microseconds(view.best_us)} ({factor(view.speedup)}, "
            f"{percent(view.baseline_percent)} before, {percent(view.best_percent)} of peak now)",
            "models": f"{view.model_calls} calls, {view.tokens:,} tokens, {view.lessons} lessons",
            "spent": view.cost,
            "time": duration(view.elapsed_s)
            + ("" if view.left_s is None else f", about {duration(view.left_s)} left"),
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{name}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in rows.items()
            if value
        )
        bar = f"<progress max='100' value='{share:.0f}' style='width:100%'></progress>"
        return f"<b>{html.escape(self._title)}</b>{bar}<table>{cells}</table>"
