"""`accelopt calibrate`: fit the latency model to measurements."""

from __future__ import annotations

from pathlib import Path

import typer


def calibrate(
    measurements: Path | None = typer.Option(  # noqa: B008 - typer declares options so
        None, "--measurements", help="Measurement file; by default the one that ships."
    ),
    device: str = typer.Option("trn1", "--device", help="Device of the shipped measurements."),
    output: Path | None = typer.Option(  # noqa: B008
        None, "--output", "-o", help="File to write; by default one that the backends then use."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the calibration as JSON."),
) -> None:
    """Fit the latency model to measured kernels, with each left out in turn.

    Without -o the result goes to the user's data folder, and the simulator backends use it from
    then on.
    """
    # Imported here: the command line lists its commands without loading NumPy.
    from accelopt.cli.output import console, print_facts, print_json, print_table
    from accelopt.errors import ConfigError
    from accelopt_simulator import measurements as data
    from accelopt_simulator.hardware import DEVICES, PRIORS
    from accelopt_simulator.latency import calibration, fit
    from accelopt_simulator.latency.parameters import FITTED

    found = data.read(measurements) if measurements else data.shipped(device)
    if found.device not in DEVICES:
        raise ConfigError(
            f"unknown device {found.device!r} in the measurements",
            hint=f"use one of {', '.join(DEVICES)}",
        )
    if len(found.kernels) < 3:
        raise ConfigError("a fit takes at least three measured kernels")
    if output is not None and not output.absolute().parent.is_dir():
        raise ConfigError(f"can't write {output}: no folder {output.parent}")
    kernels = data.load_kernels(found, measurements.parent if measurements else Path())

    with console().status("fitting") as status:
        done = fit.fit(
            kernels,
            DEVICES[found.device],
            PRIORS[found.device],
            lambda words: None if as_json else status.update(f"fitting: {words}"),
        )
    result = calibration.calibration_of(done, kernels, found.device, found.source)
    target = output or calibration.calibrations_dir() / f"{result.version}.json"
    calibration.save(result, target)
    if as_json:
        print_json(result.model_dump() | {"version": result.version, "file": str(target)})
        return
    print_facts(
        {
            "calibration": result.version,
            "kernels": str(len(kernels)),
            "mean error": f"{100 * result.mean_error(held_out=False):.1f} %",
            "left out": f"{100 * result.mean_error(held_out=True):.1f} %",
            "file": str(target),
        }
    )
    print_table(
        ["kernel", "measured us", "predicted us", "error %", "left out %"],
        [
            [
                name,
                f"{row.measured_us:.0f}",
                f"{row.predicted_us:.0f}",
                f"{100 * (row.predicted_us / row.measured_us - 1):+.1f}",
                f"{100 * (row.held_out_us / row.measured_us - 1):+.1f}",
            ]
            for name, row in result.residuals.items()
        ],
        right=["measured us", "predicted us", "error %", "left out %"],
    )
    print_table(
        ["parameter", "value", "prior", "unit", "meaning"],
        [[p.name, f"{result.fitted[p.name]:g}", f"{p.prior:g}", p.unit, p.meaning] for p in FITTED],
        right=["value", "prior"],
        flexible=["meaning"],
    )
