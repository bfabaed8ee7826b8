"""What a model costs: whose price holds where, and files that can't be used."""

from __future__ import annotations

import datetime

import pytest

from accelopt import paths
from accelopt.errors import ConfigError
from accelopt.prices import Price, PriceTable, load_prices

CHEAP, DEAR, SPECIAL = (Price(input=n, output=2 * n) for n in (1.0, 10.0, 100.0))
SERVER = "http://localhost:8000/v1"


def table(models=None, own=None):
    return PriceTable(as_of="2025-01-01", models=models or {}, own=own or {})


def test_a_price_is_per_million_tokens():
    assert Price(input=2.0, output=8.0).cost_usd(500_000, 250_000) == 3.0


def test_a_price_of_ones_own_wins():
    prices = table({"openai:a": CHEAP}, {"openai:a": DEAR})
    assert prices.price("openai:a") == DEAR


def test_an_unknown_price_is_none_and_never_zero():
    assert table({"openai:a": CHEAP}).price("openai:b") is None
    assert table({"openai:a": CHEAP}).price("a") is None


@pytest.mark.parametrize("suffix", ["-2024-08-06", "-20250514", "-latest"])
def test_a_snapshot_costs_what_its_model_costs(suffix):
    prices = table({"openai:gpt-4o": CHEAP})
    assert prices.price(f"openai:gpt-4o{suffix}") == CHEAP
    assert table(own={"openai:gpt-4o": DEAR}).price(f"openai:gpt-4o{suffix}") == DEAR


def test_a_snapshot_may_have_a_price_of_its_own():
    prices = table({"openai:a": CHEAP, "openai:a-2024-08-06": DEAR})
    assert prices.price("openai:a-2024-08-06") == DEAR
    assert prices.price("openai:a-2024-11-20") == CHEAP


@pytest.mark.parametrize("suffix", ["-mini", "-2024", "-2024-8-6", "-20250514-x"])
def test_another_model_is_no_snapshot(suffix):
    assert table({"openai:a": CHEAP}).price(f"openai:a{suffix}") is None


def test_a_public_price_does_not_hold_on_other_servers():
    prices = table({"openai:a": CHEAP})
    assert prices.price("openai:a", SERVER) is None
    assert prices.price(f"openai:a@{SERVER}") is None
    assert prices.price("openai:a@https://elsewhere/v1") is None


def test_a_price_of_ones_own_holds_on_every_server():
    prices = table({"openai:a": CHEAP}, {"openai:a": DEAR})
    assert prices.price("openai:a", SERVER) == DEAR
    assert prices.price(f"openai:a@{SERVER}") == DEAR


def test_the_price_of_a_server_wins_there_and_holds_nowhere_else():
    prices = table(own={f"openai:a@{SERVER}": SPECIAL, "openai:a": DEAR})
    assert prices.price("openai:a", SERVER) == SPECIAL
    assert prices.price(f"openai:a@{SERVER}") == SPECIAL
    assert prices.price("openai:a", "http://other/v1") == DEAR
    assert prices.price("openai:a") == DEAR
    assert table(own={f"openai:a@{SERVER}": SPECIAL}).price("openai:a") is None


def test_the_server_in_a_label_wins_over_that_of_the_settings():
    prices = table(own={f"openai:a@{SERVER}": SPECIAL, "openai:a@http://other/v1": DEAR})
    assert prices.price(f"openai:a@{SERVER}", "http://other/v1") == SPECIAL


@pytest.mark.parametrize("label", ["rewriter", "rewriter:greedy"])
@pytest.mark.parametrize("server", [None, SERVER])
def test_the_offline_model_costs_nothing(label, server):
    assert table().price(label, server) == Price(input=0, output=0)


def test_a_name_that_only_looks_offline_is_unknown():
    assert table().price("rewriter2:a") is None
    assert table().price("openai:rewriter") is None


def test_the_built_in_table_is_dated_and_plausible():
    prices = load_prices()
    assert datetime.date.fromisoformat(prices.as_of) >= datetime.date(2025, 1, 1)
    assert prices.source
    assert prices.own == {}
    for label, price in prices.models.items():
        assert ":" in label
        assert 0 < price.input < price.output < 1000


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "prices.toml"
    path.write_text('[models]\n"openai:gpt-4o" = { input = 1, output = 2.5 }\n')
    prices = load_prices(path)
    assert prices.price("openai:gpt-4o") == Price(input=1, output=2.5)
    assert prices.price("openai:gpt-4.1") == load_prices().price("openai:gpt-4.1")


def test_the_file_in_the_data_folder_is_found_and_another_one_replaces_it(tmp_path):
    folder = paths.user_data_dir()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prices.toml").write_text('[models]\n"x:a" = { input = 1, output = 2 }\n')
    assert load_prices().price("x:a") == CHEAP
    other = tmp_path / "other.toml"
    other.write_text('[models]\n"x:b" = { input = 1, output = 2 }\n')
    assert load_prices(other).price("x:a") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[models\n", "is not valid TOML"),
        ("", r"has no table \[models\]"),
        ("models = 3\n", r"has no table \[models\]"),
        ('"openai:a" = { input = 1, output = 2 }\n', r"has no table \[models\]"),
        ('[models]\n"openai:a" = 3\n', "'openai:a': price: input should be"),
        ('[models]\n"openai:a" = { input = 1 }\n', "'openai:a': output: field required"),
        ('[models]\n"openai:a" = { input = -1, output = 2 }\n', "'openai:a': input: "),
        ('[models]\n"openai:a" = { input = nan, output = 2 }\n', "'openai:a': input: "),
        ('[models]\n"openai:a" = { input = inf, output = 2 }\n', "'openai:a': input: "),
        ('[models]\n"openai:a" = { input = 1, output = "x" }\n', "'openai:a': output: "),
        ('[models]\n"openai:a" = { input = 1, output = 2, cached = 1 }\n', "'openai:a': cached: "),
    ],
)
def test_a_file_that_makes_no_sense_is_one_line(tmp_path, text, message):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as failure:
        load_prices(path)
    assert "\n" not in str(failure.value)
    assert str(path) in str(failure.value)


def test_a_file_that_can_not_be_read_is_one_line(tmp_path):
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(ConfigError, match="can't read the price file") as failure:
            load_prices(path)
        assert "\n" not in str(failure.value)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe[models]")
    with pytest.raises(ConfigError, match="is not valid TOML"):
        load_prices(binary)
