"""Reads one task folder: `task.toml`, `reference.py` and `baseline.py`.

A folder is data. The reference runs as a module of its own; the baseline is never imported.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelopt import KernelSource, KernelTask, TaskError
from accelopt.entry_point import find_entry
from accelopt.parsing import parse_python
from accelopt.reference_module import ModuleReference, load_reference

SUITE = "nkibench"


@dataclass(frozen=True, kw_only=True)
class TaskFolder:
    """What `task.toml` says.

    Attributes:
        path: the folder; its name is the task's short name.
        number: position in the published table.
        title: one line for people.
        tolerance: relative L2 tolerance.
        seeds: input seeds of the acceptance rule.
        sizes: size parameters of the published shape, by name.
        variants: other shapes: variant name -> sizes.
        published: published measurements by name.
    """

    path: Path
    number: int
    title: str
    tolerance: float
    seeds: tuple[int, ...]
    sizes: Mapping[str, int]
    variants: Mapping[str, Mapping[str, int]]
    published: Mapping[str, float]

    @property
    def names(self) -> list[str]:
        """The task's short name, then `name@variant` for each variant."""
        return [self.path.name, *(f"{self.path.name}@{variant}" for variant in self.variants)]

    def build(self, variant: str = "") -> KernelTask:
        """Build the task, or one of its variants. Nothing is drawn.

        Raises:
            TaskError: a file of the folder can't be used.
        """
        reference_path = self.path / "reference.py"
        sizes = dict(self.sizes) | dict(self.variants[variant] if variant else {})
        source = fill_in(reference_path.read_text(encoding="utf-8"), sizes, reference_path)
        reference = ModuleReference(load_reference(source, reference_path), reference_path)
        arguments, output_shape = reference.signature(self.seeds[0])
        short = f"{self.path.name}@{variant}" if variant else self.path.name
        baseline = (self.path / "baseline.py").read_text(encoding="utf-8")
        shape = ", ".join(f"{name} = {value}" for name, value in sizes.items())
        return KernelTask(
            name=f"{SUITE}/{short}",
            title=f"{self.title} ({shape})",
            reference=reference,
            reference_source=source,
            baseline=KernelSource(
                text=baseline, entry=find_entry(baseline, str(self.path / "baseline.py"))
            ),
            arguments=arguments,
            output_shape=output_shape,
            relative_l2_tolerance=self.tolerance,
            work=reference.work(arguments, output_shape),
            seeds=self.seeds,
            locator=f"task:{SUITE}/{short}",
            # A published figure belongs to the published shape only.
            published={} if variant else dict(self.published),
            stress=reference.stress_cases(),
            mix=reference.mix(),
        )


def read_folder(path: Path) -> TaskFolder:
    """Read a folder's `task.toml`.

    Raises:
        TaskError: it is not TOML, a key is missing, or a value has the wrong type.
    """
    file = path / "task.toml"
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
        published = data.get("published", {})
        return TaskFolder(
            path=path,
            number=int(data["number"]),
            title=str(data["title"]),
            tolerance=float(data["tolerance"]),
            seeds=tuple(int(seed) for seed in data["seeds"]),
            sizes={str(k): int(v) for k, v in data["sizes"].items()},
            variants={
                str(name): {str(k): int(v) for k, v in sizes.items()}
                for name, sizes in data.get("variants", {}).items()
            },
            published={
                f"{device}_{name}": float(value)
                for device, figures in published.items()
                for name, value in figures.items()
                if name != "provenance"
            },
        )
    except KeyError as error:
        raise TaskError(
            f"{file} has no key {error}", hint="compare it with another task's"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise TaskError(f"{file}: {error}", hint="compare it with another task's") from error


def fill_in(source: str, sizes: Mapping[str, int], path: Path) -> str:
    """The reference's text with its top-level `NAME = <int>` lines set to `sizes`.

    So the text a planner reads always states the shape it is asked about.

    Raises:
        TaskError: a size has no such line.
    """
    lines = source.splitlines(keepends=True)
    left = dict(sizes)
    for node in parse_python(source).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and isinstance(node.value, ast.Constant)
            and node.targets[0].id in left
        ):
            name = node.targets[0].id
            lines[node.lineno - 1] = f"{name} = {left.pop(name)}\n"
    if left:
        raise TaskError(
            f"{path} does not assign {', '.join(left)}", hint="add `NAME = <int>` at its top"
        )
    return "".join(lines)
