"""accelopt: self-improving multi-agent optimization of accelerator kernels.

Nothing is imported here before it is used; `import accelopt` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accelopt.api import optimize, optimize_async
    from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
    from accelopt.candidate import Candidate, Experience, ExperienceUse, Plan, speedup
    from accelopt.config import RunConfig
    from accelopt.device import DeviceSpec, percent_of_peak, roofline_bound, roofline_latency_us
    from accelopt.embedder import Embedder
    from accelopt.errors import (
        AcceloptError,
        BackendUnavailableError,
        BudgetExhaustedError,
        ChatError,
        ConfigError,
        PluginError,
        ReplyFormatError,
        SchemaVersionError,
        StoreError,
        TaskError,
        UnknownBackendError,
    )
    from accelopt.evaluation import (
        ALL_STAGES,
        ESTIMATE_STAGES,
        SCREEN_STAGES,
        Diagnostic,
        Evaluation,
        EvaluationStatus,
        Profile,
        SeedResult,
        Stage,
    )
    from accelopt.events import Event, Observer
    from accelopt.graphs import GraphProvider, RunResult, RunServices
    from accelopt.hookspecs import hookimpl, hookspec
    from accelopt.kernel import (
        ArgumentSpec,
        Dialect,
        KernelSource,
        KernelTask,
        Reference,
        Suite,
        Work,
        relative_l2_error,
    )
    from accelopt.models import ChatModelProvider, Ensemble, ModelSettings, Role
    from accelopt.optimization import Optimization
    from accelopt.prompt_facts import PromptFacts
    from accelopt.reply_errors import UnusableReply

__version__ = "0.1.0"

__all__ = [
    "ALL_STAGES",
    "BASE_CAPABILITIES",
    "ESTIMATE_STAGES",
    "SCREEN_STAGES",
    "AcceloptError",
    "ArgumentSpec",
    "Backend",
    "BackendUnavailableError",
    "BudgetExhaustedError",
    "Candidate",
    "Capability",
    "ChatError",
    "ChatModelProvider",
    "ConfigError",
    "DeviceSpec",
    "Diagnostic",
    "Dialect",
    "Embedder",
    "Ensemble",
    "Evaluation",
    "EvaluationStatus",
    "Event",
    "Experience",
    "ExperienceUse",
    "GraphProvider",
    "KernelSource",
    "KernelTask",
    "ModelSettings",
    "Observer",
    "Optimization",
    "Plan",
    "PluginError",
    "Profile",
    "PromptFacts",
    "Reference",
    "ReplyFormatError",
    "Role",
    "RunConfig",
    "RunResult",
    "RunServices",
    "SchemaVersionError",
    "SeedResult",
    "Stage",
    "StoreError",
    "Suite",
    "TaskError",
    "UnknownBackendError",
    "UnusableReply",
    "Work",
    "__version__",
    "hookimpl",
    "hookspec",
    "optimize",
    "optimize_async",
    "percent_of_peak",
    "relative_l2_error",
    "roofline_bound",
    "roofline_latency_us",
    "speedup",
]

_MODULES = {
    "accelopt.api": (
        "optimize",
        "optimize_async",
    ),
    "accelopt.backend": (
        "BASE_CAPABILITIES",
        "Backend",
        "Capability",
    ),
    "accelopt.candidate": (
        "Candidate",
        "Experience",
        "ExperienceUse",
        "Plan",
        "speedup",
    ),
    "accelopt.config": ("RunConfig",),
    "accelopt.device": (
        "DeviceSpec",
        "percent_of_peak",
        "roofline_bound",
        "roofline_latency_us",
    ),
    "accelopt.embedder": ("Embedder",),
    "accelopt.errors": (
        "AcceloptError",
        "BackendUnavailableError",
        "BudgetExhaustedError",
        "ChatError",
        "ConfigError",
        "PluginError",
        "ReplyFormatError",
        "SchemaVersionError",
        "StoreError",
        "TaskError",
        "UnknownBackendError",
    ),
    "accelopt.evaluation": (
        "ALL_STAGES",
        "Diagnostic",
        "ESTIMATE_STAGES",
        "Evaluation",
        "EvaluationStatus",
        "Profile",
        "SCREEN_STAGES",
        "SeedResult",
        "Stage",
    ),
    "accelopt.events": (
        "Event",
        "Observer",
    ),
    "accelopt.graphs": (
        "GraphProvider",
        "RunResult",
        "RunServices",
    ),
    "accelopt.hookspecs": (
        "hookimpl",
        "hookspec",
    ),
    "accelopt.kernel": (
        "ArgumentSpec",
        "Dialect",
        "KernelSource",
        "KernelTask",
        "Reference",
        "Suite",
        "Work",
        "relative_l2_error",
    ),
    "accelopt.models": (
        "ChatModelProvider",
        "Ensemble",
        "ModelSettings",
        "Role",
    ),
    "accelopt.optimization": ("Optimization",),
    "accelopt.prompt_facts": ("PromptFacts",),
    "accelopt.reply_errors": ("UnusableReply",),
}
"""Module -> public names that it defines."""

_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: helper processes start without what they do not need."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
