"""Runs tests as an ordinary user: `python as_user.py UID PYTEST-ARGUMENT...`, started as root.

Gives up the superuser for good, and only then starts what is under test.
"""

from __future__ import annotations

import os
import sys

import pytest

from accelopt.process import privileges


def main(uid: int, arguments: list[str]) -> int:
    """Become the user, then run pytest."""
    os.umask(0o022)
    privileges.drop(uid, uid)
    assert os.getresuid() == (uid,) * 3
    assert os.getgroups() == []
    return int(pytest.main(arguments))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
