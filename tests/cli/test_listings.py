"""The listing commands, for people and as JSON."""

from __future__ import annotations

import pytest

NAMES = {
    "tasks": ("task", "nkibench/silu"),
    "backends": ("backend", "sim-trn1"),
    "models": ("model", "rewriter"),
    "plugins": ("plugin", "simulator"),
    "graphs": ("graph", "optimize"),
}


@pytest.mark.parametrize("command", NAMES)
def test_listing_names_what_is_there(accelopt, command):
    key, name = NAMES[command]
    result = accelopt(command, "--json")
    assert result.code == 0
    assert name in [entry[key] for entry in result.data]


@pytest.mark.parametrize("command", NAMES)
def test_listing_for_people_has_no_json(accelopt, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    result = accelopt(command)
    assert result.code == 0
    assert NAMES[command][1] in result.out
    assert "{" not in result.out


def test_backends_name_their_calibration(accelopt):
    entries = {e["backend"]: e for e in accelopt("backends", "--json").data}
    assert "latency model trn1-20" in entries["sim-trn1"]["description"]
    assert entries["sim-trn1"]["device"] == "trn1"
    # Trainium 2 has nothing to fit to, and says so.
    assert "trn2-documented" in entries["sim-trn2"]["description"]


def test_plugins_list_the_hooks_of_each(accelopt):
    hooks = {entry["plugin"]: entry["hooks"] for entry in accelopt("plugins", "--json").data}
    assert hooks["simulator"] == ["register_backends", "register_checks", "register_commands"]
    assert hooks["nkibench"] == ["register_suites"]


def test_graph_show_prints_the_inner_graph_too(accelopt):
    result = accelopt("graph", "show", "optimize", "--format", "mermaid")
    assert result.code == 0
    assert "graph TD" in result.out
    for node in ("planner", "executor", "evaluate", "fixer", "summarizer", "beam_selection"):
        assert node in result.out


def test_version_and_help(accelopt):
    assert accelopt("--version").out.startswith("accelopt ")
    assert "optimize" in accelopt("--help").out
