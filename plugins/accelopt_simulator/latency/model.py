"""What the judge reports about a kernel's latency: plain data from a prediction."""

from __future__ import annotations

from accelopt.device import DeviceSpec
from accelopt.kernel import Work
from accelopt_simulator.hardware import Timing
from accelopt_simulator.kernel_profile import KernelProfile, profile_of
from accelopt_simulator.latency.predict import Prediction, predict_on
from accelopt_simulator.profile_text import prompt_text
from accelopt_simulator.trace.schema import Trace
from accelopt_simulator.verdict import LatencyReport

WHAT_IF_LIMIT = 40_000
"""Events up to which the explanation also predicts what-ifs: each is another replay."""


def estimate_latency(
    trace: Trace, device: DeviceSpec, timing: Timing, work: Work | None = None
) -> LatencyReport:
    """Predict the latency of a trace that passed the constraints, and say where the time goes.

    Args:
        trace: the kernel.
        device, timing: what it runs on.
        work: what the task must do at least, for the share of peak.

    Raises:
        TooManyInstancesError: the trace is too large for this model.
    """
    prediction = predict_on(trace, device, timing)
    what_if = len(prediction.execution) <= WHAT_IF_LIMIT
    shown = profile_of(prediction, work, device, "", what_if=what_if)
    return LatencyReport(
        latency_us=prediction.latency_us,
        low_us=prediction.low_us,
        high_us=prediction.high_us,
        profile=prediction.profile,
        bound=shown.bound,
        busy_us=prediction.busy_us,
        line_facts=_line_facts(shown),
        explanation=prompt_text(shown),
        features=_features(prediction),
        notes=prediction.notes,
    )


def _line_facts(shown: KernelProfile) -> dict[int, str]:
    facts = {}
    for share in sorted(shown.lines, key=lambda share: share.line):
        if share.line <= 0:
            continue
        busy = ", ".join(
            f"{name} {us:.0f} us"
            for name, us in sorted(share.busy_us.items(), key=lambda item: -item[1])
            if us > 0
        )
        facts[share.line] = (
            f"{100 * share.share:.0f} % of the critical path; busy {busy or 'no time'}; "
            f"waits for {share.wait_text}"
        )
    return facts


def _features(prediction: Prediction) -> dict[str, float]:
    span = max(prediction.latency_us - prediction.timing.overhead_us, 1e-9)
    features = {f"busy_{name}": us / span for name, us in prediction.busy_us.items()}
    execution = prediction.execution
    for code, name in enumerate(execution.op_names):
        runs = float((execution.op == code).sum()) * execution.repeats
        if runs:
            features[f"count_{name}"] = runs
    counters = prediction.profile.model_dump()
    return features | {
        name: value
        for name, value in counters.items()
        if value is not None and name.endswith(("_bytes", "_flops"))
    }
