"""Chat models behind any OpenAI-compatible server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from accelopt.errors import ConfigError
from accelopt.models import ModelSettings
from accelopt.secrets import api_key

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.doctor import Check
    from accelopt_graphs.endpoint_check import Server

_KEY = "OPENAI_API_KEY"
_BASE_URLS = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
_OPENAI_HOST = "api.openai.com"
_NO_KEY = "none"


class OpenAIModels:
    """Provider of `openai:<model>`."""

    @property
    def prefix(self) -> str:
        """Prefix of the model names."""
        return "openai"

    @property
    def description(self) -> str:
        """One line for `accelopt models`."""
        return "any OpenAI-compatible server: OpenAI, vLLM, Ollama, llama.cpp, LiteLLM, ..."

    @property
    def needs(self) -> str:
        """What it needs to work."""
        return f"{_KEY} in the environment, or a base URL of a server without keys"

    def create(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the model called `name`.

        Raises:
            ConfigError: the name is empty, or there is neither a key nor a server.
        """
        server = _server(name, settings)
        # The client's import is slow, and an offline run never needs it.
        from pydantic import SecretStr

        from accelopt_graphs.compatible_chat import CompatibleChat

        # No sampling seed: N plans come from one prompt and must be able to differ. No retries
        # either: the caller retries, so that a stop is noticed while it waits.
        return CompatibleChat(
            model=name,
            api_key=SecretStr(server.key),
            timeout=settings.timeout_s,
            max_retries=0,
            **_options(settings, server.base_url),
        )

    def health(self, name: str, settings: ModelSettings) -> list[Check]:
        """Whether the server is there and has the model.

        Raises:
            ConfigError: as `create`.
        """
        from accelopt_graphs.endpoint_check import endpoint_check

        return [endpoint_check(name, _server(name, settings))]


def _server(name: str, settings: ModelSettings) -> Server:
    """Where the model called `name` is asked, and with which key."""
    from accelopt_graphs.endpoint_check import Server

    if not name:
        raise ConfigError("the model name is missing", hint="write openai:MODEL")
    base_url = settings.base_url or next(
        (url for variable in _BASE_URLS if (url := os.environ.get(variable))), None
    )
    key = api_key(_KEY, base_url)
    if not key and not base_url:
        raise ConfigError(
            f"model openai:{name} needs a key",
            hint=f"set {_KEY}, or give --base-url for a server without keys",
        )
    return Server(base_url, key or _NO_KEY, has_key=bool(key), key_variable=_KEY)


def _options(settings: ModelSettings, base_url: str | None) -> dict[str, Any]:
    # None is said out loud: left out, LangChain sets a temperature for models called o1.
    options: dict[str, Any] = {"temperature": settings.temperature}
    if settings.max_output_tokens is not None:
        options["max_completion_tokens"] = settings.max_output_tokens
    if settings.reasoning_effort:
        options["reasoning_effort"] = settings.reasoning_effort
    if settings.stream:
        # Asked for by name, since LangChain leaves the token counts out for servers of others.
        options |= {"streaming": True, "stream_usage": True}
    if base_url is not None:
        options["base_url"] = base_url
        if urlsplit(base_url).hostname != _OPENAI_HOST:
            # Others speak the chat completions protocol only, many of them its older dialect.
            options |= {"use_responses_api": False, "old_token_limit": True}
    return options
