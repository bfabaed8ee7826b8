"""Which chips this machine has, by `neuron-ls`, and who uses them."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelopt.errors import AcceloptError
from accelopt_trainium.locations import Locations
from accelopt_trainium.tools import LISTER, find_tool

LIST_S = 30.0
_GIB = 1 << 30
_TRN1_MEMORY, _TRN2_MEMORY = 32 * _GIB, 96 * _GIB


@dataclass(frozen=True)
class User:
    """A process that uses a chip."""

    pid: int
    command: str


@dataclass(frozen=True)
class Device:
    """One chip.

    Attributes:
        index: its number.
        cores: indices of its NeuronCores, as NEURON_RT_VISIBLE_CORES counts them.
        memory_bytes: of the chip.
        users: processes that use it now.
    """

    index: int
    cores: tuple[int, ...]
    memory_bytes: int
    users: tuple[User, ...]


@dataclass(frozen=True)
class Machine:
    """All chips, and what the machine calls itself.

    Attributes:
        instance_type: for example `trn1.32xlarge`; empty when it does not say.
        devices: the chips.
    """

    instance_type: str
    devices: tuple[Device, ...]

    @property
    def generation(self) -> str:
        """`trn1`, `trn2`, or what else it says it is; `unknown` when it does not."""
        family = self.instance_type.partition(".")[0].lower()
        for known in ("trn1", "trn2"):
            if family.startswith(known):
                return known
        if family:
            return family
        sizes = {device.memory_bytes for device in self.devices}
        if sizes == {_TRN2_MEMORY}:
            return "trn2"
        # Inferentia 2 has the same core and the same memory; only the instance type tells.
        return "trn1" if sizes == {_TRN1_MEMORY} else "unknown"

    @property
    def cores(self) -> tuple[int, ...]:
        """All cores."""
        return tuple(core for device in self.devices for core in device.cores)


def find_machine(locations: Locations, *, timeout_s: float = LIST_S) -> Machine:
    """Ask `neuron-ls`.

    Raises:
        AcceloptError: it is missing, finds no chip, or answers something else than it should.
    """
    tool = find_tool(locations, LISTER)
    if tool is None:
        raise AcceloptError(
            f"{LISTER} is not installed in {locations.tools}",
            hint="install aws-neuronx-tools",
        )
    with tempfile.TemporaryDirectory(prefix="accelopt-neuron-ls-") as folder:
        done = tool.run(["--json-output"], folder=Path(folder), timeout_s=timeout_s)
    if done.timed_out:
        raise AcceloptError(
            f"{LISTER} did not answer within {timeout_s:.0f} s",
            hint="the driver may hang: `sudo dmesg | grep neuron`, then reload it or reboot",
        )
    if done.code:
        raise AcceloptError(
            f"{LISTER} finds no device: {done.last_words}",
            hint="run on a Trainium instance, with aws-neuronx-dkms loaded (`lsmod | grep neuron`)",
        )
    return Machine(_instance_type(locations, done.stdout), _devices(done.stdout))


def _devices(text: str) -> tuple[Device, ...]:
    try:
        listed = json.loads(text)
        devices = tuple(_device(entry) for entry in listed)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AcceloptError(
            f"{LISTER} --json-output is not what it should be: {type(error).__name__}: {error}",
            hint="its version may be newer than this package knows; reinstall aws-neuronx-tools",
        ) from None
    if not devices:
        raise AcceloptError(f"{LISTER} lists no device", hint="run on a Trainium instance")
    return devices


def _device(entry: dict[str, Any]) -> Device:
    index, count = int(entry["neuron_device"]), int(entry["nc_count"])
    # Older tools list no indices; they are counted through.
    cores = entry.get("neuroncore_ids") or range(index * count, (index + 1) * count)
    users = tuple(
        User(int(process.get("pid", 0)), str(process.get("command", "")))
        for process in entry.get("neuron_processes") or ()
    )
    return Device(
        index=index,
        cores=tuple(int(core) for core in cores),
        memory_bytes=int(entry.get("memory_size", 0)),
        users=users,
    )


def _instance_type(locations: Locations, text: str) -> str:
    listed = json.loads(text) if text.lstrip().startswith("[") else []
    for entry in listed:
        if isinstance(entry, dict) and entry.get("instance_type"):
            return str(entry["instance_type"])
    try:
        return locations.product_name.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
