"""The key of this installation: what secret input seeds are derived from.

Whoever knows a kernel's input seeds in advance can write a kernel for just these. So the seeds of
the fresh and stress inputs come from a key that never leaves this machine: repeatable here, and not
to be guessed. The seeds themselves, not the key, are part of a kernel's evidence.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from accelopt.errors import ConfigError
from accelopt.paths import user_data_dir

KEY_BYTES = 32


def key_file() -> Path:
    """Where the key is kept."""
    return user_data_dir() / "install.key"


def install_key() -> bytes:
    """The key; made on first use, readable by its owner only.

    Raises:
        ConfigError: the file can't be read or written, or holds something else.
    """
    path = key_file()
    try:
        if not path.exists():
            _make(path)
        text = path.read_text(encoding="ascii").strip()
        key = bytes.fromhex(text)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"the key of this installation {path} can't be used: {error}",
            hint="delete the file (a new one is made), or make its folder writable",
        ) from error
    if len(key) != KEY_BYTES:
        raise ConfigError(
            f"the key of this installation {path} has {len(key)} bytes instead of {KEY_BYTES}",
            hint="delete the file; a new one is made",
        )
    return key


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".install.key.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(scratch, path)  # of two processes that make one, the first wins
    finally:
        os.unlink(scratch)


def derive_seed(key: bytes, *parts: str) -> int:
    """A seed below 2**32 for `parts`, by HMAC-SHA256."""
    digest = hmac.new(key, "\0".join(parts).encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:4], "little")
