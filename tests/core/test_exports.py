"""The public names are pinned: adding or removing one is a decision, not an accident."""

from __future__ import annotations

import subprocess
import sys

import accelopt

PUBLIC = [
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


def test_the_public_names_are_these():
    assert sorted(accelopt.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(accelopt, name) is not None


def test_importing_accelopt_loads_no_heavy_library():
    code = (
        "import sys, accelopt;"
        "print([n for n in ('langgraph', 'langchain_core', 'chromadb', 'numpy', 'rich',"
        " 'pydantic_settings', 'typer', 'accelopt.api', 'accelopt.config')"
        " if n in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert out.stdout.strip() == "[]", out.stderr
