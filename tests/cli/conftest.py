"""Running the command line in this process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelopt.cli.main import main


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def data(self):
        return json.loads(self.out)


@pytest.fixture
def accelopt(capsys, tmp_path, monkeypatch):
    """Call the command line; the working directory is a temporary one."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Result:
        with pytest.raises(SystemExit) as exit_:
            main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Result(int(exit_.value.code or 0), captured.out, captured.err)

    return call


@pytest.fixture
def baseline(tmp_path) -> Path:
    """The baseline of silu as a file."""
    from accelopt.plugins import installed

    path = tmp_path / "silu.py"
    path.write_text(installed().task("silu@small").baseline.text)
    return path
