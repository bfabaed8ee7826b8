"""RunConfig: one class for flags, environment and TOML."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from accelopt.config import RunConfig
from accelopt.errors import ConfigError
from accelopt.models import Role


def test_precedence_flags_environment_toml_defaults(tmp_path, monkeypatch):
    path = tmp_path / "run.toml"
    path.write_text("beam_width = 2\nnum_plans = 2\niterations = 2\n")
    monkeypatch.setenv("ACCELOPT_BEAM_WIDTH", "7")
    monkeypatch.setenv("ACCELOPT_NUM_PLANS", "7")
    config = RunConfig.load(path, num_plans=9, seed=None)
    assert (config.num_plans, config.beam_width, config.iterations) == (9, 7, 2)
    assert config.seed == 0


def test_a_toml_file_does_not_leak_into_the_next_load(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("beam_width = 2\n")
    assert RunConfig.load(path).beam_width == 2
    assert RunConfig.load().beam_width == 3


def test_unknown_keys_are_refused(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("beam = 2\n")
    with pytest.raises(ConfigError, match="unknown key 'beam' in"):
        RunConfig.load(path)
    with pytest.raises(ConfigError, match="unknown key 'beam'"):
        RunConfig.load(beam=2)


def test_it_is_frozen_and_keyword_only():
    config = RunConfig.load()
    with pytest.raises(ValidationError):
        config.seed = 3
    with pytest.raises(TypeError):
        RunConfig("silu")


def test_toml_round_trip():
    config = RunConfig.load(
        task='odd "name"\\with\nlines', temperature=0.5, base_url="http://localhost:1", seed=4
    )
    written = config.to_toml()
    import tomllib

    assert RunConfig.load(None, **tomllib.loads(written)) == config


def test_a_role_falls_back_to_the_common_model():
    config = RunConfig.load(model="a", fixer_model="b")
    assert config.model_for(Role.FIXER) == "b"
    assert config.model_for(Role.PLANNER) == "a"


def test_a_kernel_needs_a_reference_and_excludes_a_task():
    with pytest.raises(ConfigError, match="--reference"):
        RunConfig.load(kernel="k.py")
    with pytest.raises(ConfigError, match="not both"):
        RunConfig.load(kernel="k.py", reference="r.py", task="silu")


def test_the_paper_preset_has_the_papers_settings():
    config = RunConfig.load(preset="paper")
    names = ("beam_width", "num_plans", "num_samples", "iterations", "fixer_rounds")
    assert [getattr(config, name) for name in names] == [6, 12, 2, 16, 0]
    assert (config.topk_experiences, config.memory_capacity, config.memory) == (8, 16, "none")
    assert (config.positive_threshold, config.negative_threshold) == (1.04, 1.15)


def test_everything_wins_over_a_preset_and_a_preset_over_the_defaults(tmp_path, monkeypatch):
    path = tmp_path / "run.toml"
    path.write_text('preset = "quick"\nnum_plans = 5\n')
    monkeypatch.setenv("ACCELOPT_ITERATIONS", "7")
    config = RunConfig.load(path, num_samples=3)
    assert (config.num_plans, config.iterations, config.num_samples) == (5, 7, 3)
    assert (config.beam_width, config.patience) == (2, 2)
    # A flag's preset takes the place of the file's.
    assert RunConfig.load(path, preset="paper").beam_width == 6
    assert RunConfig.load().beam_width == 3


def test_a_preset_survives_the_run_file_and_an_unknown_one_is_refused():
    import tomllib

    config = RunConfig.load(preset="paper", iterations=2)
    assert RunConfig.load(None, **tomllib.loads(config.to_toml())) == config
    with pytest.raises(ConfigError, match=r"unknown preset 'fast'; there are paper, quick"):
        RunConfig.load(preset="fast")
