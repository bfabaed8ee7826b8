"""Calibrations: fitted parameters with their residuals, as dated files.

The newest calibration in the user's data folder is used, else the one that ships with the package.
Trainium 2 has no measurements to fit to: it takes its own documented constants, the compiler's
habits from the Trainium 1 fit, and twice its error.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from accelopt.errors import ConfigError
from accelopt.files import write_atomic
from accelopt.paths import user_data_dir
from accelopt_simulator.hardware import PRIORS, Timing
from accelopt_simulator.latency.parameters import names, with_values

if TYPE_CHECKING:
    from accelopt_simulator.latency.fit import Fit, Measured

SCHEMA_VERSION = 1
COMPILER_HABITS = ("window", "sequential_barrier", "dve_overhead_ns")
"""Fitted parameters that belong to the compiler or the engines' design, not to a device's speed."""

UNFITTED_FACTOR = 2.0
"""How much wider the error of a device without measurements is taken to be."""


class Residual(BaseModel):
    """One kernel of a fit. Latencies in microseconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured_us: float
    predicted_us: float
    held_out_us: float


class Calibration(BaseModel):
    """A fit to measurements.

    Attributes:
        device: what was fitted.
        created: ISO date.
        source: where the measurements come from.
        fitted: parameter values.
        residuals: by kernel; `held_out_us` is the prediction of a fit that has not seen it.
        folds: parameter values of those fits, by the kernel left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    device: str
    created: str
    source: str
    fitted: dict[str, float]
    residuals: dict[str, Residual]
    folds: dict[str, dict[str, float]]

    @property
    def version(self) -> str:
        """Name of the calibration: device, date and content."""
        digest = hashlib.sha256(json.dumps(self.fitted, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.device}-{self.created}-{digest}"

    @property
    def log_error(self) -> float:
        """Root mean square of ln(measured / held-out prediction)."""
        errors = [math.log(r.measured_us / r.held_out_us) for r in self.residuals.values()]
        return float(np.sqrt(np.mean(np.square(errors)))) if errors else 0.3

    def mean_error(self, *, held_out: bool) -> float:
        """Mean absolute relative error of the fitted kernels, in sample or left out."""
        rows = self.residuals.values()
        errors = [
            abs((row.held_out_us if held_out else row.predicted_us) / row.measured_us - 1)
            for row in rows
        ]
        return sum(errors) / max(1, len(errors))

    def timing(self, fold: str = "") -> Timing:
        """Constants of the latency model.

        Args:
            fold: use the fit that left this kernel out.
        """
        values = self.folds[fold] if fold else self.fitted
        version = f"{self.version}-without-{fold}" if fold else self.version
        timing = with_values(PRIORS[self.device], values)
        return replace(timing, version=version, log_error=self.log_error)


def calibration_of(fit: Fit, kernels: list[Measured], device: str, source: str) -> Calibration:
    """A calibration from a fit."""
    residuals = {
        kernel.name: Residual(
            measured_us=kernel.latency_us,
            predicted_us=round(fit.predicted_us[kernel.name], 3),
            held_out_us=round(fit.held_out_us[kernel.name], 3),
        )
        for kernel in kernels
    }
    return Calibration(
        device=device,
        created=date.today().isoformat(),
        source=source,
        fitted=fit.values,
        residuals=residuals,
        folds=fit.folds,
    )


def timing_for(device: str) -> Timing:
    """Constants of the latency model for a device, calibrated as far as there are measurements.

    Raises:
        ConfigError: a calibration file of the user's is unreadable.
    """
    own = current(device)
    if own is not None:
        return own.timing()
    fitted = current("trn1")
    if fitted is None:
        return PRIORS[device]
    habits = {name: fitted.fitted[name] for name in COMPILER_HABITS}
    return replace(
        with_values(PRIORS[device], habits),
        version=f"{device}-documented-with-{fitted.version}",
        log_error=UNFITTED_FACTOR * fitted.log_error,
    )


def fold_timings(device: str) -> dict[str, Timing]:
    """Constants of each leave-one-out fit, by the kernel left out; empty without a calibration.

    Raises:
        ConfigError: a calibration file of the user's is unreadable.
    """
    own = current(device)
    if own is not None:
        return {fold: own.timing(fold) for fold in own.folds}
    fitted = current("trn1")
    if fitted is None:
        return {}
    timings = {}
    for fold, values in fitted.folds.items():
        habits = {name: values[name] for name in COMPILER_HABITS}
        version = f"{device}-documented-with-{fitted.version}-without-{fold}"
        timings[fold] = replace(with_values(PRIORS[device], habits), version=version)
    return timings


def current(device: str) -> Calibration | None:
    """The calibration in use for a device: the user's newest, else the shipped one.

    Raises:
        ConfigError: a calibration file of the user's is unreadable.
    """
    folder = calibrations_dir()
    found = sorted(folder.glob(f"{device}-*.json")) if folder.is_dir() else []
    if found:
        return load(found[-1])
    shipped = files("accelopt_simulator") / "data" / f"calibration_{device}.json"
    if not shipped.is_file():
        return None
    return Calibration.model_validate_json(shipped.read_text(encoding="utf-8"))


def calibrations_dir() -> Path:
    """Where the user's own calibrations are kept."""
    return user_data_dir() / "calibrations"


def load(path: Path) -> Calibration:
    """Read a calibration.

    Raises:
        ConfigError: it is missing, unreadable, or of another version or set of parameters.
    """
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        result = Calibration.model_validate(data)
    except OSError as error:
        raise ConfigError(
            f"can't read the calibration {path}: {error.strerror or error}"
        ) from error
    except (ValueError, ValidationError) as error:
        raise ConfigError(
            f"the calibration {path} is not readable", hint="delete it, or run accelopt calibrate"
        ) from error
    if result.schema_version != SCHEMA_VERSION or not _complete(result.fitted):
        raise ConfigError(
            f"the calibration {path} is of another version of accelopt",
            hint="delete it, or run accelopt calibrate",
        )
    return result


def save(calibration: Calibration, path: Path) -> None:
    """Write a calibration, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, calibration.model_dump_json(indent=1) + "\n")


def _complete(values: Mapping[str, float]) -> bool:
    return set(values) == set(names())
