"""Chat models of providers with a protocol of their own, through LangChain's packages for them."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from accelopt.errors import ConfigError
from accelopt.models import ModelSettings
from accelopt.secrets import api_key, key_file, redact

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from accelopt.doctor import Check

# For servers without keys: most clients refuse to be made with none.
_NO_KEY = "none"

# Names under which LangChain's classes take a setting, as a field or an alias.
_TEMPERATURE = ("temperature",)
_MAX_TOKENS = ("max_tokens", "max_output_tokens", "num_predict")
_TIMEOUT = ("timeout", "request_timeout")
_MAX_RETRIES = ("max_retries",)
_STREAMING = ("streaming",)
_STREAM_USAGE = ("stream_usage",)
_REASONING_EFFORT = ("reasoning_effort",)
_BASE_URL = ("base_url",)
_API_KEY = ("api_key",)
# Google's client takes the number of attempts for that of retries, and 0 for its default.
_ONE_ATTEMPT: Mapping[str, int] = {"google_genai": 1}


@dataclass(frozen=True)
class LangChainModels:
    """Provider of `<prefix>:<model>` for one of LangChain's providers.

    Attributes:
        prefix: also LangChain's name of the provider.
        title: the provider for people.
        package: pip name of LangChain's package for it.
        extra: of `accelopt` that installs it.
        key_variable: environment variable with its key; empty when it has other credentials.
    """

    prefix: str
    title: str
    package: str
    extra: str
    key_variable: str

    @property
    def description(self) -> str:
        """One line for `accelopt models`."""
        return f"{self.title}, through {self.package}"

    @property
    def needs(self) -> str:
        """What it needs to work."""
        credentials = self.key_variable or "AWS credentials and a region"
        return f"{credentials}, and pip install 'accelopt[{self.extra}]'"

    def create(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the model called `name`.

        Raises:
            ConfigError: the name is empty, a package or the key is missing, or the provider
                refuses a setting.
        """
        label = f"{self.prefix}:{name}"
        if not name:
            raise ConfigError("the model name is missing", hint=f"write {self.prefix}:MODEL")
        _require(label, self.package, self.extra)
        key = api_key(self.key_variable, settings.base_url) if self.key_variable else ""
        if self.key_variable and not key:
            if not settings.base_url:
                raise ConfigError(f"model {label} needs a key", hint=f"set {self.key_variable}")
            key = _NO_KEY
        return _create(self.prefix, name, settings, key, label)

    def health(self, name: str, settings: ModelSettings) -> list[Check]:
        """Whether the packages and a key are there; the provider itself is not asked.

        Raises:
            ConfigError: as `create`, where it is for another reason than a package or a key.
        """
        from accelopt.doctor import MODEL_NOT_TRIED

        found = [self._packages()]
        if self.key_variable:
            found.append(self._key(settings))
        if any(check.state == "fail" for check in found):
            return found
        self.create(name, settings)
        return [*found, MODEL_NOT_TRIED]

    def _packages(self) -> Check:
        from accelopt.doctor import Check

        wanted = ("langchain", self.package)
        missing = [package for package in wanted if not _is_installed(package)]
        if missing:
            detail = f"not installed: {', '.join(missing)}"
            fix = f"pip install 'accelopt[{self.extra}]'"
            return Check(name="packages", state="fail", detail=detail, fix=fix)
        return Check(name="packages", state="ok", detail=f"{', '.join(wanted)} are installed")

    def _key(self, settings: ModelSettings) -> Check:
        from accelopt.doctor import Check

        if api_key(self.key_variable, settings.base_url):
            # Whether it is a valid one is not known.
            return Check(name="key", state="ok", detail=f"{self.key_variable} has a value")
        if settings.base_url:
            return Check(name="key", state="ok", detail="none, which the server may not need")
        return Check(
            name="key",
            state="fail",
            detail=f"{self.key_variable} is not set",
            fix=f"set {self.key_variable}, or write it into {key_file()}",
        )


class AnyLangChainModel:
    """Provider of `langchain:<provider>:<model>` for every provider that LangChain knows."""

    @property
    def prefix(self) -> str:
        """Prefix of the model names."""
        return "langchain"

    @property
    def description(self) -> str:
        """One line for `accelopt models`."""
        return "every provider that LangChain knows: langchain:groq:MODEL, langchain:xai:MODEL, ..."

    @property
    def needs(self) -> str:
        """What it needs to work."""
        return "the provider's key and package, and pip install 'accelopt[langchain]'"

    def create(self, name: str, settings: ModelSettings) -> BaseChatModel:
        """Make the model called `name`, which is `provider:model`.

        Raises:
            ConfigError: the name has no provider or no model, LangChain does not know the
                provider, a package or key is missing, or the provider refuses a setting.
        """
        provider, _, model = name.partition(":")
        if not provider or not model:
            raise ConfigError(
                f"model langchain:{name} needs a provider and a name",
                hint="write langchain:PROVIDER:MODEL",
            )
        # The packages look their key up by themselves; this adds those of the key file.
        key = api_key(f"{provider.upper()}_API_KEY", settings.base_url)
        if not key and provider == "openai" and settings.base_url:
            key = _NO_KEY
        return _create(provider, model, settings, key, f"langchain:{name}")


NAMED = (
    LangChainModels(
        "anthropic", "Anthropic's Claude", "langchain-anthropic", "anthropic", "ANTHROPIC_API_KEY"
    ),
    LangChainModels(
        "google_genai", "Google's Gemini", "langchain-google-genai", "google", "GOOGLE_API_KEY"
    ),
    LangChainModels("bedrock_converse", "Amazon Bedrock", "langchain-aws", "bedrock", ""),
    LangChainModels(
        "mistralai", "Mistral AI", "langchain-mistralai", "mistralai", "MISTRAL_API_KEY"
    ),
)
"""Providers with a prefix of their own."""


def langchain_providers() -> tuple[LangChainModels | AnyLangChainModel, ...]:
    """All providers of this module, for registration."""
    return (*NAMED, AnyLangChainModel())


def _create(
    provider: str, model: str, settings: ModelSettings, key: str, label: str
) -> BaseChatModel:
    _require(label, "langchain", "langchain")
    # Slow, and an offline run never needs it.
    from langchain.chat_models import init_chat_model

    fields = _fields(provider, label)
    options = _options(settings, key, fields, retries=_ONE_ATTEMPT.get(provider, 0))
    try:
        made: BaseChatModel = init_chat_model(model, model_provider=provider, **options)
    except Exception as error:
        # Bad settings, missing credentials, an unknown region: each package has its own errors.
        raise ConfigError(f"model {label} can't be made: {_reason(error)}") from error
    return made


def _options(
    settings: ModelSettings, key: str, fields: Mapping[str, Any], *, retries: int
) -> dict[str, Any]:
    """The settings under the names that the class takes; what it does not take is left out."""
    from pydantic import SecretStr

    wanted: list[tuple[tuple[str, ...], Any]] = [
        (_TEMPERATURE, settings.temperature),
        (_MAX_TOKENS, settings.max_output_tokens),
        (_TIMEOUT, settings.timeout_s),
        (_MAX_RETRIES, retries),
        (_STREAMING, settings.stream or None),
        # Left out by LangChain's OpenAI class for servers of others.
        (_STREAM_USAGE, settings.stream or None),
        (_REASONING_EFFORT, settings.reasoning_effort or None),
        (_BASE_URL, settings.base_url),
        # Wrapped, so that no error of the package can quote it.
        (_API_KEY, SecretStr(key) if key else None),
    ]
    options: dict[str, Any] = {}
    for names, value in wanted:
        name = next((name for name in names if name in fields), None)
        if name is not None and value is not None:
            options[name] = math.ceil(value) if _is_whole(fields[name], value) else value
    return options


def _is_whole(annotation: Any, value: Any) -> bool:
    """Whether the field takes whole numbers only, as some take their seconds."""
    accepted = get_args(annotation) or (annotation,)
    return isinstance(value, float) and int in accepted and float not in accepted


def _fields(provider: str, label: str) -> dict[str, Any]:
    """The annotations of what the provider's class takes, by field name and by alias.

    Raises:
        ConfigError: LangChain does not know the provider, or its package is missing.
    """
    from langchain.chat_models import base

    known = base._BUILTIN_PROVIDERS
    if provider not in known:
        raise ConfigError(
            f"model {label}: LangChain knows no provider {provider!r}",
            hint=f"it knows {', '.join(sorted(known))}",
        )
    module, class_name, _ = known[provider]
    root = module.partition(".")[0]
    package = root.replace("_", "-")
    if importlib.util.find_spec(root) is None:
        raise ConfigError(
            f"model {label} needs the package {package}", hint=f"pip install {package}"
        )
    model_class = getattr(importlib.import_module(module), class_name)
    fields: dict[str, Any] = {}
    for name, field in model_class.model_fields.items():
        fields[name] = field.annotation
        if field.alias:
            fields[field.alias] = field.annotation
    return fields


def _is_installed(package: str) -> bool:
    return importlib.util.find_spec(package.replace("-", "_")) is not None


def _require(label: str, package: str, extra: str) -> None:
    if not _is_installed(package):
        raise ConfigError(
            f"model {label} needs the package {package}", hint=f"pip install 'accelopt[{extra}]'"
        )


def _reason(error: Exception) -> str:
    from pydantic import ValidationError

    if isinstance(error, ValidationError):
        # Its own text quotes the input, and keys are part of that.
        found = error.errors(include_input=False, include_context=False, include_url=False)
        lines = [": ".join([*(str(part) for part in e["loc"]), e["msg"]]) for e in found]
    else:
        lines = str(error).strip().splitlines()
    text = "; ".join(line.strip() for line in lines[:2])[:300]
    return redact(text) or type(error).__name__
