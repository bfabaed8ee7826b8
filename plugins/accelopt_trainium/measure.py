"""The measurement protocol: device time of warm launches, by the rule of the AccelOpt paper.

Two untimed launches, then ten under the profiler; the latency is the mean of their `total_time`. If
the slowest is more than 1 % above the fastest, the round is repeated after a pause, at most ten
times, and the round with the smallest spread counts (arXiv 2511.15915; its published code repeats
twice). Counters come from the launch nearest to that mean: a steady one, not the first.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from accelopt.errors import AcceloptError
from accelopt_trainium.compiler import Program
from accelopt_trainium.device import LoadedProgram
from accelopt_trainium.summary import Summary, parse_summary
from accelopt_trainium.tools import Tool

VIEW_S = 120.0
VIEWS_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a latency is measured.

    Attributes:
        warmups: untimed launches of each round.
        launches: profiled launches of each round.
        spread: (slowest - fastest) / fastest of a round that is good enough.
        repeats: further rounds at most.
        pause_s: before each further round.
    """

    warmups: int = 2
    launches: int = 10
    spread: float = 0.01
    repeats: int = 10
    pause_s: float = 1.0


@dataclass(frozen=True)
class Round:
    """The launches of one round.

    Attributes:
        latencies_us: one per launch.
        summaries: the profiler's, in the same order.
    """

    latencies_us: tuple[float, ...]
    summaries: tuple[Summary, ...]

    @property
    def latency_us(self) -> float:
        """The mean."""
        return statistics.fmean(self.latencies_us)

    @property
    def spread(self) -> float:
        """(slowest - fastest) / fastest."""
        return (max(self.latencies_us) - min(self.latencies_us)) / min(self.latencies_us)

    @property
    def steady(self) -> Summary:
        """The launch nearest to the mean."""
        nearest = min(
            range(len(self.latencies_us)),
            key=lambda index: abs(self.latencies_us[index] - self.latency_us),
        )
        return self.summaries[nearest]


@dataclass(frozen=True)
class Measurement:
    """The round that counts, and how many it took."""

    kept: Round
    rounds: int

    def words(self, protocol: Protocol) -> str:
        """What a reader must know about the figure."""
        spread = f"{100 * self.kept.spread:.2g} %"
        text = f"mean of {len(self.kept.latencies_us)} profiled launches, spread {spread}"
        if self.rounds > 1:
            text += f", the steadiest of {self.rounds} rounds"
        if self.kept.spread > protocol.spread:
            text += f"; above the {100 * protocol.spread:g} % that the protocol asks for"
        return text


class Meter:
    """Measures loaded programs with the profiler.

    Args:
        profiler: the tool.
        protocol: how.
    """

    def __init__(self, profiler: Tool, protocol: Protocol) -> None:
        self.profiler, self.protocol = profiler, protocol

    def measure(
        self, loaded: LoadedProgram, program: Program, folder: Path, deadline: float
    ) -> Measurement:
        """Measure by the protocol.

        Args:
            loaded: the program on its core.
            program: the same, as a file.
            folder: for profiles.
            deadline: `time.monotonic()` after which no further round begins.

        Raises:
            KernelFailedError: the program does not run to its end any more.
            AcceloptError: the profiler does not work.
        """
        protocol, best, rounds = self.protocol, None, 0
        while True:
            started = time.monotonic()
            now = self.one_round(loaded, program, folder, deadline, protocol.launches)
            rounds += 1
            if best is None or now.spread < best.spread:
                best = now
            took = time.monotonic() - started
            enough = best.spread <= protocol.spread or rounds > protocol.repeats
            if enough or time.monotonic() + protocol.pause_s + took > deadline:
                return Measurement(best, rounds)
            time.sleep(protocol.pause_s)

    def one_round(
        self, loaded: LoadedProgram, program: Program, folder: Path, deadline: float, launches: int
    ) -> Round:
        """Warm up, then profile some launches."""
        ntffs = [folder / f"launch{index}.ntff" for index in range(launches)]
        for ntff in ntffs:
            ntff.unlink(missing_ok=True)
        loaded.profile(ntffs, warmups=self.protocol.warmups)
        with ThreadPoolExecutor(min(VIEWS_AT_ONCE, len(ntffs))) as pool:
            # The launches are over: nothing that is timed runs beside these.
            viewed = pool.map(lambda ntff: self._view(program, ntff, folder, deadline), ntffs)
            summaries = tuple(viewed)
        return Round(tuple(1e6 * summary.total_time_s for summary in summaries), summaries)

    def _view(self, program: Program, ntff: Path, folder: Path, deadline: float) -> Summary:
        name = self.profiler.path.name
        if not ntff.is_file():
            raise AcceloptError(
                "the runtime wrote no profile of a launch",
                hint="the runtime's profiling does not work: see `accelopt doctor --backend`",
            )
        arguments = ["view", "--output-format", "summary-json", "-n", str(program.neff)]
        left = max(1.0, min(VIEW_S, deadline - time.monotonic()))
        arguments += ["-s", str(ntff)]
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            done = self.profiler.run(arguments, folder=Path(scratch), timeout_s=left)
        if done.timed_out:
            raise AcceloptError(
                f"{name} view did not end within {left:.0f} s",
                hint="try it by hand on a NEFF and NTFF; reinstall aws-neuronx-tools",
            )
        if done.code:
            raise AcceloptError(
                f"{name} view ended with code {done.code}: {done.last_words}",
                hint="tools and runtime may be of different SDK releases: see `accelopt doctor`",
            )
        return parse_summary(done.stdout, name)
