"""Chat models behind any OpenAI-compatible server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from accelopt.errors import ConfigError
from accelopt.models import ModelSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

_KEY = "OPENAI_API_KEY"
_BASE_URLS = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
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
        if not name:
            raise ConfigError("the model name is missing", hint="write openai:MODEL")
        base_url = settings.base_url or next(
            (url for variable in _BASE_URLS if (url := os.environ.get(variable))), None
        )
        key = os.environ.get(_KEY) or (_NO_KEY if base_url else "")
        if not key:
            raise ConfigError(
                f"model openai:{name} needs a key",
                hint=f"set {_KEY}, or give --base-url for a server without keys",
            )
        # The client's import is slow, and an offline run never needs it.
        from langchain_openai import ChatOpenAI
        from pydantic import SecretStr

        options: dict[str, Any] = {}
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.max_output_tokens is not None:
            options["max_completion_tokens"] = settings.max_output_tokens
        if base_url is not None:
            options["base_url"] = base_url
            # Servers that are not OpenAI's own speak the chat completions protocol only.
            options["use_responses_api"] = False
        # No sampling seed: N plans come from one prompt and must be able to differ. No retries
        # either: the caller retries, so that a stop is noticed while it waits.
        return ChatOpenAI(
            model=name,
            api_key=SecretStr(key),
            timeout=settings.timeout_s,
            max_retries=0,
            **options,
        )
