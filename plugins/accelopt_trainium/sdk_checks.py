"""`accelopt doctor` on the Neuron SDK: what is installed, and whether its parts belong together."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from accelopt.doctor import Check
from accelopt.errors import AcceloptError
from accelopt_trainium import confinement
from accelopt_trainium.cores import CORES_VARIABLE, allowed_cores
from accelopt_trainium.devices import Machine, find_machine
from accelopt_trainium.locations import PYTHON_VARIABLE, Locations
from accelopt_trainium.sdk import Sdk, find_sdk, what_is_missing
from accelopt_trainium.tools import LISTER, PROFILERS, find_tool

if TYPE_CHECKING:
    from accelopt_trainium.backend import TrainiumBackend


def installed_parts() -> list[Check]:
    """One look, for people who did not ask for a device: nothing here is a failure."""
    locations = Locations.from_environment()
    sdk = find_sdk(locations)
    if not any(part.version for part in sdk.parts):
        detail = "not installed: the backends trn1 and trn2 need it, nothing else does"
        return [Check(name="SDK", state="ok", detail=detail)]
    softened = [
        check.model_copy(update={"state": "warn"}) if check.state == "fail" else check
        for check in _parts(locations, sdk)
    ]
    return softened


def sdk_checks(backend: TrainiumBackend) -> list[Check]:
    """All parts, for whoever asked for this backend; what is missing is a failure."""
    found = _parts(backend.locations, backend.sdk)
    try:
        machine = find_machine(backend.locations)
    except AcceloptError as error:
        found.append(Check(name="devices", state="fail", detail=error.message, fix=error.hint))
        return found
    found += [
        _devices(machine, backend.name),
        _free_cores(machine),
        _isolation(),
        _prescreen(backend),
    ]
    return found


def _parts(locations: Locations, sdk: Sdk) -> list[Check]:
    return [
        _packages(locations, sdk),
        _library(locations, sdk),
        _driver(locations, sdk),
        _tools(locations, sdk),
        _pairing(sdk),
    ]


def _packages(locations: Locations, sdk: Sdk) -> Check:
    missing = what_is_missing(locations, sdk)
    if missing and not sdk.dialects:
        return Check(
            name="packages",
            state="fail",
            detail=missing,
            fix=f"install neuronx-cc or nki, or set {PYTHON_VARIABLE}",
        )
    said = [sdk.pair(dialect) for dialect in sorted(sdk.dialects)]
    return Check(name="packages", state="ok", detail=f"{'; '.join(said)}, in {locations.python}")


def _library(locations: Locations, sdk: Sdk) -> Check:
    if not locations.library.exists():
        detail = f"{locations.library} is missing"
        return Check(
            name="runtime", state="fail", detail=detail, fix="install aws-neuronx-runtime-lib"
        )
    return Check(name="runtime", state="ok", detail=f"libnrt {sdk.runtime or 'of unknown version'}")


def _driver(locations: Locations, sdk: Sdk) -> Check:
    if not sdk.driver:
        detail = f"{locations.driver_version} is missing: the driver is not loaded"
        fix = "install aws-neuronx-dkms, then `sudo modprobe neuron`"
        return Check(name="driver", state="fail", detail=detail, fix=fix)
    nodes = locations.device_files()
    closed = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    if not nodes or closed:
        what = f"{closed[0]} can't be opened" if closed else f"no {locations.root / 'dev'}/neuron*"
        fix = (
            "add yourself to the devices' group" if closed else "reload the driver: modprobe neuron"
        )
        return Check(name="driver", state="fail", detail=f"{sdk.driver}; {what}", fix=fix)
    return Check(name="driver", state="ok", detail=f"{sdk.driver}, device nodes: {len(nodes)}")


def _tools(locations: Locations, sdk: Sdk) -> Check:
    found = {name: find_tool(locations, name) for name in (LISTER, *PROFILERS)}
    if found[LISTER] is None or not any(found[name] for name in PROFILERS):
        detail = f"{LISTER} and {PROFILERS[0]} are needed in {locations.tools}"
        return Check(name="tools", state="fail", detail=detail, fix="install aws-neuronx-tools")
    named = ", ".join(
        f"{tool.path} (sha256 {tool.sha256[:12]})" for tool in found.values() if tool is not None
    )
    return Check(name="tools", state="ok", detail=f"{sdk.tools or 'version unknown'}: {named}")


def _pairing(sdk: Sdk) -> Check:
    if sdk.mismatches:
        return Check(
            name="version pairing",
            state="fail",
            detail="; ".join(sdk.mismatches),
            fix="install all parts of one SDK release",
        )
    unknown = [part.name for part in sdk.parts if part.version and not part.releases]
    if unknown:
        detail = f"of a release that is not known here: {', '.join(unknown)}"
        fix = "nothing, if all parts come from one release"
        return Check(name="version pairing", state="warn", detail=detail, fix=fix)
    releases = {release for part in sdk.parts for release in part.releases}
    if not releases:
        detail = "not compared: no part whose version is known is installed"
        fix = "install the parts of one SDK release"
        return Check(name="version pairing", state="warn", detail=detail, fix=fix)
    shown = ", ".join(f"2.{release}" for release in sorted(releases))
    return Check(name="version pairing", state="ok", detail=f"SDK {shown}")


def _devices(machine: Machine, wanted: str) -> Check:
    count = f"devices: {len(machine.devices)}, cores: {len(machine.cores)}"
    detail = f"{machine.instance_type or 'instance type unknown'}: {machine.generation}, {count}"
    if machine.generation != wanted:
        fix = f"use a {wanted} instance, or the backend sim-{wanted}"
        return Check(name="devices", state="fail", detail=detail, fix=fix)
    return Check(name="devices", state="ok", detail=detail)


def _free_cores(machine: Machine) -> Check:
    try:
        allowed = allowed_cores(machine.cores)
    except AcceloptError as error:
        return Check(name="free cores", state="fail", detail=error.message, fix=error.hint)
    users = [
        f"device {device.index}: pid {user.pid} {user.command[:60]}"
        for device in machine.devices
        for user in device.users
    ]
    detail = f"{len(allowed)} of {len(machine.cores)} cores may be used"
    if users:
        return Check(
            name="free cores",
            state="warn",
            detail=f"{detail}; in use: {'; '.join(users)}",
            fix=f"end these processes, or leave their cores out with {CORES_VARIABLE}",
        )
    return Check(name="free cores", state="ok", detail=f"{detail}, no other process on a device")


def _isolation() -> Check:
    try:
        held, missing = confinement.what_holds()
    except AcceloptError as error:
        return Check(name="compiling worker", state="fail", detail=error.message, fix=error.hint)
    if missing:
        detail = f"{held}; not there: {missing}"
        fix = "install bubblewrap, use Linux 5.13 or later"
        return Check(name="compiling worker", state="warn", detail=detail, fix=fix)
    return Check(name="compiling worker", state="ok", detail=held)


def _prescreen(backend: TrainiumBackend) -> Check:
    state = backend.prescreen.state()
    return Check(name="pre-screen", state="ok", detail=state)
