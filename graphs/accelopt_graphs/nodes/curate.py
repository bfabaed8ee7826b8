"""Waits for all attempts of an iteration, and chooses the slow-fast pairs that become lessons."""

from __future__ import annotations

from langgraph.runtime import Runtime

from accelopt.candidate import speedup
from accelopt.curation import Sample, choose_pairs
from accelopt_graphs.context import RunContext
from accelopt_graphs.state import PairRef, SearchState


def curate(state: SearchState, runtime: Runtime[RunContext]) -> SearchState:
    """Choose pairs over all parents of the iteration, by speedup over the immediate parent."""
    run = runtime.context
    with run.guard():
        latencies = {ref["id"]: ref["latency_us"] for ref in state["beam"]}
        samples = []
        for ref in state.get("attempts") or []:
            # Half-compared kernels lie in the dead zone: they can stand for their plan, as the
            # paper's rule has it, and never become a lesson.
            parent_us, child_us = latencies.get(ref["parent"]), ref["screened_us"]
            if parent_us and child_us:
                samples.append(
                    Sample(
                        id=ref["id"],
                        parent=ref["parent"],
                        plan=ref["plan"],
                        speedup=speedup(parent_us, child_us),
                    )
                )
        pairs = choose_pairs(
            samples,
            topk=run.config.topk_experiences,
            positive_threshold=run.config.positive_threshold,
            negative_threshold=run.config.negative_threshold,
        )
        return SearchState(
            pairs=[
                PairRef(
                    child=pair.child,
                    slow=pair.slow,
                    fast=pair.fast,
                    speedup=pair.speedup,
                    sign=pair.sign,
                )
                for pair in pairs
            ]
        )
