"""The fidelity benchmark: the shipped calibration is the shipped model's, and errors are right.

The figures of the own set come from the code that a foreign set takes too.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import fidelity  # noqa: E402
import fidelity_plot  # noqa: E402
import fidelity_tables  # noqa: E402

FAST = ("silu", "adamw", "rope_single_freq_apply", "add_rmsnorm_matmul")
COPY = """import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


@nki.jit
def NAME(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for t in nl.affine_range(x.shape[0] // 128):
        tile = nl.load(x[t * 128 : (t + 1) * 128, 0 : x.shape[1]])
        nl.store(out[t * 128 : (t + 1) * 128, 0 : x.shape[1]], value=TERM)
    return out
"""


def run(capsys, *arguments):
    """Exit code, what was printed, and complaints."""
    code = fidelity.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def found(capsys, *arguments):
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def shapes(*extents):
    return {"x": list(extents), "out": list(extents)}


@pytest.fixture
def folder(tmp_path):
    """Two kernels, found by id and by name."""
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    (kernels / "copied.py").write_text(COPY.replace("NAME", "kernel").replace("TERM", "tile"))
    (kernels / "doubled.py").write_text(
        COPY.replace("NAME", "twice").replace("TERM", "nl.add(tile, tile)")
    )
    return kernels


@pytest.fixture
def entries():
    return [
        {"id": "copied", "latency_us": 200.0, "shapes": shapes(512, 512), "dtype": "float32"},
        {
            "id": "row-7",
            "name": "doubled",
            "latency_us": 400.0,
            "arguments": [{"name": "x", "shape": [1024, 512]}],
        },
        {"id": "absent", "latency_us": 1.0, "shapes": shapes(128, 512)},
    ]


def written(tmp_path, entries):
    path = tmp_path / "measured.json"
    path.write_text(json.dumps({"entries": entries}))
    return path


# --- The own set ---


@pytest.fixture(scope="module")
def fast():
    cases = fidelity.baseline_cases(list(FAST))
    return fidelity.evaluate(cases, fidelity.shipped_calibration(), fidelity.BASELINES)


def test_the_shipped_calibration_is_that_of_the_shipped_model(fast):
    residuals = fidelity.shipped_calibration().residuals
    assert set(fast["tasks"]) == set(FAST)
    for name, row in fast["tasks"].items():
        assert row["measured_us"] == residuals[name].measured_us
        assert row["predicted_us"] == pytest.approx(residuals[name].predicted_us, rel=1e-3)
        assert row["held_out_us"] == pytest.approx(residuals[name].held_out_us, rel=1e-3)


def test_the_headline_follows_from_the_tasks(fast):
    errors = [row["predicted_us"] / row["measured_us"] - 1 for row in fast["tasks"].values()]
    assert fast["mean_abs_error"] == pytest.approx(sum(map(abs, errors)) / 4, rel=1e-6)
    assert fast["worst_abs_error"] == pytest.approx(max(map(abs, errors)), rel=1e-6)
    left_out = [row["held_out_us"] / row["measured_us"] - 1 for row in fast["tasks"].values()]
    assert fast["loo_mean_abs_error"] == pytest.approx(sum(map(abs, left_out)) / 4, rel=1e-6)
    assert -1 <= fast["kendall_tau"] <= 1


def test_counters_of_streaming_kernels_are_the_published_ones(fast):
    for counter in ("hbm_read_bytes", "hbm_write_bytes"):
        for name in ("silu", "adamw", "rope_single_freq_apply"):
            cell = fast["counters"][counter]["tasks"][name]
            assert cell["predicted"] == cell["published"] > 0
    spills = fast["counters"]["spill_save_bytes"]
    assert spills["within"] == spills["of"] == 4


@pytest.fixture(scope="module")
def silu():
    """The silu baseline and the optimised kernels of its task."""
    own = [case for case in fidelity.own_cases() if "silu" in case.name]
    cases = fidelity.baseline_cases(["silu"]) + own
    return fidelity.evaluate(cases, fidelity.shipped_calibration(), fidelity.BASELINES)


def test_pairs_compare_with_the_baseline(silu):
    rows = {row["fast"]: row for row in silu["pairs"]["rows"]}
    assert set(rows) == {"accelopt-silu-best", "accelopt-silu-iter1"}
    best = silu["families"]["nkibench-best"]["entries"]["accelopt-silu-best"]
    row = rows["accelopt-silu-best"]
    assert row["published_ratio"] == pytest.approx(1333.232 / 797.74, abs=1e-6)
    predicted = silu["tasks"]["silu"]["predicted_us"] / best["predicted_us"]
    assert row["predicted_ratio"] == pytest.approx(predicted, rel=1e-5)
    assert row["lowest_ratio"] <= row["highest_ratio"]
    assert row["traffic_matches"] is True


def test_a_prediction_by_fold_is_that_of_the_held_out_fit(silu):
    # Two ways to the same figure: predict_on, and the fit's own predictor.
    (case,) = fidelity.baseline_cases(["silu"])
    pool = fidelity.WorkerPool(fidelity.WorkerLimits())
    try:
        outcome = fidelity.assess(case, pool, fidelity.shipped_calibration(), folds=True)
    finally:
        pool.close()
    assert outcome.folds_us["silu"] == pytest.approx(outcome.held_out_us, rel=1e-9)
    assert len(outcome.folds_us) == 14


def test_kinds_of_measurement_take_their_overhead_and_compiler():
    cases = {case.name: case for case in fidelity.own_cases()}
    fitted = fidelity.shipped_calibration()
    best = fidelity.timing_of(cases["accelopt-silu-best"], fitted)
    assert best.overhead_us == fitted.fitted["overhead_us"]
    mamba = fidelity.timing_of(cases["aws-mamba-v1-4096x512"], fitted)
    assert (mamba.overhead_us, mamba.removes_repeats) == (20.0, 1)
    matmul = fidelity.timing_of(cases["aws-kernel-optimization-v2-tiled"], fitted)
    assert (matmul.overhead_us, matmul.removes_repeats) == (20.0, 0)
    assert matmul.act_ghz == 1.2  # Trainium 2's own


def test_tables_and_figure_show_every_kernel(silu):
    text, figure = fidelity_tables.text(silu), fidelity_plot.draw(silu)
    for name in ("silu", "accelopt-silu-best", "accelopt-silu-iter1"):
        assert f"| {name} |" in text
    assert figure.count("<polygon") == 1 + 2 + 1  # band, two kernels, legend
    assert ">silu<" in figure


def test_the_document_has_a_place_for_every_table(silu, tmp_path, monkeypatch):
    copy = tmp_path / "latency-model.md"
    copy.write_text(fidelity_tables.DOCUMENT.read_text())
    monkeypatch.setattr(fidelity_tables, "DOCUMENT", copy)
    monkeypatch.setattr(fidelity_tables, "FIGURE", tmp_path / "fidelity.svg")
    fidelity_tables.write_document(silu)
    assert "| accelopt-silu-best |" in copy.read_text()
    assert (tmp_path / "fidelity.svg").read_text().startswith("<svg")
    again = copy.read_text()
    fidelity_tables.write_document(silu)
    assert copy.read_text() == again


# --- Other sets ---


def test_other_kernels_are_found_by_id_and_by_name(capsys, folder, tmp_path, entries):
    report = found(capsys, "--kernels", folder, "--measurements", written(tmp_path, entries))
    assert set(report["tasks"]) == {"copied", "doubled"}
    errors = []
    for name, measured in (("copied", 200.0), ("doubled", 400.0)):
        row = report["tasks"][name]
        assert row["measured_us"] == measured
        assert row["predicted_us"] > 95
        errors.append(abs(row["predicted_us"] / measured - 1))
        assert row["error"] == pytest.approx(row["predicted_us"] / measured - 1, abs=1e-5)
    assert report["mean_abs_error"] == pytest.approx(sum(errors) / 2, abs=1e-5)
    assert report["worst_abs_error"] == pytest.approx(max(errors), abs=1e-5)
    assert report["loo_mean_abs_error"] is None
    assert [item["measurement"] for item in report["not_covered"]] == ["absent"]


def test_a_wrong_measurement_gives_another_error(capsys, folder, tmp_path, entries):
    right = found(capsys, "--kernels", folder, "--measurements", written(tmp_path, entries))
    entries[0]["latency_us"] *= 2
    wrong = found(capsys, "--kernels", folder, "--measurements", written(tmp_path, entries))
    before, after = right["tasks"]["copied"], wrong["tasks"]["copied"]
    assert after["predicted_us"] == before["predicted_us"]
    assert 1 + after["error"] == pytest.approx((1 + before["error"]) / 2)
    assert wrong["tasks"]["doubled"] == right["tasks"]["doubled"]
    assert not math.isclose(wrong["mean_abs_error"], right["mean_abs_error"])


def test_the_calibration_format_is_read_too(capsys, folder, tmp_path):
    path = tmp_path / "measured.json"
    kernels = [
        {
            "name": "copied",
            "file": "copied.py",
            "arguments": [{"shape": [512, 512], "dtype": "bfloat16"}],
            "latency_us": 150.0,
        },
        {"name": "silu", "task": "nkibench/silu", "latency_us": 1333.232},
    ]
    path.write_text(json.dumps({"device": "trn1", "source": "a test", "kernels": kernels}))
    report = found(capsys, "--kernels", folder, "--measurements", path)
    assert set(report["tasks"]) == {"copied", "silu"}
    shipped = fidelity.shipped_calibration().residuals["silu"]
    assert report["tasks"]["silu"]["predicted_us"] == pytest.approx(shipped.predicted_us, rel=1e-3)
    assert report["loo_mean_abs_error"] is None  # only one of them is a fold
    kernels = kernels[1:]
    path.write_text(json.dumps({"device": "trn1", "source": "a test", "kernels": kernels}))
    alone = found(capsys, "--kernels", folder, "--measurements", path)
    assert alone["loo_mean_abs_error"] == pytest.approx(
        1 - shipped.held_out_us / 1333.232, rel=1e-3
    )


def test_an_index_says_what_the_kernels_are(capsys, folder, tmp_path, entries):
    index = [
        {"measurement": "row-7", "file": "doubled.py", "family": "mine", "pair": "copied",
         "arguments": [{"shape": [1024, 512]}]},
        {"measurement": "copied", "file": "copied.py", "family": "mine", "scored": False,
         "note": "for a reason"},
        {"measurement": "absent", "file": None, "note": "never published"},
    ]  # fmt: skip
    (folder / "index.json").write_text(json.dumps({"kernels": index}))
    path = written(tmp_path, entries)
    report = found(capsys, "--kernels", folder, "--measurements", path)
    assert set(report["tasks"]) == {"doubled"}
    assert [row["note"] for row in report["unscored"]] == ["for a reason"]
    assert report["not_covered"] == [{"measurement": "absent", "why": "never published"}]
    (pair,) = report["pairs"]["rows"]
    assert (pair["published_ratio"], pair["counted"]) == (0.5, False)


def test_what_can_not_be_traced_is_said(capsys, folder, tmp_path, entries):
    (folder / "copied.py").write_text(
        COPY.replace("NAME", "kernel").replace("TERM", "nl.nonsense(tile)")
    )
    path = written(tmp_path, entries)
    code, out, _ = run(capsys, "--kernels", folder, "--measurements", path)
    assert code == 0
    assert "copied | could not be traced" in out


def complain(entry):
    def change(folder, path):
        data = json.loads(path.read_text())
        data["entries"][0] |= entry
        path.write_text(json.dumps(data))

    return change


BAD = {
    "no folder": (lambda folder, path: folder.rename(folder.parent / "moved"), "not a folder"),
    "no file": (lambda folder, path: path.unlink(), "No such file"),
    "not JSON": (lambda folder, path: path.write_text("{"), "not JSON"),
    "no entries": (lambda folder, path: path.write_text("[]"), "no list `entries`"),
    "a latency of zero": (complain({"latency_us": 0}), "latency_us"),
    "a latency in words": (complain({"latency_us": "fast"}), "latency_us"),
    "no shape": (complain({"shapes": {}}), "no shape for the parameter x"),
    "an unknown task": (complain({"task": "nkibench/nothing"}), "not registered"),
    "a missing file": (complain({"file": "nowhere.py"}), "no such file"),
    "an entry twice": (complain({"id": "absent"}), "twice"),
    "not Python": (lambda folder, path: (folder / "copied.py").write_text("def"), "copied.py"),
    "no kernel": (lambda folder, path: (folder / "copied.py").write_text("x = 1"), "no kernel"),
    "nothing to score": (
        lambda folder, path: [file.unlink() for file in folder.glob("*.py")],
        "none of the measurements",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_and_exit_code_2(name, capsys, folder, tmp_path, entries):
    path = written(tmp_path, entries)
    change, words = BAD[name]
    change(folder, path)
    code, out, err = run(capsys, "--kernels", folder, "--measurements", path, "--json")
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["--kernels", "x"], ["--nothing"], ["--tasks", "nothing"], ["--calibration", "none.json"]],
)
def test_bad_options_are_one_line_and_exit_code_2(arguments, capsys):
    code, out, err = run(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1


# --- Acceptance ---


@pytest.mark.slow
def test_the_model_is_as_near_as_promised():
    cases = fidelity.baseline_cases()
    report = fidelity.evaluate(cases, fidelity.shipped_calibration(), fidelity.BASELINES)
    assert len(report["tasks"]) == 14
    assert report["mean_abs_error"] <= 0.07
    assert report["worst_abs_error"] <= 0.18
    assert report["loo_mean_abs_error"] <= 0.10
    assert report["kendall_tau"] >= 0.9
    residuals = fidelity.shipped_calibration().residuals
    for name, row in report["tasks"].items():
        assert row["predicted_us"] == pytest.approx(residuals[name].predicted_us, rel=1e-3)
        assert row["held_out_us"] == pytest.approx(residuals[name].held_out_us, rel=1e-3)
