"""Calibrations: files, which one is used, what they give; and the fit that makes them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from simulator_kernels import traced, whole_kernel

from accelopt.errors import ConfigError
from accelopt.plugins import installed
from accelopt_simulator import measurements, plugin
from accelopt_simulator.hardware import PRIORS, TRN1, TRN1_TIMING, TRN2_TIMING, without_middle_end
from accelopt_simulator.latency import calibration as cal
from accelopt_simulator.latency import fit as fitting
from accelopt_simulator.latency.calibration import COMPILER_HABITS, Calibration, Residual
from accelopt_simulator.latency.fit import Measured, fit
from accelopt_simulator.latency.parameters import FITTED, names, with_values
from accelopt_simulator.latency.predict import predict_on

PRIOR = {parameter.name: parameter.prior for parameter in FITTED}


def made(created="2030-01-02", device="trn1", **values):
    residuals = {
        name: Residual(measured_us=measured, predicted_us=1.0, held_out_us=held_out)
        for name, measured, held_out in (("a", 110.0, 100.0), ("b", 80.0, 100.0))
    }
    folds = {name: PRIOR | values | {"window": 5.0} for name in residuals}
    return Calibration(
        device=device, created=created, source="a test", fitted=PRIOR | values,
        residuals=residuals, folds=folds,
    )  # fmt: skip


def use(calibration):
    path = cal.calibrations_dir() / f"{calibration.version}.json"
    cal.save(calibration, path)
    return path


# --- Files ---


def test_a_calibration_is_read_as_it_was_written():
    path = use(made(pe_ghz=2.41))
    assert cal.load(path) == made(pe_ghz=2.41)
    assert path.name.startswith("trn1-2030-01-02-")


def test_the_version_names_device_day_and_content():
    assert made().version == made().version
    assert made(pe_ghz=2.41).version != made(pe_ghz=2.43).version
    assert made(created="2030-01-03").version.startswith("trn1-2030-01-03-")


def test_the_error_is_that_of_the_kernels_that_a_fit_has_not_seen():
    expected = math.sqrt((math.log(1.1) ** 2 + math.log(0.8) ** 2) / 2)
    assert made().log_error == pytest.approx(expected)
    assert made().timing().log_error == pytest.approx(expected)


def test_a_calibration_gives_its_values_each_in_its_own_type():
    timing = made(pe_ghz=2.41, window=24.0, sequential_barrier=0.0).timing()
    assert timing.pe_ghz == 2.41
    assert (timing.window, timing.sequential_barrier) == (24, 0)
    assert isinstance(timing.window, int)
    assert timing.version == made(pe_ghz=2.41, window=24.0, sequential_barrier=0.0).version
    # What is not fitted stays as it is documented.
    untouched = {
        name: getattr(TRN1_TIMING, name) for name in ("act_ghz", "dma_window", "fp32_passes")
    }
    assert {name: getattr(timing, name) for name in untouched} == untouched


def test_a_fold_gives_the_constants_that_have_not_seen_a_kernel():
    timing = made().timing("a")
    assert timing.window == 5
    assert timing.version == f"{made().version}-without-a"
    with pytest.raises(KeyError):
        made().timing("c")


def test_the_shipped_calibration_is_complete_and_knows_its_kernels():
    shipped = cal.current("trn1")
    assert shipped is not None
    assert set(shipped.fitted) == set(names())
    assert set(shipped.folds) == set(shipped.residuals)
    for kernel in shipped.residuals:
        timing = shipped.timing(kernel)
        assert timing.version.endswith(f"-without-{kernel}")
        assert set(shipped.folds[kernel]) == set(names())
    values = {parameter.name: parameter.values for parameter in FITTED}
    for fold in (shipped.fitted, *shipped.folds.values()):
        assert all(value in values[name] for name, value in fold.items())
    assert 0 < shipped.log_error < 0.5


# --- Which one is used ---


def test_the_backend_uses_the_newest_calibration_of_the_user():
    shipped = plugin._trn1()
    use(made("2030-01-02", pe_ghz=2.41))
    newest = made("2031-01-01", pe_ghz=2.43)
    use(newest)
    use(made("2029-12-31", pe_ghz=2.39))
    backend = plugin._trn1()
    assert backend.timing.pe_ghz == 2.43
    assert backend.version.endswith(f"/{newest.version}")
    assert backend.version != shipped.version
    assert newest.version in backend.description
    # Another device's does not count.
    use(made("2032-01-01", device="trn2", pe_ghz=2.5))
    assert plugin._trn1().timing.pe_ghz == 2.43


def test_trn2_takes_the_compilers_habits_and_twice_the_error():
    use(made(pe_ghz=2.41, window=24.0, sequential_barrier=0.0, dve_overhead_ns=20.0))
    timing = cal.timing_for("trn2")
    fitted = made(pe_ghz=2.41, window=24.0, sequential_barrier=0.0, dve_overhead_ns=20.0)
    assert (timing.window, timing.sequential_barrier, timing.dve_overhead_ns) == (24, 0, 20.0)
    speeds = set(names()) - set(COMPILER_HABITS)
    assert {name: getattr(timing, name) for name in speeds} == {
        name: getattr(TRN2_TIMING, name) for name in speeds
    }
    assert timing.log_error == pytest.approx(2 * fitted.log_error)
    assert timing.version == f"trn2-documented-with-{fitted.version}"
    # Its own measurements come first.
    use(made(device="trn2", pe_ghz=2.5))
    assert cal.timing_for("trn2").pe_ghz == 2.5
    assert cal.timing_for("trn2").log_error == pytest.approx(fitted.log_error)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not readable"),
        ("[]", "is not readable"),
        ("{}", "is not readable"),
        ('{"schema_version": 1, "device": 1}', "is not readable"),
        (
            made().model_dump_json().replace('"schema_version":1', '"schema_version":7'),
            "another version",
        ),
        (made().model_dump_json().replace('"pe_ghz"', '"pe_mhz"'), "another version"),
        (made().model_dump_json().replace('"created"', '"made"'), "is not readable"),
    ],
)
def test_a_broken_calibration_is_one_clear_error(text, message):
    folder = cal.calibrations_dir()
    folder.mkdir(parents=True)
    (folder / "trn1-2030-01-02-abc.json").write_text(text)
    with pytest.raises(ConfigError, match=message) as found:
        plugin._trn1()
    assert "trn1-2030-01-02-abc.json" in found.value.message
    assert "\n" not in found.value.message
    assert "accelopt calibrate" in found.value.hint


def test_a_calibration_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="can't read the calibration"):
        cal.load(tmp_path / "none.json")


def test_without_a_middle_end_nothing_is_dropped_and_iterations_overlap():
    timing = without_middle_end(cal.timing_for("trn1"))
    assert (timing.removes_repeats, timing.sequential_barrier) == (0, 0)
    assert timing.pe_ghz == cal.timing_for("trn1").pe_ghz


# --- The fit ---

MATMULS = """
def kernel(x):
    out = nl.ndarray((8, 128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        a = nl.load(x[i])
        acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(16):
            acc += nisa.nc_matmul(a[:, 0:128], a)
        nl.store(out[i], nl.copy(acc))
    return out
"""
VECTOR = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        a = nl.load(x[i])
        for k in nl.static_range(20):
            a[:, 0:8] = nl.add(a[:, 0:8], a[:, 8:16])
        nl.store(out[i], a)
    return out
"""
ROWS = """
def kernel(x):
    out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(8):
        for j in nl.affine_range(32):
            nl.store(out[i, :, nl.ds(16 * j, 16)], nl.load(x[i, :, nl.ds(16 * j, 16)]))
    return out
"""
X = np.zeros((8, 128, 512), np.float32)


@cache
def fitted(**truth):
    """Kernels, their fit, and what it said meanwhile."""
    kernels, said = planted(**truth), []
    return kernels, fit(kernels, TRN1, TRN1_TIMING, said.append), said


def planted(**values):
    timing = with_values(TRN1_TIMING, PRIOR | values)
    kernels = []
    for name, text in (("matmuls", MATMULS), ("vector", VECTOR), ("rows", ROWS)):
        trace = traced(text, X)
        found = predict_on(trace, TRN1, timing)
        moved = found.profile.hbm_read_bytes + found.profile.hbm_write_bytes
        kernels.append(Measured(name, trace, found.latency_us, moved))
    return kernels


@pytest.mark.parametrize(
    ("truth", "found_again"),
    [
        ({"pe_ghz": 2.37}, True),
        ({"dma_row_ns": 15.0}, True),
        # Three kernels don't pin eight parameters: what they do say is met.
        pytest.param({"dma_row_ns": 15.0, "dve_overhead_ns": 120.0}, False, marks=pytest.mark.slow),
    ],
)
def test_a_fit_meets_measurements_that_the_model_made_itself(truth, found_again):
    kernels, found, said = fitted(**truth)
    for kernel in kernels:
        assert found.predicted_us[kernel.name] == pytest.approx(kernel.latency_us, rel=0.003)
    if found_again:
        assert found.values == PRIOR | truth
    assert set(found.folds) == set(found.held_out_us) == {"matmuls", "vector", "rows"}
    assert said[-1].startswith("without rows: ")


def test_a_fit_is_deterministic_and_becomes_a_calibration():
    kernels, found, _ = fitted(pe_ghz=2.37)
    assert fit(planted(pe_ghz=2.37), TRN1, TRN1_TIMING) == found
    result = cal.calibration_of(found, kernels, "trn1", "planted")
    assert list(result.residuals) == ["matmuls", "vector", "rows"]
    assert result.residuals["rows"].measured_us == kernels[2].latency_us
    use(result)
    assert cal.timing_for("trn1") == result.timing()
    assert result.timing().pe_ghz == 2.37


def test_a_held_out_kernel_is_predicted_by_a_fit_that_has_not_seen_it():
    # Only the first kernel says how fast matmuls are: without it nothing does.
    kernels, found, _ = fitted(pe_ghz=2.37)
    assert found.folds["rows"]["pe_ghz"] == found.folds["vector"]["pe_ghz"] == 2.37
    assert found.folds["matmuls"] == PRIOR
    measured = kernels[0].latency_us
    assert found.predicted_us["matmuls"] == pytest.approx(measured)
    assert found.held_out_us["matmuls"] < 0.99 * measured


def test_without_evidence_parameters_stay_at_their_priors():
    found = fit(planted(), TRN1, TRN1_TIMING)
    assert found.values == PRIOR
    assert found.folds["rows"] == PRIOR


def test_measured_bytes_move_the_room_that_is_kept():
    spilling = """
    def kernel(x):
        out = nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.shared_hbm)
        kept = nl.ndarray((10, nl.par_dim(128), 4096), dtype=nl.float32, buffer=nl.sbuf)
        for i in nl.affine_range(10):
            kept[i, :, :] = nl.exp(nl.load(x[i]))
        for i in nl.affine_range(10):
            nl.store(out[i], kept[i, :, :])
        return out
    """
    trace = traced(spilling, np.zeros((10, 128, 4096), np.float32))
    wide = with_values(TRN1_TIMING, PRIOR | {"keep_bytes": 176.0 * 1024})
    narrow = with_values(TRN1_TIMING, PRIOR | {"keep_bytes": 140.0 * 1024})
    moved = []
    for timing in (narrow, wide):
        profile = predict_on(trace, TRN1, timing).profile
        moved.append(profile.hbm_read_bytes + profile.hbm_write_bytes)
    assert moved[0] > moved[1]
    kernels = [
        Measured(f"k{n}", trace, predict_on(trace, TRN1, wide).latency_us, moved[1])
        for n in range(3)
    ]
    assert fit(kernels, TRN1, TRN1_TIMING).values["keep_bytes"] >= 160 * 1024


def test_a_fit_takes_three_kernels():
    with pytest.raises(ValueError, match="three"):
        fit(planted()[:2], TRN1, TRN1_TIMING)


def test_parameters_are_few_and_their_priors_are_among_the_values_that_are_tried():
    assert len(FITTED) <= 8
    for parameter in FITTED:
        assert parameter.prior in parameter.values
        assert len(set(parameter.values)) == len(parameter.values)
        assert hasattr(TRN1_TIMING, parameter.name)
        assert all((parameter.meaning, parameter.source, parameter.unit))
    assert {"keep_bytes", "sequential_barrier"} == fitting.STRUCTURAL


def test_a_fit_sees_the_costs_of_the_parameters_it_tries_not_those_it_compiled_with():
    # `durations` with fresh costs against a kernel compiled with the other constants.
    kernels = planted()
    predictor = fitting.Predictor(kernels, TRN1, TRN1_TIMING)
    lowest = {parameter.name: min(parameter.values) for parameter in FITTED}
    for name, value in lowest.items():
        values = PRIOR | {name: value}
        errors = predictor.log_errors(tuple(values[n] for n in names()))
        timing = with_values(TRN1_TIMING, values)
        for kernel, error in zip(kernels, errors, strict=True):
            whole = predict_on(kernel.trace, TRN1, timing).latency_us
            assert kernel.latency_us * math.exp(error) == pytest.approx(whole, rel=1e-9), name


# --- Measurement files ---

KERNEL = {"name": "k", "file": "k.py", "latency_us": 100.0,
          "arguments": [{"shape": [8, 128, 512]}]}  # fmt: skip
FILE = {"device": "trn1", "source": "a test", "kernels": [KERNEL]}


def written(tmp_path, data):
    path = tmp_path / "measurements.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "is not JSON"),
        (FILE | {"kernels": 5}, "kernels: Input should be"),
        ({"device": "trn1"}, "source: Field required"),
        (
            FILE | {"kernels": [KERNEL | {"latency_us": "fast"}]},
            "kernels.0.latency_us: Input should be",
        ),
        (FILE | {"kernels": [KERNEL | {"speed": 1}]}, "kernels.0.speed: Extra inputs"),
        (
            FILE | {"kernels": [KERNEL | {"arguments": [{"shape": "x"}]}]},
            "kernels.0.arguments.0.shape",
        ),
        (FILE | {"schema_version": 2}, "schema_version: Input should be 1"),
    ],
)
def test_an_error_in_a_measurement_file_names_the_field(tmp_path, data, message):
    path = written(tmp_path, data)
    with pytest.raises(ConfigError) as found:
        measurements.read(path)
    assert str(path) in found.value.message
    assert message in found.value.message


def test_a_measurement_file_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="can't read"):
        measurements.read(tmp_path / "none.json")


@pytest.mark.slow
def test_kernels_of_a_measurement_file_are_traced(tmp_path):
    (tmp_path / "k.py").write_text(whole_kernel(ROWS))
    (tmp_path / "bad.py").write_text(whole_kernel("def kernel(x):\n    return nl.nothing(x)"))
    found = measurements.read(written(tmp_path, FILE))
    (kernel,) = measurements.load_kernels(found, tmp_path)
    assert (kernel.name, kernel.latency_us, kernel.hbm_bytes) == ("k", 100.0, None)
    assert kernel.trace.num_instructions == 2

    def loaded(**changes):
        data = FILE | {"kernels": [KERNEL | changes]}
        return measurements.load_kernels(measurements.read(written(tmp_path, data)), tmp_path)

    assert loaded(hbm_read_bytes=3.0, hbm_write_bytes=4.0)[0].hbm_bytes == 7.0
    assert loaded(hbm_read_bytes=3.0)[0].hbm_bytes is None
    with pytest.raises(ConfigError, match=r"can't read the kernel .*none\.py"):
        loaded(file="none.py")
    with pytest.raises(ConfigError, match="neither a task nor a file"):
        loaded(file="")
    with pytest.raises(ConfigError, match="the measured kernel k can't be traced"):
        loaded(file="bad.py")


def test_the_shipped_measurements_are_those_of_the_shipped_calibration():
    found = measurements.shipped("trn1")
    shipped = cal.current("trn1")
    assert {k.name: k.latency_us for k in found.kernels} == {
        name: row.measured_us for name, row in shipped.residuals.items()
    }
    tasks = installed().task_names()
    assert all(kernel.task in tasks for kernel in found.kernels)
    with pytest.raises(ConfigError, match="no measurements of trn2"):
        measurements.shipped("trn2")


def test_priors_are_named_as_not_calibrated():
    assert all("uncalibrated" in timing.version for timing in PRIORS.values())
    assert replace(TRN1_TIMING, version="x").version == "x"
