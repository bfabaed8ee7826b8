"""The last result of the attack suite on a backend, kept with the user's data as evidence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from accelopt.files import write_atomic
from accelopt.paths import user_data_dir

if TYPE_CHECKING:
    from accelopt.backend import Backend


class AttackRecord(BaseModel):
    """Counts of one run of the suite.

    Attributes:
        created: ISO time.
        backend_version: of the judge that was attacked.
        attacks, blocked: attacks that were made, and that failed.
        twins, twins_passed: honest kernels beside them, and those that were accepted.
        not_applicable: hacks that can't be tried on this backend.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    created: str
    backend_version: str
    attacks: int
    blocked: int
    twins: int
    twins_passed: int
    not_applicable: int = 0

    @property
    def clean(self) -> bool:
        """Whether every attack was blocked and every twin passed."""
        return self.blocked == self.attacks and self.twins_passed == self.twins


def record_file(backend: Backend) -> Path:
    """Where the last result on a backend is kept."""
    return user_data_dir() / "attacks" / f"{re.sub(r'[^A-Za-z0-9._-]', '_', backend.name)}.json"


def save_attack(backend: Backend, record: AttackRecord) -> None:
    """Keep a result, in place of an earlier one."""
    path = record_file(backend)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, record.model_dump_json(indent=1) + "\n")


def last_attack(backend: Backend) -> AttackRecord | None:
    """The last result on this version of a backend; None if there is none."""
    try:
        text = record_file(backend).read_text(encoding="utf-8")
        record = AttackRecord.model_validate_json(text)
    except (OSError, ValidationError, UnicodeDecodeError):
        return None
    return record if record.backend_version == backend.version else None
