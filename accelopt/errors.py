"""The exception tree.

Everything the product raises on purpose derives from `AcceloptError`, so a caller can catch one
class and a person sees one line::

    AcceloptError
    ├── ConfigError                  an option, a TOML key or a run file is wrong
    ├── TaskError                    a task or its reference file can't be used
    ├── PluginError                  a plugin is missing or broken
    │   ├── UnknownBackendError      no backend of that name is registered
    │   └── BackendUnavailableError  the backend exists but can't work on this machine
    ├── ChatError                    a language model failed
    │   ├── ReplyFormatError         its reply can't be used
    │   └── BudgetExhaustedError     the run's budget is used up
    └── StoreError                   a run folder or a memory store can't be used
        └── SchemaVersionError       it was written by a newer version

A bad *kernel* is never an exception: it is an `Evaluation` with a status and diagnostics.
"""

from __future__ import annotations


class AcceloptError(Exception):
    """Base of all errors raised on purpose.

    Args:
        message: what is wrong and where, one line.
        hint: what the person can do about it, one line; may be empty.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(AcceloptError):
    """An option, a TOML key or a run file is wrong."""


class TaskError(AcceloptError):
    """A task is unknown, or its reference file or kernel file can't be used."""


class PluginError(AcceloptError):
    """A plugin could not be found, loaded or validated."""


class UnknownBackendError(PluginError):
    """No backend of that name is registered."""


class BackendUnavailableError(PluginError):
    """The backend is registered but can't work on this machine."""


class ChatError(AcceloptError):
    """A language model could not be reached or failed."""


class ReplyFormatError(ChatError):
    """A language model's reply holds nothing that can be used."""


class BudgetExhaustedError(ChatError):
    """The run's budget of model calls, tokens or money is used up."""


class StoreError(AcceloptError):
    """A run folder or an optimization memory can't be read or written."""


class SchemaVersionError(StoreError):
    """A store was written by a newer version of accelopt."""

    def __init__(self, what: str, *, found: int, supported: int) -> None:
        super().__init__(
            f"{what} has schema version {found}, this accelopt reads up to {supported}",
            hint="upgrade accelopt",
        )
        self.found = found
        self.supported = supported
