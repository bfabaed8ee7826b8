"""What a search may cost, worked out before its first paid call. Pure functions of its settings.

Every quantity is a `Spread`: a low, a likely and a high figure. The low search fills half its beam,
repairs nothing and learns nothing (and ends as early as its patience allows); the likely one has a
full beam, repairs a third of its kernels and learns half of the lessons it may; the high one makes
every call it may.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelopt.config import RunConfig
from accelopt.models import Role
from accelopt.prices import Price

INPUT_ERROR = 0.25
"""Relative error of token counts that are worked out from texts (`accelopt.tokens`)."""

FAILING_SHARE = 1 / 3
"""Of the executor's kernels, in the likely search. Ours: models that know the language do better,
small ones worse."""

REPAIRED_SHARE = 1 / 2
"""Of the kernels that a repair round mends, in the likely search. Ours."""

_REASONING_NAME = re.compile(
    r"(?:\A|[-/:_.])(?:o[1-9]|gpt-5|gpt-oss|gemini-(?:2\.5|3)|deepseek-r\d|qwq|grok-4)(?:\Z|[-/:_.])"
    r"|think|reason",
    re.IGNORECASE,
)
_NO_REASONING_EFFORTS = ("none", "minimal")


@dataclass(frozen=True)
class Spread:
    """A low, a likely and a high figure, in that order of size."""

    low: float
    likely: float
    high: float

    def __add__(self, other: Spread) -> Spread:
        return Spread(self.low + other.low, self.likely + other.likely, self.high + other.high)

    def __mul__(self, other: Spread | float) -> Spread:
        by = other if isinstance(other, Spread) else Spread(other, other, other)
        return Spread(self.low * by.low, self.likely * by.likely, self.high * by.high)

    def capped(self, most: float | None) -> Spread:
        """The same with no figure above `most`; None caps nothing."""
        if most is None:
            return self
        return Spread(min(self.low, most), min(self.likely, most), min(self.high, most))


ZERO = Spread(0, 0, 0)

PLAN_TOKENS = Spread(200, 400, 800)
"""One step in plain prose. Ours."""

LESSON_TOKENS = Spread(150, 350, 700)
"""A title, a short description and a few lines of code twice. Ours."""

REMARK_TOKENS = Spread(0, 100, 300)
"""What a model says beside a kernel. Ours."""

REASONING_TOKENS = Spread(1_000, 4_000, 12_000)
"""Mean per answer of a reasoning model, billed as output. The vendors' guides speak of a few
hundred to some tens of thousands; the mean of many calls lies between."""

_KERNEL_SIZE = {"full": Spread(0.9, 1.1, 1.5), "edits": Spread(0.1, 0.4, 1.0)}
"""Length of an answered kernel over that of the baseline. Edits quote the lines they change."""


@dataclass(frozen=True, kw_only=True)
class SearchSize:
    """How far a search may go, in the paper's letters.

    Attributes:
        beam_width: B.
        num_plans: N.
        num_samples: K.
        iterations: T.
        fixer_rounds: F.
        topk_experiences: TopK.
        patience: iterations without a faster kernel that end it; 0: all run.
    """

    beam_width: int
    num_plans: int
    num_samples: int
    iterations: int
    fixer_rounds: int = 0
    topk_experiences: int = 0
    patience: int = 0

    @classmethod
    def of(cls, config: RunConfig) -> SearchSize:
        """The size that a run's settings ask for."""
        return cls(
            beam_width=config.beam_width,
            num_plans=config.num_plans,
            num_samples=config.num_samples,
            iterations=config.iterations,
            fixer_rounds=config.fixer_rounds,
            topk_experiences=config.topk_experiences,
            patience=config.patience,
        )


def call_counts(size: SearchSize) -> dict[Role, Spread]:
    """Model calls per role; the high ones are what the search can't exceed, re-asks aside.

    The first iteration has one parent, each later one at most B of them, with N plans each. Lessons
    are learned in the last iteration too, where the paper's code stops before them (its 120
    summarizer calls are 128 here).
    """
    shortest = min(size.patience, size.iterations) if size.patience else size.iterations
    half_beam = math.ceil(size.beam_width / 2)
    most = size.num_plans * _parents(size.beam_width, size.iterations)
    plans = Spread(size.num_plans * _parents(half_beam, shortest), most, most)
    kernels = plans * size.num_samples
    # A repair is tried on what fails, and again on what the round before did not mend.
    rounds = sum(FAILING_SHARE * (1 - REPAIRED_SHARE) ** n for n in range(size.fixer_rounds))
    first, later = (
        min(size.topk_experiences, size.num_plans * parents) for parents in (1, size.beam_width)
    )
    lessons = first + (size.iterations - 1) * later
    return {
        Role.PLANNER: plans,
        Role.EXECUTOR: kernels,
        Role.FIXER: kernels * Spread(0, rounds, size.fixer_rounds),
        Role.SUMMARIZER: Spread(0, lessons / 2, lessons),
    }


def _parents(beam_width: int, iterations: int) -> int:
    return 1 + (iterations - 1) * beam_width


@dataclass(frozen=True, kw_only=True)
class PromptSize:
    """Tokens of a role's prompts: of its first one, and of one when lessons and plans are known."""

    first: int
    grown: int

    @property
    def per_call(self) -> Spread:
        """Input tokens of a call."""
        return Spread(
            (1 - INPUT_ERROR) * self.first,
            (self.first + self.grown) / 2,
            (1 + INPUT_ERROR) * self.grown,
        )


def answer_tokens(role: Role, kernel_tokens: int, edit_mode: str = "full") -> Spread:
    """Output tokens of an answer without reasoning.

    Args:
        role: who answers.
        kernel_tokens: of the baseline.
        edit_mode: `full` or `edits`.
    """
    if role is Role.PLANNER:
        return PLAN_TOKENS
    if role is Role.SUMMARIZER:
        return LESSON_TOKENS
    return _KERNEL_SIZE[edit_mode] * kernel_tokens + REMARK_TOKENS


def is_reasoning(name: str, reasoning_effort: str = "") -> bool:
    """Whether a model reasons before it answers: it is asked to, or its name says so.

    Args:
        name: the provider's name of the model.
        reasoning_effort: of the run's settings.
    """
    if reasoning_effort:
        return reasoning_effort.lower() not in _NO_REASONING_EFFORTS
    return _REASONING_NAME.search(name) is not None


@dataclass(frozen=True, kw_only=True)
class PricedModel:
    """A model that plays a role.

    Attributes:
        label: for people and the price table, `openai:gpt-5-mini`.
        weight: how often it is asked, relative to the role's other models; positive.
        price: None when it is not known.
        reasoning: whether it reasons before it answers.
    """

    label: str
    weight: float
    price: Price | None
    reasoning: bool = False


@dataclass(frozen=True, kw_only=True)
class RoleEstimate:
    """What one role may cost in a run.

    Attributes:
        role: the agent.
        models: who plays it.
        calls: model calls.
        input_tokens, output_tokens: of all these calls.
        known_usd: US dollars for the models with a known price.
        unpriced: labels of the models without, as far as they may be asked.
    """

    role: Role
    models: tuple[PricedModel, ...]
    calls: Spread
    input_tokens: Spread
    output_tokens: Spread
    known_usd: Spread
    unpriced: tuple[str, ...] = ()

    @property
    def cost_usd(self) -> Spread | None:
        """US dollars; None when a price is missing."""
        return None if self.unpriced else self.known_usd


def estimate_role(
    role: Role,
    models: Sequence[PricedModel],
    calls: Spread,
    input_tokens: Spread,
    output_tokens: Spread,
    *,
    max_output_tokens: int | None = None,
) -> RoleEstimate:
    """What a role may cost. The models of an ensemble answer in proportion to their weights.

    Args:
        role: the agent.
        models: at least one.
        calls: in the run.
        input_tokens: per call.
        output_tokens: per call, without reasoning.
        max_output_tokens: what the server is told to stop at; None: nothing.
    """
    total = sum(model.weight for model in models)
    sent = received = known_usd = ZERO
    unpriced: list[str] = []
    for model in models:
        share = calls * (model.weight / total)
        answer = output_tokens + (REASONING_TOKENS if model.reasoning else ZERO)
        its_input, its_output = share * input_tokens, share * answer.capped(max_output_tokens)
        sent, received = sent + its_input, received + its_output
        if model.price is not None:
            known_usd += (its_input * model.price.input + its_output * model.price.output) * 1e-6
        elif calls.high:
            unpriced.append(model.label)
    return RoleEstimate(
        role=role,
        models=tuple(models),
        calls=calls,
        input_tokens=sent,
        output_tokens=received,
        known_usd=known_usd,
        unpriced=tuple(unpriced),
    )


@dataclass(frozen=True)
class CostEstimate:
    """What a run may cost, role by role."""

    roles: tuple[RoleEstimate, ...]

    @property
    def calls(self) -> Spread:
        """Model calls of all roles."""
        return _sum(role.calls for role in self.roles)

    @property
    def input_tokens(self) -> Spread:
        """Tokens sent."""
        return _sum(role.input_tokens for role in self.roles)

    @property
    def output_tokens(self) -> Spread:
        """Tokens received, reasoning included."""
        return _sum(role.output_tokens for role in self.roles)

    @property
    def known_usd(self) -> Spread:
        """US dollars for the models with a known price."""
        return _sum(role.known_usd for role in self.roles)

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Labels of the models without a known price, each once."""
        return tuple(dict.fromkeys(label for role in self.roles for label in role.unpriced))

    @property
    def cost_usd(self) -> Spread | None:
        """US dollars; None when a price is missing."""
        return None if self.unpriced else self.known_usd


def estimate_cost(
    config: RunConfig,
    size: SearchSize,
    models: Mapping[Role, Sequence[PricedModel]],
    prompts: Mapping[Role, PromptSize],
    kernel_tokens: int,
) -> CostEstimate:
    """What a run may cost.

    Args:
        config: its settings.
        size: calls follow from it; usually `SearchSize.of(config)`.
        models: who plays each role.
        prompts: their sizes.
        kernel_tokens: of the baseline.
    """
    counts = call_counts(size)
    return CostEstimate(
        tuple(
            estimate_role(
                role,
                models[role],
                counts[role],
                prompts[role].per_call,
                answer_tokens(role, kernel_tokens, config.edit_mode),
                max_output_tokens=config.max_output_tokens,
            )
            for role in Role
        )
    )


def _sum(spreads: Iterable[Spread]) -> Spread:
    return sum(spreads, ZERO)
