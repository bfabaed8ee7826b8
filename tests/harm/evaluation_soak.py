"""A soak of honest, broken and hostile kernels: every status is right, and nothing is left behind.

    python tests/harm/evaluation_soak.py --evaluations 2000 --seed 1

Evaluations are made from four threads through `backend.evaluate`, as a run does. In the first half
the soak also kills judges, and kills or stops the tracing server, while they work: what is judged
just then must be judged all the same. The second half shows what long use costs.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parent))

from soak_kernels import Attempt, attempts
from soak_resources import ENDED, JUDGE, SERVER, WRAPPER, Holdings, Observer
from surroundings import SECRET, World

from accelopt.attacks.ground import Ground, grounds
from accelopt.evaluation import Evaluation
from accelopt.kernel import KernelSource
from accelopt.plugins import installed
from accelopt_simulator import backend as backend_module
from accelopt_simulator.backend import SimulatorBackend
from accelopt_simulator.process.worker import WorkerLimits, WorkerPool

THREADS = 4
WARM_UP = 200
MARK_EVERY = 250
PROGRESS_EVERY = 100
DISTURB_EVERY = 25
GROWTH = 0.05
"""More memory at the end than after the warm-up, at most."""
MEMORY_BYTES = 1 << 30

# By turns: two judges killed at once could both be those of one evaluation, which is then to blame.
DISTURBANCES = [
    (JUDGE, signal.SIGKILL), (SERVER, signal.SIGKILL),
    (JUDGE, signal.SIGTERM), (SERVER, signal.SIGSTOP),
    (JUDGE, signal.SIGSEGV), (SERVER, signal.SIGTERM),
]  # fmt: skip


@dataclass
class Report:
    """What came of a soak.

    Attributes:
        problems: what was wrong, one line each; empty is what we want.
        statuses: how often each kind of kernel ended in which status.
        groups: the same by group.
        disturbed: what was done to processes, and how often.
        marks: holdings after the warm-up, every so often, and at the end.
        seconds: from the first evaluation to the last.
    """

    problems: list[str] = field(default_factory=list)
    statuses: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    disturbed: Counter[str] = field(default_factory=Counter)
    marks: list[Holdings] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def groups(self) -> dict[str, Counter[str]]:
        found: dict[str, Counter[str]] = defaultdict(Counter)
        for (group, _), counts in self.statuses.items():
            found[group] += counts
        return dict(found)

    @property
    def undecided(self) -> dict[tuple[str, str], Counter[str]]:
        """Kinds that ended in more than one way."""
        return {kind: counts for kind, counts in self.statuses.items() if len(counts) > 1}


class OwnLimits:
    """Limits of a worker pool whose wall time is that of the thread that asks."""

    def __init__(self, limits: WorkerLimits) -> None:
        self.memory_bytes = limits.memory_bytes
        self._usual = limits.wall_s
        self.thread = threading.local()

    @property
    def wall_s(self) -> float:
        return getattr(self.thread, "wall_s", self._usual)


class Soak:
    """One soak of one backend."""

    def __init__(
        self,
        backend: SimulatorBackend,
        fields: dict[str, Ground],
        world: World,
        folder: Path,
        *,
        seed: int,
        say: Callable[[str], None],
    ) -> None:
        self.report = Report()
        self._fields = fields
        self._world = world
        self._backend = backend
        self._say = say
        self._rng = random.Random(seed)
        self._attempts = attempts(fields, dict(world.names), self._rng)
        self._lock = threading.Lock()
        self._done = 0
        self._bypassed: set[str] = set()
        self._disturbances = itertools.cycle(DISTURBANCES)
        self._timers: list[threading.Timer] = []
        # Tells our servers from those of others on this machine.
        memory = MEMORY_BYTES + os.getpid() * 4
        backend.configure(evaluation_timeout_s=60.0, workers=THREADS)
        backend._limits = replace(backend._limits, memory_bytes=memory)
        self._observer = Observer(folder, f'"memory_bytes": {memory},')
        self._before = self._observer.holdings(0)

    def run(
        self, evaluations: int, *, warm_up: int, disturb_until: int, disturb_every: int
    ) -> Report:
        """Make that many evaluations and take stock."""
        with self._without_screen():
            workers: WorkerPool = self._backend._start()[0]
            self._limits = OwnLimits(workers.limits)
            workers.limits = self._limits
            self._say(f"isolation level {workers.server.level}")
            for ground in self._fields.values():  # inputs and right answers are drawn and kept
                self._backend.evaluate(ground.task, ground.task.baseline)
            start = time.monotonic()
            marks = sorted({warm_up, evaluations, *range(MARK_EVERY, evaluations, MARK_EVERY)})
            for since, until in itertools.pairwise([0, *(m for m in marks if m >= warm_up)]):
                with ThreadPoolExecutor(THREADS) as threads:
                    chosen = range(warm_up + 1, disturb_until, disturb_every)
                    numbers = range(since, until)
                    for future in [threads.submit(self._one, n in chosen) for n in numbers]:
                        future.result()
                self._take_stock(until)
            self.report.seconds = time.monotonic() - start
        self._compare(evaluations)
        self._backend.close()
        self._check_closed()
        return self.report

    def _one(self, disturbed: bool) -> None:
        """The next evaluation; with `disturbed`, a process is killed while it runs."""
        with self._lock:
            attempt = next(self._attempts)
            if attempt.bypass:
                self._bypassed.add(attempt.source.text)
            if disturbed:
                self._disturb_soon()
        self._limits.thread.wall_s = attempt.wall_s
        task = self._fields[attempt.ground].task
        start = time.monotonic()
        try:
            found = self._backend.evaluate(task, attempt.source)
            problem, status = _problem(attempt, found), found.status.value
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            problem, status = f"raised {type(error).__name__}: {error}", "raised"
        seconds = time.monotonic() - start
        with self._lock:
            self._bypassed.discard(attempt.source.text)
            self.report.statuses[attempt.group, attempt.name][status] += 1
            self._done += 1
            if problem:
                self._found(f"{attempt.group}, {attempt.name}: {problem} ({seconds:.1f} s)")
            if self._done % PROGRESS_EVERY == 0:
                self._progress()

    def _found(self, problem: str) -> None:
        self.report.problems.append(f"after {self._done}: {problem}")
        self._say(f"PROBLEM {self.report.problems[-1]}")

    def _progress(self) -> None:
        total: Counter[str] = sum(self.report.statuses.values(), Counter())
        self._say(f"{self._done:5d} done, statuses {dict(sorted(total.items()))}")

    # Processes killed and stopped.

    def _disturb_soon(self) -> None:
        role, number = next(self._disturbances)
        timer = threading.Timer(self._rng.uniform(0, 0.2), self._disturb, (role, number))
        timer.start()
        self._timers.append(timer)

    def _disturb(self, role: str, number: signal.Signals) -> None:
        running = self._observer.of_role(role)
        # Candidates have the command line of their server, which is older.
        pid = None if not running else running[0] if role == SERVER else random.choice(running)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
                self.report.disturbed[f"{role} {number.name}"] += 1

    # Neither the screen nor the sandbox for the sources that bypass them.

    @contextlib.contextmanager
    def _without_screen(self) -> Iterator[None]:
        screen, request = backend_module.screen_source, backend_module.request_for

        def screen_others(text: str, entry: str = "") -> list[Any]:
            return [] if text in self._bypassed else screen(text, entry)

        def ask(task: Any, source: KernelSource) -> Any:
            return replace(request(task, source), guarded=source.text not in self._bypassed)

        with (
            mock.patch.object(backend_module, "screen_source", screen_others),
            mock.patch.object(backend_module, "request_for", ask),
        ):
            yield

    # What is held.

    def _take_stock(self, done: int) -> None:
        for timer in self._timers:
            timer.join()
        self._timers.clear()
        try:
            self._world.check_untouched()
        except AssertionError as error:
            self._found(f"a kernel changed something outside: {error}")
        self.report.marks.append(self._observer.holdings(done))
        self._say(self.report.marks[-1].line())

    def _compare(self, evaluations: int) -> None:
        first, last = self.report.marks[0], self.report.marks[-1]
        total = sum(counts.total() for counts in self.report.statuses.values())
        if total != evaluations:
            self._found(f"{evaluations} evaluations were asked for, {total} were answered")
        for mark in self.report.marks:
            roles = Counter(p.role for p in mark.processes)
            # What was killed while it had nothing to do is collected when it is needed.
            most = {SERVER: 1, WRAPPER: 2, JUDGE: THREADS, ENDED: THREADS + 1}
            if roles - Counter(most):
                self._found(f"processes at {mark.done}: {mark.processes}")
        for what, was, now in [
            ("descriptors", first.descriptors.total(), last.descriptors.total()),
            ("threads", first.threads, last.threads),
            ("temporary files", len(first.files), len(last.files)),
        ]:
            if now > was:
                self._found(f"{was} {what} after the warm-up, {now} at the end")
        sizes = [mark.with_judges(THREADS) for mark in (first, last)]
        for what, before, now in zip(("resident", "own"), *sizes, strict=True):
            growth = now / before - 1
            self._say(f"{what} memory at the end against that after the warm-up: {growth:+.1%}")
            if growth > GROWTH:
                self._found(f"{growth:.1%} more {what} memory at the end than after the warm-up")

    def _check_closed(self) -> None:
        after = self._observer.holdings(self._done)
        self._say(f"after close: {after.line()}")
        if after.processes:
            self._found(f"processes after closing: {after.processes}")
        if after.files != self._before.files:
            left = sorted(set(after.files) - set(self._before.files))
            self._found(f"files after closing: {left}")
        if after.descriptors != self._before.descriptors:
            self._found(f"descriptors: {self._before.descriptors} before, {after.descriptors} now")
        if after.threads > self._before.threads:
            self._found(f"threads after closing: {threading.enumerate()}")


def _problem(attempt: Attempt, found: object) -> str:
    """What is wrong with an evaluation; empty when nothing is."""
    if not isinstance(found, Evaluation):
        return f"returned {found!r}"
    status = found.status.value
    if found.source_sha256 != attempt.source.sha256:
        return "the evaluation of another kernel"
    if status not in attempt.ends:
        return f"{status} instead of {sorted(attempt.ends)}: {found.diagnostics[:2]}"
    if found.correct != (status == "ok"):
        return f"{status} and correct {found.correct}"
    if status != "ok" and not found.diagnostics:
        return f"{status} without a diagnostic"
    return "it found out the secret" if SECRET in found.model_dump_json() else ""


@contextlib.contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    """A folder for all temporary files, so that every one of them is seen."""
    with (
        tempfile.TemporaryDirectory(prefix="soak-") as name,
        mock.patch.object(tempfile, "tempdir", name),
    ):
        yield Path(name)


def soak(
    evaluations: int,
    *,
    seed: int,
    backend: str = "sim-trn1",
    warm_up: int = WARM_UP,
    disturb_until: int | None = None,
    disturb_every: int = DISTURB_EVERY,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Make a soak.

    Args:
        evaluations: how many.
        seed: decides on the order.
        backend: name of a simulator backend.
        warm_up: evaluations before memory is first looked at.
        disturb_until: processes are killed up to there, from the warm-up on; by default half-way.
        disturb_every: evaluations between two of these.
        say: told what happens.
    """
    judge = installed().backend(backend)
    assert isinstance(judge, SimulatorBackend), f"{backend} is not a simulator backend"
    with _own_temporary_folder() as folder, grounds() as fields:
        world = World()
        try:
            made = Soak(judge, fields, world, folder, seed=seed, say=say)
            return made.run(
                evaluations,
                warm_up=min(warm_up, evaluations),
                disturb_until=evaluations // 2 if disturb_until is None else disturb_until,
                disturb_every=disturb_every,
            )
        finally:
            judge.close()
            world.close()


def main() -> int:
    """Run it and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--evaluations", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="sim-trn1")
    options = parser.parse_args()
    start = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:6.1f} s  {text}", flush=True)

    report = soak(options.evaluations, seed=options.seed, backend=options.backend, say=say)
    rate = options.evaluations / report.seconds
    print(f"\n{options.evaluations} evaluations in {report.seconds:.0f} s, {rate:.1f} per second")
    for group, counts in report.groups.items():
        print(f"  {group:16s} {counts.total():5d}  {dict(counts.most_common())}")
    print("ended in more than one way:")
    for (group, name), counts in sorted(report.undecided.items()):
        print(f"  {group}, {name}: {dict(counts)}")
    print(f"disturbed: {dict(report.disturbed)}")
    for mark in report.marks:
        print(mark.line())
    print(f"{len(report.problems)} problems", *report.problems, sep="\n  ")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
