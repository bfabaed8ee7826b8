"""What a run may spend, and the calls in flight that will spend some of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from accelopt.config import RunConfig
from accelopt.errors import BudgetExhaustedError
from accelopt.journal import JournalCounts
from accelopt.prices import Price

_POLL_S = 0.1


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Upper bounds of a run; None: unbounded.

    Attributes:
        usd: US dollars for model calls.
        tokens: sent and received.
        evaluations: programs judged.
        minutes: wall time over all its sessions.
    """

    usd: float | None = None
    tokens: int | None = None
    evaluations: int | None = None
    minutes: float | None = None

    @classmethod
    def of(cls, config: RunConfig) -> Limits:
        """The limits of a run's settings."""
        return cls(
            usd=config.budget_usd,
            tokens=config.max_tokens,
            evaluations=config.max_evaluations,
            minutes=config.max_minutes,
        )


@dataclass(frozen=True, kw_only=True)
class Spent:
    """What a run has spent: settled, and expected for the calls in flight."""

    usd: float
    tokens: int
    evaluations: int
    minutes: float
    usd_in_flight: float
    calls_in_flight: int


@dataclass
class _Claim:
    """What a call in flight is expected to cost."""

    usd: float
    tokens: float


class Budget:
    """Admits model calls and evaluations while the run can pay for them.

    A call counts with its expected cost from the moment it starts: the size of its prompt, and the
    mean answer of its kind so far (of all kinds, before its first). Near the cap calls wait for
    those in flight, whose cost is then known; so a run ends within one call of its cap.

    Args:
        limits: upper bounds.
        spent: what the journal says was spent before.
        usage: `role/label` -> (answers, output tokens) so far.
        elapsed_s: wall time of earlier sessions.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        limits: Limits,
        spent: JournalCounts,
        usage: dict[str, tuple[int, int]] | None = None,
        *,
        elapsed_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self._clock = clock
        self._started = clock() - elapsed_s
        self._changed = threading.Condition()
        self._usd = spent.cost_usd
        self._tokens = spent.input_tokens + spent.output_tokens
        self._evaluations = spent.evaluations
        self._usage = dict(usage or {})
        self._in_flight: list[_Claim] = []

    @property
    def elapsed_s(self) -> float:
        """Wall time of the run over all its sessions."""
        return self._clock() - self._started

    def spent(self) -> Spent:
        """Where the run stands."""
        with self._changed:
            return Spent(
                usd=self._usd,
                tokens=self._tokens,
                evaluations=self._evaluations,
                minutes=self.elapsed_s / 60,
                usd_in_flight=sum(claim.usd for claim in self._in_flight),
                calls_in_flight=len(self._in_flight),
            )

    def check_time(self) -> None:
        """Refuse to go on when the run's time is over.

        Raises:
            BudgetExhaustedError: it is.
        """
        minutes = self.limits.minutes
        if minutes is not None and self.elapsed_s >= 60 * minutes:
            raise _exhausted(f"the time budget of {minutes:g} minutes", "--max-minutes")

    @contextmanager
    def call(
        self, label: str, price: Price | None, input_tokens: int, check: Callable[[], None]
    ) -> Iterator[Callable[[int, int, float | None], None]]:
        """A model call that the run can pay for; waits for others when it might not.

        Args:
            label: role and model: answers of a kind are of a size.
            price: of the model; None if it is not known.
            input_tokens: of the prompt, roughly.
            check: called while waiting; raises when the run is to end.

        Yields:
            a function to tell what the call really took: input tokens, output tokens, US dollars.

        Raises:
            BudgetExhaustedError: the budget does not allow a further call.
        """
        claim = self._claim(label, price, input_tokens, check)

        def settle(sent: int, received: int, usd: float | None) -> None:
            with self._changed:
                calls, tokens = self._usage.get(label, (0, 0))
                self._usage[label] = (calls + 1, tokens + received)
                self._tokens += sent + received
                self._usd += usd or 0.0

        try:
            yield settle
        finally:
            with self._changed:
                self._in_flight.remove(claim)
                self._changed.notify_all()

    def _claim(
        self, label: str, price: Price | None, input_tokens: int, check: Callable[[], None]
    ) -> _Claim:
        while True:
            check()
            self.check_time()
            with self._changed:
                calls = self._usage.get(label, (0, 0))[0]
                output_tokens = self._expected_output(label)
                claim = _Claim(
                    usd=0.0 if price is None else price.cost_usd(input_tokens, output_tokens),
                    tokens=input_tokens + output_tokens,
                )
                over = self._over(claim)
                # What a model that has never answered takes is a guess: one call finds out.
                alone = not self._in_flight
                if not over and (calls or alone or not self._is_bounded()):
                    self._in_flight.append(claim)
                    return claim
                if over and alone:
                    raise _exhausted(*over)
                self._changed.wait(_POLL_S)

    def _expected_output(self, label: str) -> float:
        """Tokens of the mean answer of this kind; of any kind, as long as none of it came."""
        answers = [self._usage[label]] if label in self._usage else list(self._usage.values())
        calls = sum(count for count, _ in answers)
        return sum(tokens for _, tokens in answers) / calls if calls else 0.0

    def _is_bounded(self) -> bool:
        return self.limits.usd is not None or self.limits.tokens is not None

    def _over(self, claim: _Claim) -> tuple[str, str] | None:
        """The budget that a further call would exceed, and its option."""
        usd = self._usd + claim.usd + sum(other.usd for other in self._in_flight)
        if self.limits.usd is not None and (usd > self.limits.usd or self._usd >= self.limits.usd):
            return f"the budget of {self.limits.usd:g} USD", "--budget-usd"
        tokens = self._tokens + claim.tokens + sum(other.tokens for other in self._in_flight)
        if self.limits.tokens is not None and tokens > self.limits.tokens:
            return f"the budget of {self.limits.tokens} tokens", "--max-tokens"
        return None

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """A program that the run may have judged.

        Raises:
            BudgetExhaustedError: no further one.
        """
        self.check_time()
        most = self.limits.evaluations
        with self._changed:
            if most is not None and self._evaluations >= most:
                raise _exhausted(f"the budget of {most} evaluations", "--max-evaluations")
            self._evaluations += 1
        try:
            yield
        except BaseException:
            # It was not judged after all.
            with self._changed:
                self._evaluations -= 1
            raise


def _exhausted(what: str, option: str) -> BudgetExhaustedError:
    return BudgetExhaustedError(
        f"{what} is used up", hint=f"go on with a larger {option}: accelopt resume RUN {option} N"
    )
