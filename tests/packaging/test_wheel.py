"""The built wheel in a fresh environment, together with a stranger's backend package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUR_NAMES = {
    "accelopt",
    "accelopt_graphs",
    "accelopt_simulator",
    "accelopt_trainium",
    "accelopt_rewriter",
    "nkibench",
}

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(1500)]


def run(*command, cwd, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        **options,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    for source in (ROOT, ROOT / "tests/fixtures/slowchip"):
        run(
            sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source,
            cwd=folder,
        )  # fmt: skip
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def fresh(wheels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    lock = ROOT / "requirements.lock"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", lock, *wheels, cwd=folder)
    return folder


def test_the_wheel_holds_exactly_our_import_names(wheels):
    ours = next(path for path in wheels if path.name.startswith("accelopt-"))
    with zipfile.ZipFile(ours) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        typed = {name for name in archive.namelist() if name.endswith("/py.typed")}
    assert {top for top in tops if not top.endswith(".dist-info")} == OUR_NAMES
    assert typed == {f"{name}/py.typed" for name in OUR_NAMES}


def test_no_generic_name_becomes_importable(fresh):
    found = run(
        fresh / "venv/bin/python", "-I", "-c",
        "import importlib.util as u; "
        "print([n for n in ('graphs', 'plugins', 'tests', 'tasks') if u.find_spec(n)])",
        cwd=fresh,
    )  # fmt: skip
    assert found.strip() == "[]"


def test_importing_accelopt_loads_no_heavy_library(fresh):
    loaded = run(
        fresh / "venv/bin/python", "-I", "-c",
        "import sys, accelopt; "
        "print([n for n in ('langgraph', 'langchain_core', 'chromadb') if n in sys.modules])",
        cwd=fresh,
    )  # fmt: skip
    assert loaded.strip() == "[]"


def test_a_strangers_backend_is_listed(fresh):
    listing = json.loads(run(fresh / "venv/bin/accelopt", "backends", "--json", cwd=fresh))
    assert {entry["backend"] for entry in listing} >= {"sim-trn1", "sim-trn2", "slowchip"}
    plugins = json.loads(run(fresh / "venv/bin/accelopt", "plugins", "--json", cwd=fresh))
    entry = next(p for p in plugins if p["plugin"] == "slowchip")
    assert entry["distribution"] == "accelopt-slowchip"
    assert entry["hooks"] == ["register_backends"]


def test_a_strangers_backend_withstands_the_attack_suite(fresh):
    text = run(fresh / "venv/bin/accelopt", "attack", "--backend", "slowchip", "--json", cwd=fresh)
    attacked = json.loads(text)
    assert attacked["blocked"] == attacked["attacks"] >= 15
    assert attacked["twins_passed"] == attacked["twins"]


def test_a_strangers_backend_passes_the_conformance_kit(fresh):
    text = run(fresh / "venv/bin/accelopt", "conformance", "slowchip", "--json", cwd=fresh)
    assert json.loads(text)["ok"] is True


def test_a_strangers_backend_runs_an_optimization(fresh):
    text = run(
        fresh / "venv/bin/accelopt", "optimize", "silu@small", "--backend", "slowchip",
        "--iterations", "2", "--memory", "none", "--json",
        cwd=fresh,
    )  # fmt: skip
    result = json.loads(text)
    assert result["backend"] == "slowchip"
    assert result["speedup"] > 1.0
    assert Path(result["best_kernel"]).is_file()
