"""What agents are told about a device and a kernel language; a backend may replace any of it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from accelopt.device import DeviceSpec
from accelopt.errors import ConfigError
from accelopt.kernel import Dialect
from accelopt.prompts.template import fill_text, load_text

_CODING_RULES = {
    Dialect.NEURONXCC_NKI.value: "rules_neuronxcc_nki.md",
    Dialect.NKI.value: "rules_nki.md",
}


class PromptFacts(BaseModel):
    """The part of the prompts that depends on the device and the dialect.

    Attributes:
        hardware_limits: peaks and capacities, one line each.
        api_notes: what every kernel has to respect, and the coding rules of the dialect; Markdown.
        profile_glossary: counter name, or several with commas between them -> what it means.
        language: what people call the kernel language.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hardware_limits: tuple[str, ...]
    api_notes: str
    profile_glossary: dict[str, str]
    language: str = ""


def default_prompt_facts(device: DeviceSpec, dialect: str) -> PromptFacts:
    """The facts of a device that runs NKI: its own figures and the packaged texts of the dialect.

    Raises:
        ConfigError: there are no texts for the dialect.
    """
    if dialect not in _CODING_RULES:
        raise ConfigError(
            f"there are no coding rules for the dialect {dialect!r}",
            hint=f"one of {', '.join(_CODING_RULES)}, or a backend with prompt facts of its own",
        )
    basics = fill_text("nki_facts.md", {"num_partitions": str(device.num_partitions)})
    return PromptFacts(
        hardware_limits=hardware_limits(device),
        api_notes=f"{basics}\n\n{load_text(_CODING_RULES[dialect])}",
        profile_glossary=packaged_glossary(),
        language=f"NKI, the Neuron Kernel Interface (dialect `{dialect}`)",
    )


def hardware_limits(device: DeviceSpec) -> tuple[str, ...]:
    """Peaks and capacities of a device as lines for a prompt."""
    sbuf, psum = device.sbuf_bytes_per_partition, device.psum_bytes_per_partition
    return (
        f"Partitions of the on-chip buffers: {device.num_partitions}",
        f"SBUF: at most {sbuf} bytes ({sbuf / 1024:.4g} KiB) per partition",
        f"PSUM: at most {psum} bytes ({psum / 1024:.4g} KiB) per partition",
        f"Peak HBM bandwidth: {device.hbm_bandwidth_bytes_per_s / 1e9:.4g} GB/s",
        f"Peak float32 matmul: {device.fp32_matmul_flops_per_s / 1e12:.4g} TFLOP/s",
        "Peak of the vector and the scalar engine together:"
        f" {device.vector_flops_per_s / 1e9:.4g} GFLOP/s",
    )


def packaged_glossary() -> dict[str, str]:
    """What the profiler's counters mean."""
    entries = (line.removeprefix("- ") for line in load_text("profile_glossary.md").splitlines())
    return dict(entry.split(": ", 1) for entry in entries)
