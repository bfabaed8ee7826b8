"""Slots for model calls, with a clock that only moves when somebody sleeps."""

from __future__ import annotations

import threading

import pytest

from accelopt_graphs.stopping import RunStoppedError, StopSignal
from accelopt_graphs.throttle import Throttle


class Time:
    """A clock and the stop signal that sleeps by it."""

    def __init__(self):
        self.now_s = 1000.0
        self.stop_at_s = float("inf")

    def __call__(self):
        return self.now_s

    def monotonic(self):
        return self.now_s

    def check(self):
        if self.now_s >= self.stop_at_s:
            raise RunStoppedError

    def sleep(self, seconds):
        assert 0 < seconds < 1
        self.now_s += seconds
        self.check()


@pytest.fixture
def time(monkeypatch):
    made = Time()
    monkeypatch.setattr("langchain_core.rate_limiters.time", made)
    return made


def starts(throttle, time, count):
    found = []
    for _ in range(count):
        with throttle.slot(time):
            found.append(time.now_s - 1000)
    return found


def test_without_bounds_calls_start_at_once(time):
    assert starts(Throttle(1, clock=time), time, 3) == [0, 0, 0]


def test_calls_are_spread_over_the_minute(time):
    found = starts(Throttle(4, 60, clock=time), time, 4)
    assert found[0] == 0
    assert found == pytest.approx([0, 1, 2, 3], abs=0.5)
    assert found == sorted(found)


def test_the_first_call_does_not_wait_even_at_a_low_rate(time):
    assert starts(Throttle(1, 0.5, clock=time), time, 1) == [0]


def test_idle_time_is_not_saved_up(time):
    throttle = Throttle(4, 60, clock=time)
    starts(throttle, time, 1)
    time.now_s += 600
    first, second = (start - 600 for start in starts(throttle, time, 2))
    assert (first, second) == (0, pytest.approx(1, abs=0.5))


def test_a_pause_holds_every_call_back(time):
    throttle = Throttle(4, clock=time)
    throttle.pause(30)
    assert starts(throttle, time, 2) == [30, 30]


def test_a_shorter_pause_does_not_end_a_longer_one(time):
    throttle = Throttle(4, clock=time)
    throttle.pause(30)
    throttle.pause(1)
    assert starts(throttle, time, 1) == [30]


def test_a_pause_that_begins_while_a_call_waits_counts_for_it_too(time):
    throttle = Throttle(4, clock=time)
    throttle.pause(10)
    sleep, paused = time.sleep, []

    def sleep_and_pause(seconds):
        sleep(seconds)
        if not paused and time.now_s > 1005:
            paused.append(throttle.pause(20))

    time.sleep = sleep_and_pause
    [start] = starts(throttle, time, 1)
    assert 25 <= start < 26


def test_a_stop_ends_the_wait_and_gives_the_place_back(time):
    throttle = Throttle(1, clock=time)
    throttle.pause(3600)
    time.stop_at_s = 1005.0
    with pytest.raises(RunStoppedError):
        starts(throttle, time, 1)
    assert time.now_s < 1006
    time.stop_at_s = float("inf")
    assert starts(throttle, time, 1) == [3600]


def test_a_stop_ends_the_wait_for_the_rate(time):
    throttle = Throttle(1, 1, clock=time)
    starts(throttle, time, 1)
    time.stop_at_s = 1005.0
    with pytest.raises(RunStoppedError):
        starts(throttle, time, 1)


def test_only_so_many_calls_run_at_once():
    throttle = Throttle(2)
    stop = StopSignal(threading.Event())
    lock, inside, most = threading.Lock(), set(), []
    two_inside = threading.Barrier(2)

    def call(number):
        with throttle.slot(stop):
            with lock:
                inside.add(number)
                most.append(len(inside))
            # Nobody leaves before there were two at once.
            two_inside.wait(10)
            with lock:
                inside.remove(number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 2
    assert len(most) == 6


def test_a_stop_ends_the_wait_for_a_place():
    throttle = Throttle(1)
    asked = threading.Event()
    stop = StopSignal(asked)
    with throttle.slot(stop):
        threading.Timer(0.02, asked.set).start()
        with pytest.raises(RunStoppedError), throttle.slot(stop):
            pass


def test_a_failed_call_gives_its_place_back(time):
    throttle = Throttle(1, clock=time)
    with pytest.raises(KeyError), throttle.slot(time):
        raise KeyError
    assert starts(throttle, time, 1) == [0]


@pytest.mark.parametrize("bounds", [(0, None), (1, 0), (1, -1)])
def test_bounds_are_positive(bounds):
    with pytest.raises(ValueError, match="positive"):
        Throttle(*bounds)
