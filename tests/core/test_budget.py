"""The budget of a run: what it admits, what waits, and where it ends."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from accelopt.budget import Budget, Limits
from accelopt.config import RunConfig
from accelopt.errors import BudgetExhaustedError
from accelopt.journal import JournalCounts
from accelopt.prices import Price

DEAR = Price(input=0.0, output=1e6)
"""A dollar per output token."""


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def budget(spent=None, usage=None, **limits):
    return Budget(Limits(**limits), JournalCounts(**(spent or {})), usage)


def go_on():
    pass


def pay(made, *, label="a", price=DEAR, sent=0, received=0, usd=0.0):
    with made.call(label, price, sent, go_on) as settle:
        settle(sent, received, usd)


class Background:
    """Something done in a thread, with its outcome."""

    def __init__(self, work):
        self.error = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(work,))
        self._thread.start()

    def _run(self, work):
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        finally:
            self.done.set()

    def join(self):
        self._thread.join(10)
        assert not self._thread.is_alive()


def test_the_limits_are_those_of_the_settings():
    config = RunConfig.load(budget_usd=1.5, max_tokens=10, max_evaluations=3, max_minutes=2.0)
    assert Limits.of(config) == Limits(usd=1.5, tokens=10, evaluations=3, minutes=2.0)
    assert Limits.of(RunConfig.load()) == Limits()


def test_without_limits_everything_goes():
    made = budget()
    with made.call("a", None, 10**9, go_on), made.call("b", DEAR, 10**9, go_on):
        assert made.spent().calls_in_flight == 2
    for _ in range(100):
        with made.evaluation():
            pass
    assert made.spent().evaluations == 100


def test_what_was_spent_before_counts():
    before = {"cost_usd": 0.9, "input_tokens": 60, "output_tokens": 30, "evaluations": 4}
    made = budget(before, usd=1.0)
    spent = made.spent()
    assert (spent.usd, spent.tokens, spent.evaluations) == (0.9, 90, 4)
    pay(made, usd=0.1)
    with pytest.raises(BudgetExhaustedError, match="1 USD is used up"):
        pay(made)


def test_dollars():
    made = budget(usd=10.0)
    pay(made, received=4, usd=4.0)
    pay(made, received=4, usd=4.0)
    # The third is expected to cost 4 as well, and 12 is too much.
    with pytest.raises(BudgetExhaustedError, match=r"10 USD is used up .*--budget-usd"):
        pay(made)
    assert made.spent().usd == 8.0


def test_a_prompt_counts_before_any_answer_is_known():
    price = Price(input=1e6, output=0.0)
    made = budget(usd=10.0)
    with pytest.raises(BudgetExhaustedError):
        pay(made, price=price, sent=11)
    pay(made, price=price, sent=10, usd=10.0)


def test_a_call_without_a_price_costs_no_dollars_but_tokens():
    made = budget(usd=1.0, tokens=100)
    pay(made, price=None, sent=30, received=20, usd=None)
    assert (made.spent().usd, made.spent().tokens) == (0.0, 50)
    pay(made, price=None, sent=30, received=20, usd=None)
    with pytest.raises(BudgetExhaustedError, match=r"100 tokens is used up .*--max-tokens"):
        pay(made, price=None, sent=1)


def test_the_mean_answer_of_a_kind_is_expected():
    made = budget(usage={"a": (2, 20), "b": (1, 1)}, tokens=100)
    with made.call("a", None, 5, go_on), made.call("b", DEAR, 0, go_on):
        spent = made.spent()
        assert spent.calls_in_flight == 2
        assert spent.usd_in_flight == 1.0
    assert made.spent().calls_in_flight == 0


@pytest.mark.parametrize(("usd", "pays"), [(9.9, False), (10.0, True)])
def test_a_kind_that_has_never_answered_is_expected_to_take_what_the_others_take(usd, pays):
    made = budget(usage={"a": (3, 25), "b": (1, 15)}, usd=usd)
    if pays:
        pay(made, label="c")
        return
    with pytest.raises(BudgetExhaustedError):
        pay(made, label="c")


def test_calls_in_flight_count_and_others_wait_for_them():
    made = budget(usage={"a": (1, 4)}, usd=10.0)
    with made.call("a", DEAR, 0, go_on) as first, made.call("a", DEAR, 0, go_on) as second:
        third = Background(lambda: pay(made, received=1, usd=1.0))
        assert not third.done.wait(0.3)
        assert made.spent().usd_in_flight == 8.0
        # Cheaper than expected: the third can be paid for once that is known.
        first(0, 1, 1.0)
        second(0, 1, 1.0)
    third.join()
    assert third.error is None
    assert made.spent().usd == 3.0


def test_whoever_waits_is_refused_when_those_in_flight_used_it_up():
    made = budget(usage={"a": (1, 4)}, usd=10.0)
    with made.call("a", DEAR, 0, go_on) as first, made.call("a", DEAR, 0, go_on) as second:
        third = Background(lambda: pay(made))
        assert not third.done.wait(0.3)
        first(0, 4, 4.0)
        second(0, 4, 4.0)
    third.join()
    assert isinstance(third.error, BudgetExhaustedError)


def test_a_first_call_of_an_unknown_kind_goes_alone():
    made = budget(usage={"a": (1, 1)}, usd=100.0)
    with made.call("a", DEAR, 0, go_on):
        unknown = Background(lambda: pay(made, label="b", received=1, usd=1.0))
        assert not unknown.done.wait(0.3)
    unknown.join()
    assert unknown.error is None
    # Now it is known, and goes beside others.
    with made.call("a", DEAR, 0, go_on), made.call("b", DEAR, 0, go_on):
        assert made.spent().calls_in_flight == 2


def test_of_many_first_calls_one_goes_at_a_time():
    made = budget(tokens=1000)
    together, most, lock = 0, 0, threading.Lock()

    def first(number):
        nonlocal together, most
        with made.call(f"kind {number}", None, 1, go_on) as settle:
            with lock:
                together += 1
                most = max(most, together)
            time.sleep(0.02)
            settle(1, 1, None)
            with lock:
                together -= 1

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(first, range(4)))
    assert most == 1


@pytest.mark.parametrize("cost_usd", [0.0009, 0.004, 0.02])
def test_eight_threads_end_within_one_call_of_the_cap(cost_usd):
    cap_usd = 0.05
    made, price = budget(usd=cap_usd), Price(input=0.0, output=cost_usd * 1e6)

    def hammer(_):
        while True:
            try:
                with made.call("a", price, 10, go_on) as settle:
                    time.sleep(0.0005)
                    settle(10, 1, cost_usd)
            except BudgetExhaustedError:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hammer, range(8)))
    spent = made.spent()
    assert cap_usd - cost_usd - 1e-9 <= spent.usd <= cap_usd + cost_usd + 1e-9
    assert (spent.calls_in_flight, spent.usd_in_flight) == (0, 0)


def test_costs_above_the_expected_ones_end_within_the_calls_in_flight():
    # Answers of two sizes: what is expected is the mean, so the last call may be dearer.
    cap_usd, numbers = 0.05, iter(range(10**6))
    made, price = budget(usd=cap_usd), Price(input=0.0, output=1e6)

    def hammer(_):
        while True:
            usd = 0.001 if next(numbers) % 2 else 0.003
            try:
                with made.call("a", price, 0, go_on) as settle:
                    settle(0, 0, usd)
            except BudgetExhaustedError:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hammer, range(8)))
    assert cap_usd <= made.spent().usd <= cap_usd + 8 * 0.003


def test_a_call_that_fails_gives_its_claim_back():
    made = budget(usage={"a": (1, 6)}, usd=10.0)
    with pytest.raises(ValueError, match="broken"), made.call("a", DEAR, 0, go_on):
        raise ValueError("broken")
    spent = made.spent()
    assert (spent.usd, spent.calls_in_flight, spent.usd_in_flight) == (0.0, 0, 0)
    pay(made, received=6, usd=6.0)


def test_a_call_that_fails_wakes_whoever_waits():
    made, fail = budget(usage={"a": (1, 6)}, usd=10.0), threading.Event()

    def fails():
        with made.call("a", DEAR, 0, go_on):
            fail.wait(10)
            raise ValueError("broken")

    failing = Background(fails)
    while not made.spent().calls_in_flight:
        time.sleep(0.001)
    waiting = Background(lambda: pay(made, received=6, usd=6.0))
    assert not waiting.done.wait(0.2)
    fail.set()
    failing.join()
    waiting.join()
    assert isinstance(failing.error, ValueError)
    assert waiting.error is None


def test_a_failed_first_call_leaves_its_kind_unknown():
    made = budget(usd=10.0)
    with pytest.raises(ValueError, match="broken"), made.call("b", DEAR, 0, go_on):
        raise ValueError("broken")
    with made.call("a", DEAR, 0, go_on):
        unknown = Background(lambda: pay(made, label="b"))
        assert not unknown.done.wait(0.2)
    unknown.join()


def test_waiting_ends_when_the_run_is_to_stop():
    made, stop = budget(usage={"a": (1, 6)}, usd=10.0), threading.Event()

    class StoppedError(Exception):
        pass

    def check():
        if stop.is_set():
            raise StoppedError

    def waits():
        with made.call("a", DEAR, 0, check):
            raise AssertionError("there is no money for it")

    with made.call("a", DEAR, 0, go_on):
        waiting = Background(waits)
        assert not waiting.done.wait(0.2)
        stop.set()
        waiting.join()
    assert isinstance(waiting.error, StoppedError)
    assert made.spent().calls_in_flight == 0


def test_evaluations():
    made = budget({"evaluations": 1}, evaluations=3)
    for _ in range(2):
        with made.evaluation():
            pass
    for _ in range(2):
        message = r"3 evaluations is used up .*--max-evaluations"
        with pytest.raises(BudgetExhaustedError, match=message), made.evaluation():
            raise AssertionError("it must not be judged")
    assert made.spent().evaluations == 3


def test_an_evaluation_that_breaks_does_not_count():
    made = budget(evaluations=1)
    with pytest.raises(ValueError, match="broken"), made.evaluation():
        raise ValueError("broken")
    assert made.spent().evaluations == 0
    with made.evaluation():
        pass


def test_eight_threads_make_no_evaluation_too_many():
    made, judged = budget(evaluations=20), []

    def judge(number):
        try:
            with made.evaluation():
                judged.append(number)
        except BudgetExhaustedError:
            pass

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(judge, range(100)))
    assert len(judged) == made.spent().evaluations == 20


def test_minutes_count_over_all_sessions():
    clock = Clock()
    made = Budget(Limits(minutes=2.0), JournalCounts(), elapsed_s=90.0, clock=clock)
    made.check_time()
    with made.evaluation():
        pass
    pay(made)
    clock.now_s += 29.0
    made.check_time()
    assert made.elapsed_s == 119.0
    clock.now_s += 1.0
    assert made.spent().minutes == 2.0
    for refused in (made.check_time, lambda: pay(made)):
        with pytest.raises(BudgetExhaustedError, match=r"2 minutes is used up .*--max-minutes"):
            refused()
    with pytest.raises(BudgetExhaustedError), made.evaluation():
        pass
    assert made.spent().evaluations == 1
