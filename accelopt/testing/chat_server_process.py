"""The scripted chat server in a process of its own.

It outlives the process under test, so it is what a crash test asks about the calls that were made::

    with ChatServerProcess("tests/soak/script.py:answer") as server:
        ...  # start and kill clients of server.base_url
        assert len(server.requests()) == 7

The same from a shell, until its standard input ends::

    python -m accelopt.testing.chat_server_process MODULE:FUNCTION
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

from accelopt.errors import ConfigError
from accelopt.testing.chat_replies import Reply
from accelopt.testing.chat_server import ScriptedChatServer, ServerRequest


class ChatServerProcess:
    """Starts the server and stops it when the context ends.

    Args:
        script: the answering function: `module:function` or `path/to/file.py:function`.

    Raises:
        ConfigError: the server did not start.
    """

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None  # noqa: S101 - that is what PIPE means
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            self.close()
            raise ConfigError(f"the chat server with script {script!r} did not start")

    def requests(self) -> list[ServerRequest]:
        """The chat requests so far, in order of arrival."""
        url = self.base_url.removesuffix("/v1") + "/requests"
        with urllib.request.urlopen(url, timeout=30) as response:
            return [ServerRequest(**request) for request in json.load(response)]

    def close(self) -> None:
        """Stop the process."""
        # The end of its standard input ends it, also when this process is killed.
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def serve(script: str) -> None:
    """Print the base URL and serve until standard input ends.

    Raises:
        ConfigError: there is no such function.
    """
    server = ScriptedChatServer(_load(script))
    print(server.base_url, flush=True)
    try:
        sys.stdin.read()
    finally:
        server.close()


def _load(script: str) -> Callable[[ServerRequest], Reply]:
    place, _, name = script.rpartition(":")
    module = _module_of_file(Path(place)) if place.endswith(".py") else _module(place)
    function: Any = getattr(module, name, None)
    if not callable(function):
        raise ConfigError(f"no function {name!r} in {place!r}", hint="write MODULE:FUNCTION")
    answer: Callable[[ServerRequest], Reply] = function
    return answer


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"can't import {name!r}", hint="write MODULE:FUNCTION") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ConfigError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up while it is executed.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m accelopt.testing.chat_server_process MODULE:FUNCTION")
    try:
        serve(sys.argv[1])
    except ConfigError as error:
        sys.exit(str(error))
