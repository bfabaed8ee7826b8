"""Where the Neuron SDK lies on this machine.

AWS installs the system packages below `/opt/aws/neuron`, the driver shows itself in `/sys`, and the
Python packages live in an environment of their own: they pin an older NumPy than accelopt needs, so
that environment is usually not ours (`/opt/aws_neuronx_venv_*` on the Deep Learning AMIs).

Sources: the installation and tools pages of the AWS Neuron documentation, SDK 2.26 to 2.32.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT_VARIABLE = "ACCELOPT_NEURON_ROOT"
"""Folder that stands for `/` when the SDK is looked for: a container's mount, or a stand-in."""
PYTHON_VARIABLE = "ACCELOPT_NEURON_PYTHON"
"""Python interpreter of the environment that holds `neuronx-cc` or `nki`."""

_HOME = "opt/aws/neuron"
_VIRTUAL_ENVIRONMENTS = "opt/aws_neuronx_venv_*/bin/python"


@dataclass(frozen=True)
class Locations:
    """Places on this machine.

    Attributes:
        root: what stands for `/`.
        python: interpreter that has the SDK's Python packages, if any has.
    """

    root: Path
    python: Path

    @classmethod
    def from_environment(cls) -> Locations:
        """What the environment says, else the usual places and this interpreter."""
        return cls(
            root=Path(os.environ.get(ROOT_VARIABLE) or "/").absolute(),
            python=Path(os.environ.get(PYTHON_VARIABLE) or sys.executable).absolute(),
        )

    @property
    def tools(self) -> Path:
        """Folder of `neuron-ls` and `neuron-profile`."""
        return self.root / _HOME / "bin"

    @property
    def library(self) -> Path:
        """The runtime, libnrt."""
        return self.root / _HOME / "lib" / "libnrt.so.1"

    @property
    def driver_version(self) -> Path:
        """File in which the loaded driver states its version."""
        return self.root / "sys/module/neuron/version"

    @property
    def product_name(self) -> Path:
        """File in which the machine states its instance type."""
        return self.root / "sys/devices/virtual/dmi/id/product_name"

    @property
    def package_status(self) -> Path:
        """Debian's list of installed packages."""
        return self.root / "var/lib/dpkg/status"

    def device_files(self) -> list[Path]:
        """The device nodes, one per chip."""
        return sorted((self.root / "dev").glob("neuron[0-9]*"))

    def other_pythons(self) -> list[Path]:
        """Interpreters of the SDK's usual virtual environments."""
        return sorted(self.root.glob(_VIRTUAL_ENVIRONMENTS))
