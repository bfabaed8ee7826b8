"""`accelopt evaluate`: the JSON contract, the view for people, and kernels that fail."""

from __future__ import annotations

import pytest

KEYS = {
    "task",
    "backend",
    "status",
    "latency_us",
    "latency_low_us",
    "latency_high_us",
    "percent_of_peak",
    "bound",
    "seeds",
    "published_gate",
    "checks",
    "profile",
    "diagnostics",
    "trace_hash",
    "calibration",
    "notes",
    "elapsed_s",
}


def test_the_json_contract(accelopt, baseline):
    result = accelopt("evaluate", baseline, "--task", "silu@small", "--json")
    assert result.code == 0
    data = result.data
    assert data.keys() == KEYS
    assert data["status"] == "ok"
    assert 0 < data["latency_low_us"] < data["latency_us"] < data["latency_high_us"]
    assert 0 < data["percent_of_peak"] < 100
    assert [seed["seed"] for seed in data["seeds"]] == [0, 21, 42, 63, 84]
    for seed in data["seeds"]:
        assert seed.keys() == {"seed", "error", "tolerance", "ok"}
        assert seed["ok"] is True
        assert seed["error"] < seed["tolerance"] == 2e-5
    assert data["profile"]["hbm_read_bytes"] == 256 * 2048 * 4
    assert data["profile"]["latency_us"] == data["latency_us"]
    assert {d["severity"] for d in data["diagnostics"]} <= {"warning"}
    assert data["calibration"].startswith("trn1-20")


def test_a_wrong_kernel_exits_with_0_and_says_incorrect(accelopt, baseline):
    text = baseline.read_text()
    assert "nl.exp" in text
    baseline.write_text(text.replace("nl.exp", "nl.tanh"))
    result = accelopt("evaluate", baseline, "--task", "silu@small", "--json")
    assert result.code == 0
    assert result.data["status"] == "incorrect"
    assert len(result.data["seeds"]) == 1
    assert result.data["seeds"][0]["ok"] is False


def test_a_rejected_kernel_shows_the_line_and_a_hint(accelopt, baseline):
    lines = baseline.read_text().splitlines()
    number = next(i for i, line in enumerate(lines) if "nl.load(" in line)
    lines[number] = lines[number].replace("nl.load(", "nl.copy(nl.load(")
    broken = [
        line.replace("nl.shared_hbm", "nl.sbuf") for line in baseline.read_text().splitlines()
    ]
    baseline.write_text("\n".join(broken) + "\n")
    result = accelopt("evaluate", baseline, "--task", "silu@small", "--json")
    assert result.code == 0
    assert result.data["status"] == "constraint_violation"
    finding = result.data["diagnostics"][0]
    assert finding.keys() >= {"rule", "message", "line", "hint"}
    assert finding["rule"] == "err_num_partition_exceed_arch_limit" or finding["line"]


def test_the_view_for_people_shows_a_source_excerpt(accelopt, baseline):
    baseline.write_text(baseline.read_text().replace("nl.exp", "nl.softmax"))
    result = accelopt("evaluate", baseline, "--task", "silu@small")
    assert result.code == 0
    assert "unsupported_op" in result.out
    assert "nl.softmax" in result.out
    assert " > " in result.out


def test_the_view_for_people_of_a_good_kernel(accelopt, baseline):
    result = accelopt("evaluate", baseline, "--task", "silu@small", "--seeds", "3,4")
    assert result.code == 0
    for word in (
        "status",
        "latency",
        "of peak",
        "80 % range",
        "relative L2 error",
        "typical error",
    ):
        assert word in result.out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def kernel(x:\n", "parse"),
        ("x = 1\n", "no kernel"),
        (
            "import neuronxcc.nki as nki\n@nki.jit\ndef a(x):\n    return x\n"
            "@nki.jit\ndef b(x):\n    return x\n",
            "two kernels",
        ),
    ],
)
def test_an_unusable_kernel_file_is_one_line_and_exit_code_2(accelopt, tmp_path, text, words):
    path = tmp_path / "bad.py"
    path.write_text(text)
    result = accelopt("evaluate", path, "--task", "silu@small")
    assert result.code == 2
    assert words in result.err
    assert "bad.py" in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""
