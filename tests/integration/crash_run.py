"""Runs a run folder in processes that a test kills.

`python crash_run.py` imports everything once, then forks a process for each line it reads, so that
a kill costs no start-up. Lines hold JSON: `folder` of the run, `log` of backend calls, `key`, by
which the server tells the processes apart. It answers with a line with the process id, and, once
that process has ended, with one with its exit status.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from functools import partial
from pathlib import Path

from accelopt.evaluation import Stage
from accelopt.evaluation_key import evaluation_key
from accelopt.plugins import installed
from accelopt.run_store import RunStore
from accelopt.session import run_store
from accelopt.testing import DummyBackend, dummy_task
from accelopt_graphs import services
from accelopt_graphs.model_calls import CallPolicy

DELAY_S = 0.04


class LoggingBackend(DummyBackend):
    """A backend that takes its time and notes when each call begins and ends."""

    def __init__(self, log):
        super().__init__(DELAY_S)
        self._log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def _run(self, task, source, stages, seeds):
        what = "numbers" if Stage.CORRECTNESS in stages else "estimate"
        if not seeds and Stage.LATENCY not in stages:
            what = "screen"
        line = {"key": evaluation_key(task, source, self), "what": what, "seeds": list(seeds)}
        self._note(line | {"at": "start"})
        evaluation = super()._run(task, source, stages, seeds)
        self._note(line | {"at": "end"})
        return evaluation

    def _note(self, line):
        # One write in append mode: whole, or not there.
        os.write(self._log, (json.dumps(line) + "\n").encode())


def run(folder, log, key):
    """Go on with a run until it ends, or this process does."""
    os.environ["OPENAI_API_KEY"] = key
    with RunStore.open(Path(folder)) as store:
        run_store(store, dummy_task(), backend=LoggingBackend(log))


def import_all():
    """What a run needs, so that no forked process has to import it."""
    import chromadb  # noqa: F401
    import langchain_core.rate_limiters  # noqa: F401

    import accelopt_graphs.build
    import accelopt_graphs.compatible_chat
    import accelopt_graphs.provider  # noqa: F401

    installed()
    services.CallPolicy = partial(CallPolicy, first_delay_s=0.005)


def main():
    """Serve until standard input ends."""
    import_all()
    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                run(**json.loads(line))
            except BaseException:  # noqa: BLE001 - the fork must not go on as its parent
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
