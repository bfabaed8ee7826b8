"""Slots: names of the places in a search, from which every id and every tie comes."""

from __future__ import annotations

import re

BASELINE = "baseline"


def plan_slot(iteration: int, parent: int, plan: int) -> str:
    """Id of a plan: `i<iteration>-c<parent index>-p<plan>`."""
    return f"i{iteration}-c{parent}-p{plan}"


def sample_slot(plan: str, sample: int) -> str:
    """Id of an implementation of a plan: `<plan>-s<sample>`."""
    return f"{plan}-s{sample}"


def fixer_slot(sample: str, round_: int) -> str:
    """Slot of a fixer call; rounds count from 1."""
    return f"{sample}-f{round_}"


def summary_slot(sample: str) -> str:
    """Slot of the summarizer call for the pair of a child and its parent."""
    return f"{sample}-summary"


def retrieval_slot(iteration: int, parent: int) -> str:
    """Slot of a retrieval from the memory for one candidate of the beam."""
    return f"i{iteration}-c{parent}-memory"


def slot_key(slot: str) -> tuple[int, ...]:
    """Sort key that orders slots by their numbers, not by their text; the baseline comes first."""
    return tuple(int(number) for number in re.findall(r"\d+", slot))


def reask_slot(slot: str, number: int) -> str:
    """Slot of the same question asked again, since an answer could not be used; counts from 1."""
    return f"{slot}-r{number}"


def iteration_of(slot: str) -> int:
    """The iteration of a slot, a lesson or a state record; 0 for anything else."""
    found = re.match(r"(?:.*/)?i(\d+)(?:-|\Z)", slot)
    return int(found.group(1)) if found else 0


def state_slot(iteration: int) -> str:
    """Id of the record of where the search stood after an iteration; 0: before the first."""
    return f"i{iteration}"
