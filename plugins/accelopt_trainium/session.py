"""What evaluations share while a backend is in use; fixed before the first candidate runs."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from accelopt.errors import AcceloptError
from accelopt.install_key import install_key
from accelopt.kernel import KernelSource, KernelTask
from accelopt.task_data import TaskData
from accelopt_trainium.compiler import Compiler, Program
from accelopt_trainium.cores import CORES_VARIABLE, CorePool, allowed_cores
from accelopt_trainium.device import CoreBusyError, DeviceProcess
from accelopt_trainium.devices import Machine
from accelopt_trainium.locations import Locations
from accelopt_trainium.measure import Meter

BUSY_PAUSE_S = 1.0
LEASE_WAIT_S = 3600.0
"""An evaluation waits this long for a core; its own time counts from when it has one."""


class Session:
    """The machine, the tools and the folder of one session.

    Args:
        locations: where the SDK lies.
        target: device generation, `trn1` or `trn2`.
        machine: the chips.
        meter: measures, with a profiler that was found and hashed by now.
    """

    def __init__(self, locations: Locations, target: str, machine: Machine, meter: Meter) -> None:
        self.machine, self.meter = machine, meter
        self.cores = CorePool(allowed_cores(machine.cores))
        self.key = install_key()
        self._compiler = Compiler(locations, target)
        self._library = locations.library
        self._folder = Path(tempfile.mkdtemp(prefix="accelopt-trainium-"))
        self._lock = threading.Lock()
        self._data: tuple[str, TaskData] | None = None

    @contextmanager
    def program(
        self, task: KernelTask, source: KernelSource, timeout_s: float
    ) -> Iterator[tuple[Program, Path]]:
        """Compile in a fresh worker; the program and its folder are gone afterwards.

        Raises:
            CompilationError: the kernel is at fault.
        """
        place = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            core = self.cores.cores[0]
            yield (
                self._compiler.compile(task, source, place, timeout_s=timeout_s, core=core),
                place,
            )
        finally:
            shutil.rmtree(place, ignore_errors=True)

    @contextmanager
    def core(self, place: Path, timeout_s: float) -> Iterator[tuple[DeviceProcess, float]]:
        """Borrow a core and hold it with a process of its own.

        Args:
            place: folder for inputs, outputs and profiles.
            timeout_s: wall time once the core is there.

        Raises:
            AcceloptError: no core is to be had.
        """
        taken: set[int] = set()
        give_up = time.monotonic() + timeout_s
        while True:
            with self.cores.lease(wait_s=LEASE_WAIT_S, avoid=taken) as core:
                deadline = time.monotonic() + timeout_s
                try:
                    process = DeviceProcess(self._library, core, place, deadline)
                except CoreBusyError as busy:
                    self._wait_for_another(core, busy, taken, give_up)
                    continue
                try:
                    yield process, deadline
                finally:
                    process.close()
                return

    def _wait_for_another(
        self, core: int, busy: CoreBusyError, taken: set[int], give_up: float
    ) -> None:
        """Somebody else's process holds the core: the others first, then all again."""
        taken.add(core)
        if taken < set(self.cores.cores):
            return
        if time.monotonic() + BUSY_PAUSE_S > give_up:
            raise AcceloptError(
                f"{busy}; so is every other core that may be used",
                hint="`neuron-ls` names the processes; end them, or name free cores in "
                f"{CORES_VARIABLE}",
            )
        taken.clear()
        time.sleep(BUSY_PAUSE_S)

    def task_data(self, task: KernelTask) -> TaskData:
        """Inputs and right answers, drawn once and kept on disk."""
        with self._lock:
            if self._data is None or self._data[0] != task.fingerprint:
                self._data = (task.fingerprint, TaskData(task, self._folder))
            return self._data[1]

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)
