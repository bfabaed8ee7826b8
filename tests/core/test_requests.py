from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from accelopt.evaluation import Diagnostic
from accelopt.requests import (
    ExecuteRequest,
    FixRequest,
    OfferedExperience,
    PlanRequest,
    ProblemFacts,
    SummarizeRequest,
    parse_request,
)

PROBLEM = ProblemFacts(
    task="t",
    device="d",
    dialect="nki",
    reference_source="r",
    arguments=("(1,) float32",),
    output_shape=(1, 2),
    relative_l2_tolerance=2e-5,
)
REQUESTS = [
    PlanRequest(
        problem=PROBLEM,
        kernel="k",
        latency_us=1.5,
        profile=("a: 1",),
        line_facts={3: "x"},
        experiences=(OfferedExperience(id="e", title="t", strategy="s", speedup=2.0),),
    ),
    ExecuteRequest(problem=PROBLEM, kernel="k", plan="p", index=2, seed=5),
    FixRequest(
        problem=PROBLEM,
        kernel="k",
        parent="p",
        plan="p",
        status="incorrect",
        diagnostics=(Diagnostic(rule="r", message="m"),),
    ),
    SummarizeRequest(problem=PROBLEM, slow="s", fast="f", speedup=1.1),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_a_request_survives_json(request_):
    data = json.loads(json.dumps(request_.model_dump(mode="json")))
    assert parse_request(data) == request_


@pytest.mark.parametrize("data", [{}, {"role": "poet"}, {"role": "planner"}, None, "planner"])
def test_other_data_is_refused(data):
    with pytest.raises(ValidationError):
        parse_request(data)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda r: r.role)
def test_at_first_there_is_no_complaint_and_a_complete_file_is_asked_for(request_):
    assert request_.complaint == ""
    assert getattr(request_, "edit_mode", "full") == "full"


def test_other_ways_to_answer_are_refused():
    with pytest.raises(ValidationError):
        ExecuteRequest(problem=PROBLEM, kernel="k", plan="p", edit_mode="poem")


def test_requests_cannot_be_changed():
    with pytest.raises(ValidationError):
        REQUESTS[0].kernel = "other"
