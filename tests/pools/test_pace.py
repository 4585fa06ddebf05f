"""Calls are sent ahead only where they cannot hold up each other for long."""

from __future__ import annotations

import pytest

from workfleet.pools.pace import Pace


def paced(*micros: int) -> Pace:
    pace = Pace()
    for each in micros:
        pace.took("m", each)
    return pace


def test_an_unknown_method_goes_alone() -> None:
    assert Pace().line("m") == 1


def test_quick_calls_go_ahead_once_proven() -> None:
    assert paced(*[10] * 31).line("m") == 1
    assert paced(*[10] * 32).line("m") == 128
    assert paced(*[200] * 32).line("m") == 10


def test_a_slow_call_stops_it_until_proven_again() -> None:
    assert paced(*[10] * 100, 60_000_000).line("m") == 1
    assert paced(*[10] * 100, 6_000, *[10] * 31).line("m") == 1
    assert paced(*[10] * 100, 6_000, *[10] * 32).line("m") == 65


def test_calls_of_a_millisecond_never_go_ahead() -> None:
    assert paced(*[1_000] * 1_000).line("m") == 1


def test_methods_are_judged_apart() -> None:
    pace = paced(*[10] * 32)
    pace.took("slow", 2_000_000)
    assert (pace.line("m"), pace.line("slow")) == (128, 1)


def test_the_mean_of_calls_is_that_of_their_methods() -> None:
    pace = paced(*[1_000] * 10)
    pace.took("slow", 2_000_000)
    assert pace.mean_ms(["m"] * 3 + ["slow"]) == pytest.approx(500.75)
    assert pace.mean_ms(["unknown"]) == pace.mean_ms([]) == pytest.approx(1_000.5)
    assert Pace().mean_ms(["m"]) is None
