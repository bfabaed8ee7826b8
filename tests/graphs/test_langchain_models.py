"""Models of LangChain's other providers: a real one, and stand-ins for missing packages."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
import types

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from accelopt.errors import ConfigError
from accelopt.models import ModelSettings
from accelopt.testing.chat_replies import Text
from accelopt.testing.chat_server import ScriptedChatServer
from accelopt_graphs.langchain_models import NAMED, AnyLangChainModel, langchain_providers

BY_PREFIX = {provider.prefix: provider for provider in langchain_providers()}

langchain = pytest.mark.skipif(
    importlib.util.find_spec("langchain") is None, reason="langchain is not installed"
)


@pytest.fixture
def package(monkeypatch):
    """Puts a class into a package of that name."""

    def put(name, model_class):
        from langchain.chat_models import base

        module = types.ModuleType(name)
        module.__spec__ = importlib.machinery.ModuleSpec(name, None)
        setattr(module, model_class.__name__, model_class)
        monkeypatch.setitem(sys.modules, name, module)
        base._get_chat_model_creator.cache_clear()

    yield put
    if "langchain.chat_models.base" in sys.modules:
        sys.modules["langchain.chat_models.base"]._get_chat_model_creator.cache_clear()


class Taking(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class ChatAnthropic(Taking):
    model: str
    max_tokens: int | None = Field(default=None, alias="max_tokens_to_sample")
    temperature: float | None = None
    default_request_timeout: float | None = Field(default=None, alias="timeout")
    max_retries: int = 2
    anthropic_api_url: str | None = Field(default=None, alias="base_url")
    anthropic_api_key: SecretStr = Field(alias="api_key")
    streaming: bool = False


class ChatGoogleGenerativeAI(Taking):
    model: str
    google_api_key: SecretStr = Field(alias="api_key")
    max_output_tokens: int | None = Field(default=None, alias="max_tokens")
    max_retries: int = Field(default=6, alias="retries")
    timeout: float | None = Field(default=None, alias="request_timeout")


class ChatBedrockConverse(Taking):
    model_id: str = Field(alias="model")
    endpoint_url: str | None = Field(default=None, alias="base_url")
    bedrock_api_key: SecretStr | None = Field(default=None, alias="api_key")
    timeout: int | None = None
    max_retries: int | None = None


class ChatGroq(Taking):
    model: str
    groq_api_key: SecretStr | None = Field(default=None, alias="api_key")


class ChatXAI(Taking):
    model: str
    region: int


@langchain
@pytest.mark.parametrize("stream", [False, True])
def test_any_provider_of_langchain_answers_over_http(stream):
    with ScriptedChatServer(lambda request: Text("hello", 3, 4)) as server:
        how = ModelSettings(
            base_url=server.base_url, temperature=0.5, max_output_tokens=9, stream=stream
        )
        model = AnyLangChainModel().create("openai:some-model", how)
        message = model.invoke("hi")
        [request] = server.requests
    assert message.text == "hello"
    assert message.usage_metadata["output_tokens"] == 4
    assert (request.model, request.stream) == ("some-model", stream)
    assert request.body["temperature"] == 0.5
    assert request.headers["authorization"] == "Bearer none"
    assert (model.max_retries, model.request_timeout) == (0, 600.0)


@langchain
def test_a_key_of_the_key_file_reaches_the_provider(monkeypatch, tmp_path, package):
    path = tmp_path / "keys.toml"
    path.write_text('GROQ_API_KEY = "gsk-12345678"\n')
    path.chmod(0o600)
    monkeypatch.setenv("ACCELOPT_KEY_FILE", str(path))
    package("langchain_groq", ChatGroq)
    model = AnyLangChainModel().create("groq:llama:70b", ModelSettings())
    assert model.model == "llama:70b"
    assert model.groq_api_key.get_secret_value() == "gsk-12345678"


@langchain
def test_settings_go_by_the_names_that_a_class_takes(monkeypatch, package):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-12345678")
    package("langchain_anthropic", ChatAnthropic)
    how = ModelSettings(
        base_url="http://h/v1", temperature=0.5, max_output_tokens=9, timeout_s=2.5, stream=True
    )
    model = BY_PREFIX["anthropic"].create("claude", how)
    assert model.model_dump(exclude={"anthropic_api_key"}) == {
        "model": "claude",
        "max_tokens": 9,
        "temperature": 0.5,
        "default_request_timeout": 2.5,
        "max_retries": 0,
        "anthropic_api_url": "http://h/v1",
        "streaming": True,
    }
    assert model.anthropic_api_key.get_secret_value() == "sk-ant-12345678"


@langchain
def test_what_a_class_does_not_take_is_left_out_and_google_counts_attempts(monkeypatch, package):
    monkeypatch.setenv("GOOGLE_API_KEY", "AIza12345678")
    package("langchain_google_genai", ChatGoogleGenerativeAI)
    how = ModelSettings(temperature=0.5, max_output_tokens=9, stream=True, reasoning_effort="low")
    model = BY_PREFIX["google_genai"].create("gemini", how)
    assert (model.max_output_tokens, model.max_retries, model.timeout) == (9, 1, 600.0)


@langchain
def test_whole_seconds_are_rounded_up_and_aws_credentials_stay_alone(package):
    package("langchain_aws", ChatBedrockConverse)
    how = ModelSettings(base_url="http://h", timeout_s=2.5)
    model = BY_PREFIX["bedrock_converse"].create("claude-v2:0", how)
    assert (model.model_id, model.timeout, model.max_retries) == ("claude-v2:0", 3, 0)
    assert model.bedrock_api_key is None


@langchain
def test_a_refused_setting_is_one_line_without_keys(monkeypatch, package):
    monkeypatch.setenv("XAI_API_KEY", "xai-12345678")
    package("langchain_xai", ChatXAI)
    with pytest.raises(ConfigError, match="region: Field required") as caught:
        AnyLangChainModel().create("xai:grok", ModelSettings())
    assert "\n" not in str(caught.value)
    assert "xai-12345678" not in str(caught.value)


@pytest.mark.parametrize("provider", NAMED, ids=lambda provider: provider.prefix)
def test_a_missing_package_is_one_line(monkeypatch, provider):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=f"needs the package {provider.package}") as caught:
        provider.create("m", ModelSettings())
    assert caught.value.hint == f"pip install 'accelopt[{provider.extra}]'"


@langchain
def test_a_missing_package_of_another_provider_is_one_line():
    with pytest.raises(ConfigError, match="needs the package langchain-cohere") as caught:
        AnyLangChainModel().create("cohere:command", ModelSettings())
    assert caught.value.hint == "pip install langchain-cohere"


def test_without_langchain_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the package langchain") as caught:
        AnyLangChainModel().create("openai:m", ModelSettings())
    assert caught.value.hint == "pip install 'accelopt[langchain]'"


@langchain
def test_a_missing_key_is_one_line(package, monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    package("langchain_anthropic", ChatAnthropic)
    with pytest.raises(ConfigError, match="needs a key") as caught:
        BY_PREFIX["anthropic"].create("claude", ModelSettings())
    assert caught.value.hint == "set ANTHROPIC_API_KEY"


@pytest.mark.parametrize("name", ["", "openai", "openai:", ":m"])
def test_a_name_needs_a_provider_and_a_model(name):
    with pytest.raises(ConfigError, match="provider and a name"):
        AnyLangChainModel().create(name, ModelSettings())


def test_a_named_provider_needs_a_model_name():
    with pytest.raises(ConfigError, match="name is missing"):
        NAMED[0].create("", ModelSettings())


@langchain
def test_an_unknown_provider_is_one_line():
    with pytest.raises(ConfigError, match="knows no provider 'acme'") as caught:
        AnyLangChainModel().create("acme:m", ModelSettings())
    assert "anthropic" in caught.value.hint


def test_every_provider_describes_itself():
    assert [*BY_PREFIX] == [
        "anthropic",
        "google_genai",
        "bedrock_converse",
        "mistralai",
        "langchain",
    ]
    for provider in BY_PREFIX.values():
        assert provider.description
        assert "pip install" in provider.needs


@langchain
def test_doctor_says_what_is_there_and_asks_nobody(package, monkeypatch):
    package("langchain_anthropic", ChatAnthropic)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-very-secret")
    found = BY_PREFIX["anthropic"].health("claude", ModelSettings())
    assert [(c.name, c.state) for c in found] == [
        ("packages", "ok"), ("key", "ok"), ("endpoint", "ok"),
    ]  # fmt: skip
    assert "sk-very-secret" not in str(found)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    found = BY_PREFIX["anthropic"].health("claude", ModelSettings())
    assert (found[-1].state, "ANTHROPIC_API_KEY" in found[-1].fix) == ("fail", True)
    found = BY_PREFIX["anthropic"].health("claude", ModelSettings(base_url="http://127.0.0.1:9"))
    assert [c.state for c in found] == ["ok", "ok", "ok"]
