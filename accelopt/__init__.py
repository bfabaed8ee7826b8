"""accelopt: self-improving multi-agent optimization of accelerator kernels.

Only light modules are imported here; `import accelopt` stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accelopt.backend import BASE_CAPABILITIES, Backend, Capability
from accelopt.candidate import Candidate, Experience, ExperienceUse, Plan, speedup
from accelopt.device import DeviceSpec, percent_of_peak, roofline_bound, roofline_latency_us
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
from accelopt.prompt_facts import PromptFacts

from accelopt.embedder import Embedder  # isort: skip

if TYPE_CHECKING:
    from accelopt.api import optimize, optimize_async
    from accelopt.config import RunConfig
    from accelopt.optimization import Optimization
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

_LAZY = {
    "Optimization": "accelopt.optimization",
    "RunConfig": "accelopt.config",
    "UnusableReply": "accelopt.reply_errors",
    "optimize": "accelopt.api",
    "optimize_async": "accelopt.api",
}


def __getattr__(name: str) -> Any:
    """Import the heavier public names on first use."""
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
