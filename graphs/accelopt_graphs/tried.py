"""Plans that were tried, with what came of them: so that no planner proposes them again."""

from __future__ import annotations

from collections import Counter

from accelopt.candidate import speedup
from accelopt.slots import slot_key
from accelopt_graphs.state import CandidateRef, SearchState, TriedRef


def with_outcomes(state: SearchState) -> dict[str, list[TriedRef]]:
    """The tried plans by candidate, those of this iteration added."""
    latencies = {ref["id"]: ref["latency_us"] for ref in state["beam"]}
    attempts: dict[str, list[CandidateRef]] = {}
    for ref in state.get("attempts") or []:
        attempts.setdefault(ref["plan"], []).append(ref)
    tried = {candidate: list(plans) for candidate, plans in state["tried"].items()}
    for plan in sorted(state.get("plans") or [], key=lambda plan: slot_key(plan["id"])):
        outcome = _outcome(attempts.get(plan["id"], []), latencies.get(plan["parent"]))
        tried.setdefault(plan["parent"], []).append(TriedRef(plan=plan["id"], outcome=outcome))
    return tried


def _outcome(attempts: list[CandidateRef], parent_us: float | None) -> str:
    found = [ref["screened_us"] for ref in attempts if ref["screened_us"]]
    if found and parent_us:
        return f"gave {speedup(parent_us, min(found)):.2f}x"
    statuses = Counter(ref["status"] for ref in attempts)
    if not statuses:
        return "not carried out"
    # Equally frequent ones in a fixed order, whatever arrived first.
    status = min(statuses, key=lambda name: (-statuses[name], name))
    return f"gave no correct kernel: {status}"
