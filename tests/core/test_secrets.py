"""Where keys come from, and that they are never shown."""

from __future__ import annotations

import os
import traceback

import platformdirs
import pytest

from accelopt import secrets
from accelopt.errors import ConfigError
from accelopt.secrets import api_key, key_file, known_secrets, redact

KEY = "OPENAI_API_KEY"
LOCAL = "http://localhost:8000/v1"


@pytest.fixture(autouse=True)
def nothing_handed_out(monkeypatch):
    monkeypatch.setattr(secrets, "_handed_out", set())
    for name in list(os.environ):
        if name.upper().endswith(("_API_KEY", "_TOKEN", "_SECRET")):
            monkeypatch.delenv(name)


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Writes the key file."""
    path = tmp_path / "keys.toml"
    monkeypatch.setenv("ACCELOPT_KEY_FILE", str(path))

    def write(text, mode=0o600):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(mode)
        return path

    return write


def test_without_variable_and_file_there_is_no_key():
    assert api_key(KEY) == ""
    assert api_key(KEY, LOCAL) == ""


def test_the_environment_wins_over_the_file(keys, monkeypatch):
    keys('OPENAI_API_KEY = "from-file"')
    assert api_key(KEY) == "from-file"
    monkeypatch.setenv(KEY, "from-environment")
    assert api_key(KEY) == "from-environment"
    assert api_key(KEY, LOCAL) == "from-environment"


def test_a_servers_own_key_wins_over_all(keys, monkeypatch):
    keys(f'OPENAI_API_KEY = "general"\n[servers]\n"{LOCAL}" = "local"\n')
    assert api_key(KEY, LOCAL) == "local"
    assert api_key(KEY, LOCAL + "/") == "local"
    assert api_key(KEY, "http://localhost:8001/v1") == "general"
    assert api_key(KEY) == "general"
    monkeypatch.setenv(KEY, "from-environment")
    assert api_key(KEY, LOCAL) == "local"
    assert api_key(KEY, "http://localhost:8001/v1") == "from-environment"


def test_the_file_stands_in_the_home_or_the_configuration_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELOPT_HOME", str(tmp_path))
    assert key_file() == tmp_path / "keys.toml"
    monkeypatch.delenv("ACCELOPT_HOME")
    assert key_file() == platformdirs.user_config_path("accelopt", False) / "keys.toml"
    monkeypatch.setenv("ACCELOPT_KEY_FILE", "~/my.toml")
    assert key_file().name == "my.toml"
    assert "~" not in str(key_file())


@pytest.mark.skipif(os.name != "posix", reason="no POSIX modes")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601])
def test_a_file_that_others_can_read_is_refused(keys, mode):
    path = keys('OPENAI_API_KEY = "sk-secret"', mode)
    with pytest.raises(ConfigError, match=r"keys\.toml") as caught:
        api_key(KEY)
    assert "chmod 600" in caught.value.hint
    assert str(path) in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_the_file_is_not_looked_at_where_the_environment_is_enough(keys, monkeypatch):
    keys("damaged", 0o644)
    monkeypatch.setenv(KEY, "from-environment")
    assert api_key(KEY) == "from-environment"


@pytest.mark.parametrize(
    "text",
    [
        'OPENAI_API_KEY = "sk-secret',
        "sk-secret",
        '"sk-secret" "sk-secret"',
        'a = 1\n"sk-secret" = 2\n"sk-secret" = 3',
        b"\xff\xfe sk-secret",
        "OPENAI_API_KEY = ['sk-secret']",
        'servers = "sk-secret"',
        f"[servers]\n'{LOCAL}' = {{key = 'sk-secret'}}",
    ],
)
def test_a_damaged_file_is_a_line_that_shows_nothing_of_it(keys, text):
    keys(text)
    with pytest.raises(ConfigError, match=r"keys\.toml") as caught:
        api_key(KEY, LOCAL)
    assert "\n" not in str(caught.value)
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__context__ is None


def test_a_folder_in_place_of_the_file_is_a_config_error(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELOPT_KEY_FILE", str(tmp_path))
    with pytest.raises(ConfigError, match="can't be read"):
        api_key(KEY)


def test_keys_and_secrets_of_the_environment_are_known(keys, monkeypatch):
    keys('[servers]\n"http://localhost:8000/v1" = "of-the-server"\n')
    api_key(KEY, LOCAL)
    monkeypatch.setenv("SOME_TOKEN", "tok-12345678")
    monkeypatch.setenv("SOME_SECRET", "short")
    monkeypatch.setenv("SOME_NAME", "not-a-secret")
    assert known_secrets() == ("of-the-server", "tok-12345678")


def test_a_text_is_shown_without_its_secrets(monkeypatch):
    monkeypatch.setenv("A_API_KEY", "sk-12345678")
    monkeypatch.setenv("B_API_KEY", "sk-12345678-and-more")
    shown = redact("bad keys sk-12345678-and-more, sk-12345678; mask sk-1***5678")
    assert shown == "bad keys ***, ***; mask sk-1***5678"


def test_a_key_taken_from_a_changed_environment_stays_known(monkeypatch):
    monkeypatch.setenv(KEY, "sk-used-and-gone")
    api_key(KEY)
    monkeypatch.delenv(KEY)
    assert redact("sk-used-and-gone") == "***"
