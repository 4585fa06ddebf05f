"""The strategies: which of several children gets a call."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.pools.place import Place
from workfleet.pools.marks import Strategy
from workfleet.pools.process import Exit

ALL: tuple[Strategy, ...] = ("least_busy", "round_robin", "power_of_two", "consistent_hash")
DEAD = Exit(-9, "signal SIGKILL", "")


def one_after_another(place: Place, calls: int) -> list[int]:
    """Which children get calls that each come when the one before is done."""
    had = []
    for _ in range(calls):
        place.submit()
        (which,) = [number for number, line in enumerate(place.lines()) if line]
        place.answer(which)
        had.append(which)
    return had


@pytest.mark.parametrize("strategy", ALL)
async def test_no_call_waits_while_a_child_is_idle_and_all_come_in_order(strategy: Strategy) -> None:
    place = Place(3, strategy=strategy)
    for _ in range(8):
        place.submit()
    assert sorted(map(len, place.lines())) == [1, 1, 1]
    assert place.desk.queued == 5
    served = [call for line in place.lines() for call in line]
    for which in (2, 0, 1, 0, 1):
        place.answer(which)
        assert place.lines()[which] == [max(served) + 1]
        served += place.lines()[which]
    assert (place.desk.queued, place.desk.unfinished) == (0, 3)


@pytest.mark.parametrize("strategy", ALL)
async def test_an_idle_child_comes_before_a_busy_one_that_could_have_it_sent_ahead(strategy: Strategy) -> None:
    for seed in range(20):
        place = Place(4, strategy=strategy, draw=random.Random(seed).random)
        for _ in range(200):
            place.submit()
            for which, line in enumerate(place.lines()):
                if line:
                    place.answer(which)
        for _ in range(4):
            place.submit()
        assert [len(line) for line in place.lines()] == [1, 1, 1, 1]
        for _ in range(40):
            place.submit()
        assert place.desk.queued == 0
        assert sum(len(line) for line in place.lines()) == 44


async def test_least_busy_prefers_the_first_of_the_idle() -> None:
    assert one_after_another(Place(3), 6) == [0] * 6


async def test_round_robin_goes_in_turn_past_those_that_are_busy() -> None:
    place = Place(3, strategy="round_robin")
    assert one_after_another(place, 7) == [0, 1, 2, 0, 1, 2, 0]
    place.submit(alone=True)
    assert place.lines()[1] != []  # its turn, and it stays busy
    had = []
    for _ in range(4):
        place.submit(alone=True)
        which = 0 if place.lines()[0] else 2
        place.answer(which)
        had.append(which)
    assert had == [2, 0, 2, 0]


async def test_round_robin_gives_an_idle_child_the_call_though_a_busy_one_could_have_it_sent_ahead() -> None:
    place = Place(3, strategy="round_robin")
    for number in range(60):
        place.submit()
        place.answer(number % 3)
    place.submit()
    place.submit()
    place.answer(1)  # the turn is at 2, and 0 is busy with a quick call
    place.submit()
    place.submit()
    assert [len(line) for line in place.lines()] == [1, 1, 1]


async def test_round_robin_keeps_its_turn_when_a_child_is_replaced() -> None:
    place = Place(3, strategy="round_robin")
    assert one_after_another(place, 2) == [0, 1]
    place.members[1][0].end(DEAD)
    place.members[1] = place.add(1)
    assert one_after_another(place, 3) == [2, 0, 1]


async def test_two_choices_take_the_less_busy_of_two() -> None:
    draws = iter([0.0, 0.0, 0.99, 0.5, 0.3, 0.99])  # of four: (0, 1), (3, 1), (1, 3)
    place = Place(4, strategy="power_of_two", draw=lambda: next(draws))
    assert one_after_another(place, 3) == [0, 3, 1]


async def test_two_choices_spread_calls_nearly_evenly_where_least_busy_does_not() -> None:
    had = Counter(one_after_another(Place(8, strategy="power_of_two", draw=random.Random(1).random), 4_000))
    assert set(had) == set(range(8))
    assert 0.85 * 500 < min(had.values()) <= max(had.values()) < 1.15 * 500


async def test_two_choices_are_far_more_even_than_one() -> None:
    """The claim of the paper, for calls sent ahead: the longest of many lines."""

    def longest(strategy: Strategy, seed: int) -> int:
        place = Place(32, strategy=strategy, draw=random.Random(seed).random)
        for _ in range(40):
            place.submit()
            place.answer(next(which for which, line in enumerate(place.lines()) if line))
        for _ in range(32 * 8):
            place.submit()
        return max(map(len, place.lines()))

    assert max(longest("power_of_two", seed) for seed in range(5)) <= 8 + 5


async def test_any_number_of_children_can_be_drawn_from() -> None:
    for count in (1, 2, 3):
        place = Place(count, strategy="power_of_two", draw=lambda: 1.0)
        for _ in range(count + 1):
            place.submit(alone=True)
        assert [len(line) for line in place.lines()] == [1] * count
    place = Place(0, strategy="power_of_two")
    place.submit()
    assert place.desk.queued == 1
