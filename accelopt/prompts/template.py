"""Prompt templates: text with `{{name}}` placeholders, which are checked when it is loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from accelopt.errors import ConfigError

_PLACEHOLDER = re.compile(r"\{\{\s*([^{}]*?)\s*\}\}")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_FOLDER = resources.files("accelopt.prompts")
_SYSTEM, _USER = "<!-- system -->", "<!-- user -->"


@dataclass(frozen=True)
class Template:
    """A system and a user text with the same set of placeholders to fill.

    Raises:
        ConfigError: a placeholder is misspelt.
    """

    name: str
    system: str
    user: str

    def __post_init__(self) -> None:
        for placeholder in self.placeholders:
            if not _NAME.match(placeholder):
                raise ConfigError(f"prompt {self.name}: bad placeholder {placeholder!r}")
        # What is left once the placeholders are gone must not look like half of one.
        rest = _PLACEHOLDER.sub("", self.system + self.user)
        if "{{" in rest or "}}" in rest:
            raise ConfigError(f"prompt {self.name}: a placeholder is not closed")

    @property
    def placeholders(self) -> frozenset[str]:
        """Names of all placeholders."""
        return text_placeholders(self.system + self.user)

    def fill(self, values: Mapping[str, str]) -> tuple[str, str]:
        """The system and the user text. Values go in as they are, braces included.

        Raises:
            ConfigError: a placeholder has no value, or a value has no placeholder.
        """
        unfilled = sorted(self.placeholders - values.keys())
        if unfilled:
            raise ConfigError(f"prompt {self.name}: no value for {', '.join(unfilled)}")
        unknown = sorted(values.keys() - self.placeholders)
        if unknown:
            raise ConfigError(f"prompt {self.name}: no placeholder for {', '.join(unknown)}")

        # One pass over the template, so that a value's own braces are never looked at.
        def fill(text: str) -> str:
            return _PLACEHOLDER.sub(lambda match: values[match.group(1)], text)

        return fill(self.system), fill(self.user)


@cache
def load_text(name: str) -> str:
    """The text of a package file, without placeholders.

    Raises:
        ConfigError: it holds a placeholder, which nobody would fill.
    """
    text = packaged_text(name).strip()
    if _PLACEHOLDER.search(text):
        raise ConfigError(f"prompt text {name} must not hold placeholders")
    return text


def fill_text(name: str, values: Mapping[str, str]) -> str:
    """The text of a package file with its placeholders filled.

    Raises:
        ConfigError: a placeholder has no value, or a value has no placeholder.
    """
    return _text_template(name).fill(values)[1]


@cache
def _text_template(name: str) -> Template:
    return Template(name, "", packaged_text(name).strip())


@cache
def load_template(name: str, expected: frozenset[str]) -> Template:
    """The template in a package file.

    Args:
        name: file name.
        expected: the placeholders that will be filled.

    Raises:
        ConfigError: its placeholders are not the expected ones, or it has no system and user part.
    """
    template = packaged_template(name)
    missing = sorted(expected - template.placeholders)
    unknown = sorted(template.placeholders - expected)
    if missing or unknown:
        raise ConfigError(
            f"prompt {name}: missing placeholders {missing}, unknown placeholders {unknown}"
        )
    return template


def packaged_template(name: str) -> Template:
    """The template in a package file, whatever its placeholders.

    Raises:
        ConfigError: it has no system and user part, or a misspelt placeholder.
    """
    return parse_template(name, packaged_text(name))


def parse_template(name: str, text: str) -> Template:
    """Split a template's text at its two markers.

    Raises:
        ConfigError: a marker is missing or occurs twice.
    """
    if text.count(_SYSTEM) != 1 or text.count(_USER) != 1 or not text.startswith(_SYSTEM):
        raise ConfigError(f"prompt {name}: needs one system part and one user part")
    system, user = text.removeprefix(_SYSTEM).split(_USER)
    return Template(name, system.strip(), user.strip())


def packaged_text(name: str) -> str:
    """A package file as it stands."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def packaged_names() -> list[str]:
    """Names of the package files: one template per agent, and the texts that go into them."""
    return sorted(file.name for file in _FOLDER.iterdir() if file.name.endswith(".md"))


def text_placeholders(text: str) -> frozenset[str]:
    """Names of the placeholders in a text."""
    return frozenset(_PLACEHOLDER.findall(text))
