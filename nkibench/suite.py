"""The suite: every folder under `tasks/` is a task. Adding a task means adding a folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from accelopt import Suite
from nkibench.loader import TaskFolder, read_folder

TASKS = Path(__file__).parent / "tasks"


def folders(root: Path = TASKS) -> list[TaskFolder]:
    """All task folders, in the order of the published table.

    Raises:
        TaskError: a `task.toml` can't be used.
    """
    found = [read_folder(file.parent) for file in root.glob("*/task.toml")]
    return sorted(found, key=lambda folder: (folder.number, folder.path.name))


def suite(root: Path = TASKS) -> Suite:
    """Task name -> factory, variants included. A factory reads files; it draws nothing."""
    return {
        name: partial(folder.build, name.partition("@")[2])
        for folder in folders(root)
        for name in folder.names
    }
