"""The restart policy, exactly: when a dead child is started anew, and when the pool is given up."""

from __future__ import annotations

from workfleet.model.policy import Backoff
from workfleet.pools.options import RestartPolicy
from workfleet.pools.restarts import Restarts

POLICY = RestartPolicy(max_restarts=3, window_ms=60_000, delay_ms=1_000, backoff=Backoff("exponential", 1_000, 30_000))


def restarts(policy: RestartPolicy = POLICY, draw: float = 1.0) -> Restarts:
    return Restarts(policy, lambda: draw)


def test_a_single_death_after_a_long_run_is_healed_at_once() -> None:
    assert restarts().died(0, started=0.0, now=100.0, size=2) == 0.0


def test_two_starts_are_never_closer_than_the_delay() -> None:
    assert restarts().died(0, started=10.0, now=10.25, size=1) == 0.75


def test_a_crash_loop_backs_off_and_is_given_up() -> None:
    judge, now, waits = restarts(), 0.0, []
    while (wait := judge.died(0, started=now, now=now + 0.1, size=1)) is not None:
        waits.append(wait)
        now += 0.1 + wait
    assert waits == [0.9, 1.0, 2.0]


def test_the_budget_grows_with_the_size() -> None:
    judge = restarts()
    waits = [judge.died(i % 2, started=0.0, now=1.0 + i / 100, size=2) for i in range(7)]
    assert waits == [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, None]


def test_backoff_is_capped_and_jittered() -> None:
    many = RestartPolicy(max_restarts=100, backoff=Backoff("exponential", 1_000, 30_000))
    judge = restarts(many)
    waits = [judge.died(0, started=0.0, now=10.0, size=1) for _ in range(10)]
    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0]
    judge = restarts(many, draw=0.5)
    assert [judge.died(0, started=0.0, now=10.0, size=1) for _ in range(4)] == [0.0, 0.5, 1.0, 2.0]


def test_a_completed_call_ends_the_loop() -> None:
    judge = restarts()
    for _ in range(1_000):
        assert judge.died(0, started=0.0, now=10.0, size=1) == 0.0
        judge.call_completed(0)


def test_a_place_whose_child_keeps_dying_waits_longer_while_the_others_work() -> None:
    judge = restarts()
    waits = []
    for _ in range(8):
        waits.append(judge.died(0, started=10.0, now=10.0, size=2))
        judge.call_completed(1)
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert len(judge) == 0  # the pool as a whole is in no loop
    judge.call_completed(0)
    assert judge.died(0, started=0.0, now=10.0, size=2) == 0.0


def test_old_deaths_are_forgotten() -> None:
    judge = restarts()
    for number in range(100):
        assert judge.died(0, started=0.0, now=number * 21.0, size=1) is not None
    assert len(judge) == 3


def test_a_child_that_lived_for_a_window_begins_the_row_anew() -> None:
    judge = restarts()
    assert [judge.died(0, started=0.0, now=50.0, size=2) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert judge.died(0, started=50.0, now=109.9, size=2) == 4.0
    assert judge.died(0, started=50.0, now=110.0, size=2) == 0.0


def test_the_wait_does_not_shrink_when_its_first_deaths_leave_the_window() -> None:
    judge, now, waits = restarts(RestartPolicy(max_restarts=100, backoff=POLICY.backoff)), 0.0, []
    for _ in range(12):
        wait = judge.died(0, started=now, now=now, size=1)
        assert wait is not None
        waits.append(wait)
        now += wait
    assert waits == [1.0, 1.0, 2.0, 4.0, 8.0, 16.0] + [30.0] * 6


def test_children_that_are_replaced_together_are_counted_together() -> None:
    judge = Restarts(POLICY, lambda: 1.0, together=True)
    waits = [judge.died(slot, started=0.0, now=1.0 + slot / 100, size=4) for slot in range(4)]
    assert waits == [0.0, 1.0, 2.0, None]


def test_forgetting_begins_anew() -> None:
    judge = restarts()
    while judge.died(0, started=10.0, now=10.0, size=1) is not None:
        pass
    judge.forget()
    assert judge.died(0, started=0.0, now=10.0, size=1) == 0.0


def test_a_loop_that_is_slower_than_the_window_is_given_up_too() -> None:
    """Each start takes half a minute; the window of one minute never holds four deaths."""
    judge, now, waits = restarts(), 0.0, []
    while (wait := judge.died(0, started=now, now=now + 30.0, size=1, ready=False)) is not None:
        waits.append(wait)
        now += 30.0 + wait
    assert (waits, len(judge)) == ([0.0, 1.0, 2.0], 4)


def test_so_is_one_that_its_own_waits_make_slow() -> None:
    many = RestartPolicy(max_restarts=9, window_ms=60_000, backoff=Backoff("exponential", 1_000, 30_000))
    judge, now, deaths = restarts(many), 0.0, 1
    while (wait := judge.died(0, started=now, now=now + 0.1, size=1)) is not None:
        now += 0.1 + wait
        deaths += 1
    assert deaths == 10


def test_a_start_that_takes_longer_than_the_window_is_no_life() -> None:
    judge = restarts()
    waits = [judge.died(0, started=0.0, now=90.0, size=1, ready=False) for _ in range(4)]
    assert waits == [0.0, 1.0, 2.0, None]


def test_policy_off() -> None:
    assert restarts(RestartPolicy(enabled=False)).died(0, started=0.0, now=100.0, size=1) is None
