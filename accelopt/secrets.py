"""API keys: from the environment or a private file, and kept out of everything that is shown."""

from __future__ import annotations

import os
import threading
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import platformdirs

from accelopt.errors import ConfigError
from accelopt.paths import HOME_VARIABLE

KEY_FILE_VARIABLE = "ACCELOPT_KEY_FILE"
"""Environment variable that names another key file."""

_SERVERS = "servers"
_SECRET_ENDINGS = ("_API_KEY", "_TOKEN", "_SECRET")
_SHORTEST_SECRET = 8

_handed_out: set[str] = set()
_lock = threading.Lock()


def key_file() -> Path:
    """The file with the keys; it may not exist.

    `ACCELOPT_KEY_FILE`, else `keys.toml` in `ACCELOPT_HOME`, else in the user's configuration
    folder.
    """
    if named := os.environ.get(KEY_FILE_VARIABLE, ""):
        return Path(named).expanduser()
    if home := os.environ.get(HOME_VARIABLE, ""):
        return Path(home).expanduser() / "keys.toml"
    return platformdirs.user_config_path("accelopt", False) / "keys.toml"


def api_key(variable: str, base_url: str | None = None) -> str:
    """The key for a server; empty when there is none.

    A `[servers]` entry of the key file for exactly this base URL wins, then the environment, then
    the file's entry of the variable's name.

    Args:
        variable: name of the environment variable, for example `OPENAI_API_KEY`.
        base_url: of the server, when it is not the provider's own.

    Raises:
        ConfigError: others can read the key file, or it is damaged; the message never shows what
            stands in it.
    """
    key = os.environ.get(variable, "")
    if base_url is not None or not key:
        path = key_file()
        data = _read(path)
        key = (
            _of_server(data, base_url, path) or key or _text(data.get(variable, ""), variable, path)
        )
    with _lock:
        _handed_out.add(key)
    return key


def known_secrets() -> tuple[str, ...]:
    """Every key handed out and every secret of the environment, longest first.

    Values under 8 characters are left out: they would be found in the middle of words.
    """
    with _lock:
        found = set(_handed_out)
    found |= {v for name, v in os.environ.items() if name.upper().endswith(_SECRET_ENDINGS)}
    long = (value for value in found if len(value) >= _SHORTEST_SECRET)
    return tuple(sorted(long, key=lambda value: (-len(value), value)))


def redact(text: str) -> str:
    """The text with `***` in place of every known secret."""
    for secret in known_secrets():
        text = text.replace(secret, "***")
    return text


def shown_url(url: str) -> str:
    """A URL as it may be shown: without user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "(no URL)"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _of_server(data: dict[str, Any], base_url: str | None, path: Path) -> str:
    servers = data.get(_SERVERS, {})
    if not isinstance(servers, dict):
        raise ConfigError(
            f"{path}: `{_SERVERS}` is no table", hint='write [servers], then "URL" = "KEY"'
        )
    if base_url is None:
        return ""
    wanted = base_url.rstrip("/")
    for url, key in servers.items():
        if url.rstrip("/") == wanted:
            return _text(key, url, path)
    return ""


def _text(value: object, name: str, path: Path) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{path}: the key of {name} is no text", hint="put it in quotes")
    return value.strip()


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read()
    except FileNotFoundError:
        if os.environ.get(KEY_FILE_VARIABLE):
            raise ConfigError(
                f"the key file {path} does not exist", hint=f"{KEY_FILE_VARIABLE} names it"
            ) from None
        return {}
    except OSError as error:
        raise ConfigError(f"the key file {path} can't be read: {error.strerror}") from error
    if os.name == "posix" and mode & 0o077:
        raise ConfigError(
            f"others can read or change the key file {path}", hint=f"run chmod 600 {path}"
        )
    damage = ""
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        damage = "it is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        damage = _place(str(error))
    # Raised out here, so that no traceback leads to the parser and the text it held.
    raise ConfigError(f"the key file {path} is no valid TOML: {damage}", hint='write NAME = "KEY"')


def _place(message: str) -> str:
    """Where the parser stopped; the rest of its message may quote the file."""
    _, found, place = message.rpartition("(at ")
    return place.rstrip(")") if found else "it is damaged"
