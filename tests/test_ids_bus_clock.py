"""The smallest things that everything stands on: identifiers, the bus of events, the clock."""

from __future__ import annotations

import asyncio
import time
import uuid

from workfleet.bus import Bus
from workfleet.clock import SkewedClock, SystemClock
from workfleet.events import Event, LockAcquired, SubscriberFailed
from workfleet.ids import derived_id, new_id, new_token
from workfleet.ports.clock import Clock

EVENT = LockAcquired(lock="a", fence=1)


# Ids


def test_a_new_id_is_a_uuid_of_version_7_that_tells_its_instant() -> None:
    now = 1_800_000_000_123
    made = uuid.UUID(new_id(now))
    assert (made.version, made.variant, made.int >> 80) == (7, uuid.RFC_4122, now)


def test_ids_made_later_sort_later_and_none_is_made_twice() -> None:
    ids = [new_id(now) for now in range(1_800_000_000_000, 1_800_000_001_000)]
    assert ids == sorted(ids)
    assert len({new_id(1) for _ in range(10_000)}) == 10_000
    assert len({new_token() for _ in range(10_000)}) == 10_000


def test_an_instant_beyond_48_bits_still_makes_an_id() -> None:
    assert uuid.UUID(new_id(2**60 + 5)).version == 7


def test_a_derived_id_is_the_same_for_the_same_parts_only() -> None:
    assert derived_id("app", "s", 1) == derived_id("app", "s", 1)
    others = [derived_id(*parts) for parts in (("app", "s", 2), ("app", "s1"), ("apps", 1), ("app", "s", 1, ""), ())]
    assert len({derived_id("app", "s", 1), *others}) == 6
    assert ":" not in derived_id("a:b")


# The bus


def test_every_subscriber_hears_everything_in_order() -> None:
    bus, heard = Bus(), list[tuple[str, Event]]()
    for name in ("first", "second"):
        bus.subscribe(lambda event, name=name: heard.append((name, event)))  # type: ignore[misc]
    bus.publish(EVENT)
    assert heard == [("first", EVENT), ("second", EVENT)]


def test_a_subscriber_that_fails_is_told_to_the_others_and_never_to_the_publisher() -> None:
    bus, before, after = Bus(), list[Event](), list[Event]()

    def fails(event: Event) -> None:
        raise ValueError("no")

    for subscriber in (before.append, fails, after.append):
        bus.subscribe(subscriber)
    bus.publish(EVENT)
    for heard in (before, after):
        (told,) = [event for event in heard if isinstance(event, SubscriberFailed)]
        assert (told.subscriber.rpartition(".")[2], told.event, told.error) == (
            "fails",
            "lock.acquired",
            "ValueError: no",
        )
        assert EVENT in heard


def test_subscribers_of_one_name_are_told_of_each_other() -> None:
    bus, heard = Bus(), list[list[Event]]()

    class Heard(list[Event]):
        def append(self, event: Event) -> None:
            super().append(event)
            if isinstance(event, LockAcquired) and self is heard[0]:
                raise ValueError("no")

    heard += [Heard(), Heard()]
    for each in heard:
        bus.subscribe(each.append)
    bus.publish(EVENT)
    assert [type(event) for event in heard[0]] == [LockAcquired]
    assert sorted(type(event).__name__ for event in heard[1]) == ["LockAcquired", "SubscriberFailed"]


def test_an_error_that_cannot_be_shown_and_subscribers_that_all_fail_end_nothing() -> None:
    class Unsayable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

        @staticmethod
        def fails(_event: Event) -> None:
            raise Unsayable

    def fails(_event: Event) -> None:
        raise Unsayable

    bus, heard = Bus(), list[Event]()
    bus.subscribe(fails)
    bus.subscribe(Unsayable.fails)
    bus.subscribe(heard.append)
    bus.publish(EVENT)
    errors = [event.error for event in heard if isinstance(event, SubscriberFailed)]
    assert errors == ["Unsayable (its text cannot be read: RuntimeError)"] * 2


# Clocks


def test_the_systems_clock() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1_000
    assert abs(clock.monotonic() - time.monotonic()) < 1


async def test_sleeping_for_nothing_or_less_gives_others_a_turn() -> None:
    turns: list[str] = []

    async def other() -> None:
        turns.append("other")

    task = asyncio.create_task(other())
    await SystemClock().sleep(-5)
    assert turns == ["other"]
    await task


async def test_a_skewed_clock_is_off_in_wall_time_only() -> None:
    clock = SystemClock()
    skewed = SkewedClock(clock, -86_400_000)
    assert abs(clock.now_ms() - skewed.now_ms() - 86_400_000) < 1_000
    assert abs(clock.monotonic() - skewed.monotonic()) < 1
    started = time.monotonic()
    await skewed.sleep(0.01)
    assert time.monotonic() - started >= 0.009
