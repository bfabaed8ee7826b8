"""The documents say what the code does."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

from accelopt import hookspecs
from accelopt.attacks import NOT_APPLICABLE, all_attacks
from accelopt.config import RunConfig
from accelopt.evaluation import Diagnostic, EvaluationStatus

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))


def text(name: str) -> str:
    return (ROOT / name).read_text()


HOOKS = {n: f for n, f in vars(hookspecs).items() if n.startswith("register_")}


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_stands_in_the_docs_with_its_signature(name):
    parameters = ", ".join(inspect.signature(HOOKS[name]).parameters)
    assert f"`{name}({parameters})`" in text("docs/plugins.md")


@pytest.mark.parametrize("key", RunConfig.model_fields)
def test_every_setting_stands_in_the_docs(key):
    assert f"`{key}`" in text("docs/cli.md")


@pytest.mark.parametrize("status", EvaluationStatus)
def test_every_status_stands_in_the_docs(status):
    assert f"`{status.value}`" in text("docs/cli.md")


@pytest.mark.parametrize("field", Diagnostic.model_fields)
def test_every_diagnostic_field_stands_in_the_docs(field):
    assert f"`{field}`" in text("docs/cli.md")


def test_the_readme_names_only_targets_that_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", text("README.md") + text("CONTRIBUTING.md")))
    assert named
    assert named <= targets


def test_the_links_of_the_documents_lead_somewhere():
    for name in ("README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in DOCS)):
        folder = (ROOT / name).parent
        for target in re.findall(r"\]\(([^)#]+)\)", text(name)):
            assert (folder / target).exists(), f"{name}: {target}"


@pytest.mark.parametrize(("name", "node"), [("optimize", "beam_selection"), ("best-of-n", "draw")])
def test_langgraph_json_names_graphs_that_can_be_made(name, node):
    import importlib.util

    entry = json.loads(text("langgraph.json"))["graphs"][name]
    path, function = entry.split(":")
    spec = importlib.util.spec_from_file_location("studio_entry", ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    graph = getattr(module, function)()
    assert node in graph.get_graph().nodes


def test_every_hack_stands_in_the_docs_with_what_stops_it_or_why_it_does_not_apply():
    page = text("docs/security.md")
    for attack in all_attacks():
        exploits = "; ".join(exploit.name for exploit in attack.exploits)
        row = f"| {attack.row or '-'} | {attack.title} | {exploits} | {attack.defence} |"
        assert row in page
    for row, reason in NOT_APPLICABLE.items():
        assert f"| {row} | {reason} |" in page
