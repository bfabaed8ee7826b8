"""Wrong kernels that the published rule accepts: the stress inputs must refuse every one.

Each is the baseline, one edit apart; the baseline itself passes the same inputs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from accelopt.evaluation import EvaluationStatus
from accelopt.plugins import installed


@dataclass(frozen=True)
class Wrong:
    """A baseline with one edit.

    Attributes:
        task: on a reduced shape.
        pattern, instead: the edit, a regular expression that matches once.
        check: the inputs that catch it.
    """

    task: str
    pattern: str
    instead: str
    check: str


STORE = r"value=(v17\[i0, i6, i7, i12, [^]]*\[:, None\], [^]]*\[None, :\]\])"
UPDATE = r"(v25\[i0, i1, i2, nl\.arange\(128\)\[:, None\], nl\.arange\(512\)\[None, :\]\]), dtype"
NEGATED_MAX = r"(op1=nl\.multiply, operand1=np\.dtype\(np\.float32\)\.type)\(-1\.0\)"
WRONG = {
    "adamw without weight decay": Wrong(
        "adamw@narrow", r"type\(1e-05\)", "type(0.0)", "stress:large_theta"
    ),
    "adamw with eps = 0": Wrong(
        "adamw@narrow", r"type\(1e-08\)", "type(0.0)", "stress:update_alone"
    ),
    # Veltkamp's splitting keeps 8 bits of a float32: bfloat16 without a bfloat16 in sight.
    "adamw with an update of 8 bits": Wrong(
        "adamw@narrow",
        UPDATE,
        r"nl.subtract(nl.multiply(\1, 65537.0), nl.subtract(nl.multiply(\1, 65537.0), \1)), dtype",
        "stress:update_alone",
    ),
    "add_rmsnorm_matmul with eps = 0": Wrong(
        "add_rmsnorm_matmul@small",
        r"nl\.add\(mean, eps\)",
        "nl.add(mean, 0.0)",
        "stress:small_rows",
    ),
    "matmul_add_rmsnorm with eps = 0": Wrong(
        "matmul_add_rmsnorm@small",
        r"nl\.add\(mean, eps\)",
        "nl.add(mean, 0.0)",
        "stress:small_rows",
    ),
    "bmm_softmax without the maximum": Wrong(
        "bmm_softmax@tall", NEGATED_MAX, r"\1(0.0)", "stress:probabilities"
    ),
    "bmm_softmax with small probabilities zeroed": Wrong(
        "bmm_softmax@tall",
        STORE,
        r"value=nl.multiply(\1, nl.greater_equal(\1, 1e-7, dtype=np.float32))",
        "stress:probabilities",
    ),
    "gqa_full without the maximum": Wrong(
        "gqa_full@heads", NEGATED_MAX, r"\1(0.0)", "stress:large_scores"
    ),
    "mamba with a truncated exponential": Wrong(
        "mamba@tall",
        r"decay = nisa\.activation\(op=nl\.exp, data=delta_tile, scale=a_column\)",
        "t = nl.multiply(delta_tile, a_column); "
        "decay = nl.add(nl.add(t, 1.0), nl.multiply(nl.multiply(t, t), 0.5))",
        "stress:strong_decay",
    ),
}


@pytest.fixture(scope="module")
def backend():
    judge = installed().backend("sim-trn1")
    yield judge
    judge.close()


@pytest.mark.parametrize("name", WRONG)
def test_a_shortcut_that_the_published_rule_accepts_is_refused(name, backend):
    wrong = WRONG[name]
    task = installed().task(wrong.task)
    text, edits = re.subn(wrong.pattern, wrong.instead, task.baseline.text)
    assert edits == 1
    source = task.baseline.model_copy(update={"text": text})
    result = backend.evaluate(task, source)
    assert result.published_gate is True
    assert result.status is EvaluationStatus.INCORRECT
    assert [check.name for check in result.checks if not check.ok] == [wrong.check]
    assert not result.correct


@pytest.mark.parametrize("task", sorted({wrong.task for wrong in WRONG.values()}))
def test_the_unedited_baseline_passes_the_same_inputs(task, backend):
    subject = installed().task(task)
    result = backend.evaluate(subject, subject.baseline)
    assert result.correct
    assert [check.name for check in result.checks][-1] == "fresh"
    assert all(check.ok for check in result.checks)
