"""What users write beside plain options: `Unique`, `Retention`, `Queue`, `Group`, rates, backoffs and retry rules."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from workfleet.model.checks import retry_rules
from workfleet.model.jobs import Keep, KeepRule, UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.policy import (
    DEFAULT_BACKOFF,
    Backoff,
    backoff_of,
    exception_name,
    exponential,
    fixed,
    linear,
    own_backoff,
)
from workfleet.model.queue import Group, Queue, payload_bytes, rate_of, rate_text
from workfleet.model.retention import Retention
from workfleet.model.unique import Unique


class Declined(ValueError):
    pass


@pytest.mark.parametrize(
    ("unique", "rule"),
    [
        (Unique("{data.sha}"), UniqueRule()),
        (Unique("{data.sha}", until="finished"), UniqueRule("finished")),
        (Unique("{data.sha}", until="started"), UniqueRule("started")),
        (Unique("{data.sha}", until="started", exclusive=True), UniqueRule("started", 0, "keep", True)),
        (Unique("{data.sha}", window="1h"), UniqueRule("finished", 3_600_000)),
        (Unique("{data.sha}", window=timedelta(seconds=2)), UniqueRule("finished", 2_000)),
        (Unique("{data.sha}", on_conflict="replace"), UniqueRule("finished", 0, "replace")),
        (Unique("{data.sha}", until="started", on_conflict="debounce"), UniqueRule("started", 0, "debounce")),
    ],
)
def test_unique_is_stored_as_a_rule(unique: Unique, rule: UniqueRule) -> None:
    assert unique.rule == rule


@pytest.mark.parametrize(
    ("retention", "keep"),
    [
        (Retention(completed="24h"), Keep(completed=KeepRule(86_400_000, None))),
        (Retention(failed_count=0), Keep(failed=KeepRule(None, 0))),
        (
            Retention(completed="0s", failed="30d", completed_count=100, failed_count=None),
            Keep(KeepRule(0, 100), KeepRule(30 * 86_400_000, None)),
        ),
    ],
)
def test_retention_is_stored_as_a_rule_for_each_state(retention: Retention, keep: Keep) -> None:
    assert retention.keep == keep


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100/1m", Rate(100, 60_000)),
        ("10/s", Rate(10, 1_000)),
        (" 1 / 250ms ", Rate(1, 250)),
        ("1000000/1d", Rate(1_000_000, 86_400_000)),
        (Rate(5, 1), Rate(5, 1)),
    ],
)
def test_a_rate(text: Any, rate: Rate) -> None:
    assert rate_of(text) == rate
    assert rate_of(rate_text(rate)) == rate


def test_a_queue_is_stored_as_limits() -> None:
    assert Queue("q").limits == QueueLimits()
    assert Queue("q", concurrency=3, weight=2, max_payload="2MB").limits == QueueLimits()
    full = Queue(
        "q",
        fleet_concurrency=100,
        rate_limit="100/1m",
        group=Group(concurrency=1, rate_limit="10/1s", weight=2),
        groups={"gold": Group(weight=5)},
    )
    assert full.limits == QueueLimits(
        concurrency=100,
        rate=Rate(100, 60_000),
        group=GroupLimits(2, 1, Rate(10, 1_000)),
        groups={"gold": GroupLimits(5)},
    )


def test_what_says_the_same_in_other_words_is_the_same() -> None:
    one = Queue("q", rate_limit="60/1m", max_payload="1MiB")
    assert one.said() == Queue("q", rate_limit=Rate(60, 60_000), max_payload="1024KiB").said()
    assert one.said() == {"rate_limit": Rate(60, 60_000), "max_payload": 1_048_576}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Unique("k", window="1h", until="finished"), "window= and until= both say how long the key is held"),
        (lambda: Unique("k", window="0s"), "held for no time"),
        (lambda: Unique("k", window="soon"), "'soon' is not a duration"),
        (lambda: Unique("k", exclusive=True), 'it needs until="started"'),
        (lambda: Unique("k", exclusive=True, window="1h"), 'it needs until="started"'),
        (lambda: Unique("k", until="ended"), "until='ended': it is one of 'finished', 'started'"),  # type: ignore[arg-type]
        (lambda: Unique("k", on_conflict="skip"), "on_conflict='skip': it is one of 'keep'"),  # type: ignore[arg-type]
        (lambda: Unique("k", until="started", exclusive=1), "exclusive=1: it is True or False"),  # type: ignore[arg-type]
        (Retention, "retention says nothing"),
        (lambda: Retention(completed="soon"), "'soon' is not a duration"),
        (lambda: Retention(failed_count=-1), "failed_count=-1: it is a number of jobs"),
        (lambda: Retention(completed_count=True), "completed_count=True"),
        (lambda: Group(concurrency=0), "concurrency=0: it is 1 to 1,000,000"),
        (lambda: Group(weight=True), "weight=True"),
        (lambda: Group(rate_limit="10"), "'10' is not a rate"),
        (lambda: Queue("a:b"), "queue 'a:b': a name has no ':'"),
        (lambda: Queue("q", concurrency=0), "queue 'q': concurrency=0: it is 1 to 1,000,000"),
        (lambda: Queue("q", weight=1.5), "queue 'q': weight=1.5"),  # type: ignore[arg-type]
        (lambda: Queue("q", rate_limit="0/1s"), "queue 'q': the rate '0/1s' lets 0 start"),
        (lambda: Queue("q", rate_limit="1/0s"), "queue 'q': the rate '1/0s' has no duration"),
        (lambda: Queue("q", rate_limit="1/fortnight"), "'1/fortnight' is not a rate such as '100/1m': 'fortnight'"),
        (lambda: Queue("q", rate_limit=10), "10 is not a rate"),  # type: ignore[arg-type]
        (lambda: Queue("q", rate_limit=Rate(0, 1)), "the rate Rate(0, 1) lets 0 start"),
        (lambda: Queue("q", max_payload="65MiB"), "queue 'q': max_payload='65MiB': it is 1B to 64MiB"),
        (lambda: Queue("q", max_payload="0B"), "max_payload='0B'"),
        (lambda: Queue("q", group="gold"), "group='gold': it is what holds for each group"),  # type: ignore[arg-type]
        (lambda: Queue("q", groups=["gold"]), "groups=['gold']: it is groups by name"),  # type: ignore[arg-type]
        (lambda: Queue("q", groups={"": Group()}), "group '': a name is printable text"),
        (lambda: Queue("q", groups={"gold": 5}), "groups: 'gold' is 5, not a Group"),  # type: ignore[dict-item]
        (lambda: own_backoff(""), "backoff '': a name is"),
        (lambda: backoff_of(len), "is a function, which no job can carry: give own_backoff(name)"),  # type: ignore[arg-type]
        (lambda: exponential(factor=0.5), "factor=0.5: each wait is 1 to 1,000 times the one before"),
        (lambda: exponential(factor=float("nan")), "factor=nan"),
        (lambda: exponential(jitter="half"), "jitter='half': it is 'full', 'none', or a share"),  # type: ignore[arg-type]
        (lambda: fixed("1s", jitter=""), "jitter=''"),  # type: ignore[arg-type]
        (lambda: fixed("1s", jitter=1.5), "jitter=1.5"),
        (lambda: fixed("1s", jitter=True), "jitter=True"),
        (lambda: linear("1s", jitter=None), "jitter=None"),  # type: ignore[arg-type]
        (lambda: payload_bytes("x", "a lot"), "'a lot' is not a size"),
        (lambda: retry_rules(["ValueError"]), "retry=['ValueError']: it is waits by exception"),
        (lambda: retry_rules({int: "1s"}), "retry: <class 'int'> is neither an exception's class nor its name"),
        (lambda: retry_rules({"not a name": "1s"}), "retry: 'not a name' is neither"),
        (lambda: retry_rules({"": "1s"}), "retry: '' is neither"),
        (lambda: retry_rules({ValueError: 5}), "5 is not a duration"),
        (lambda: retry_rules({ValueError: "1s", "builtins.ValueError": None}), "retry: ValueError is there twice"),
        (lambda: retry_rules({"workfleet.errors.Snooze": "1s"}), "Snooze says itself what follows"),
    ],
)  # fmt: skip
def test_what_cannot_be_right(make: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make()


def test_a_factor_is_how_waits_grow() -> None:
    thrice = exponential("1s", cap="1m", jitter="none", factor=3)
    assert [thrice.delay_ms(n, 0.5) for n in range(1, 6)] == [1_000, 3_000, 9_000, 27_000, 60_000]
    assert exponential("1s", factor=1, jitter="none").delay_ms(9, 0.5) == 1_000
    slow = exponential("1s", cap="10m", jitter="none", factor=1.1)
    assert [slow.delay_ms(n, 0.5) for n in (1, 66, 67, 68, 69, 10_000)] == [
        1_000, 490_371, 539_408, 593_349, 600_000, 600_000
    ]  # fmt: skip
    assert own_backoff("tiers") == Backoff("own", 0, 0, "none", name="tiers")
    assert own_backoff("tiers").delay_ms(2, 0.5) == DEFAULT_BACKOFF.delay_ms(2, 0.5)


def test_the_name_of_an_exception() -> None:
    class Inner(Exception):
        pass

    assert [exception_name(kind) for kind in Declined.__mro__[:2]] == [f"{__name__}.Declined", "ValueError"]
    assert exception_name(Inner) == f"{__name__}.test_the_name_of_an_exception.<locals>.Inner"
    assert retry_rules({Inner: None, exception_name(Declined): None}) == {
        exception_name(Inner): None,
        exception_name(Declined): None,
    }


def test_retry_rules_are_stored_by_name() -> None:
    rules = retry_rules({ConnectionError: exponential("1s"), ValueError: None, "shop.errors.Declined": "1m"})
    assert rules == {"ConnectionError": exponential("1s"), "ValueError": None, "shop.errors.Declined": fixed("1m")}
    assert retry_rules(None) == {}
