"""Which child gets a call, and when: without processes, a child here is a list of what was sent to it."""

from __future__ import annotations

import asyncio

import pytest

from tests.pools.place import Place
from workfleet.errors import PayloadRejected, PoolBusy, PoolError, RemoteError
from workfleet.pools import wire
from workfleet.pools.process import Exit


async def test_the_least_busy_child_gets_the_call_and_the_rest_waits() -> None:
    place = Place(2)
    for _ in range(5):
        place.submit()
    assert place.lines() == [[1], [2]]
    assert (place.desk.queued, place.desk.unfinished) == (3, 5)
    place.answer(1)
    assert place.lines() == [[1], [3]]
    place.answer(0)
    place.answer(1)
    assert place.lines() == [[4], [5]]
    assert place.desk.queued == 0


async def test_a_child_that_becomes_ready_gets_what_waits() -> None:
    place = Place(0)
    place.submit()
    assert place.desk.queued == 1
    place.members.append(place.add(0))
    assert place.lines() == [[1]]


async def test_quick_calls_are_sent_ahead_evenly_and_not_without_limit() -> None:
    place = Place(1)
    place.prove_quick()
    place.members.append(place.add(1))
    for _ in range(1_000):
        place.submit()
    assert [len(line) for line in place.lines()] == [128, 128]
    assert place.desk.queued == 1_000 - 256
    assert sorted(call for line in place.lines() for call in line) == list(range(101, 357))
    for _ in range(1_000 - 256):
        place.answer(0)
    assert place.members[0][1].sent[-1] == 1_100  # in their order to the end


async def test_a_job_is_never_sent_ahead_and_nothing_behind_it() -> None:
    place = Place(1)
    place.prove_quick()
    place.submit(alone=True)
    place.submit()
    assert place.lines() == [[101]]
    place.answer(0)
    place.submit(alone=True)
    assert place.lines() == [[102]]


async def test_nothing_waits_behind_an_unknown_or_slow_method() -> None:
    place = Place(1)
    place.prove_quick()
    place.submit(method="unknown")
    place.submit()
    assert place.lines() == [[101]]
    place.answer(0)
    place.submit(method="unknown")
    assert place.lines() == [[102]]


async def test_a_death_gives_back_in_order_what_was_not_begun() -> None:
    place = Place(1)
    place.prove_quick()
    calls = [place.submit() for _ in range(100)]
    member, child = place.members[0]
    place.answer(0)
    child.last_begun = 102
    member.end(Exit(-9, "signal SIGKILL", ""))
    with pytest.raises(PoolError, match=r"died in m \(signal SIGKILL\)"):
        calls[1].future.result()
    assert place.desk.queued == 98
    place.members = [place.add(1)]
    assert place.members[0][1].sent == list(range(103, 201))


async def test_a_call_whose_arrival_kills_two_children_is_not_tried_again() -> None:
    place = Place(1)
    call = place.submit()
    place.members[0][0].end(Exit(-9, "signal SIGKILL", ""))
    assert place.desk.queued == 1
    place.members = [place.add(1)]
    place.members[0][0].end(Exit(-9, "signal SIGKILL", ""))
    assert place.desk.queued == 0
    assert isinstance(call.future.exception(), PoolError)


async def test_limit_refusal_and_closing() -> None:
    place = Place(1, limit=1)
    place.submit()
    waiting = place.submit()
    with pytest.raises(PoolBusy):
        place.submit()
    place.desk.refuse(lambda: PoolError("draining"))
    with pytest.raises(PoolError, match="draining"):
        place.submit()
    assert not waiting.future.done()
    place.desk.close(lambda: PoolError("closed"))
    assert str(waiting.future.exception()) == "closed"
    assert place.desk.unfinished == 1
    place.answer(0)
    await asyncio.wait_for(place.desk.wait_until_empty(), 1)
    place.desk.open()
    place.submit()
    assert place.lines() == [[5]]


async def test_a_reply_to_another_call_is_not_taken() -> None:
    place = Place(1)
    call = place.submit()
    place.members[0][0].hear([(wire.RESULT, 77, 0, memoryview(wire.encode("wrong")))])
    assert not call.future.done()


async def test_answers_that_come_together_are_each_for_their_call_and_all_make_room() -> None:
    place = Place(1)
    place.prove_quick()
    calls = [place.submit() for _ in range(130)]
    member, child = place.members[0]
    error = wire.encode(("ValueError", "no", "trace", None))
    bodies = [
        (wire.RESULT, wire.encode("a")),
        (wire.ERROR, error),
        (wire.RESULT, b"no pickle"),
        (wire.RESULT, wire.encode("d")),
    ]
    member.hear([(kind, 101 + n, 10, memoryview(body)) for n, (kind, body) in enumerate(bodies)])
    assert (calls[0].future.result(), calls[3].future.result()) == ("a", "d")
    assert isinstance(calls[1].future.exception(), RemoteError)
    assert isinstance(calls[2].future.exception(), PayloadRejected)
    assert (child.sent[-1], place.desk.queued, place.desk.unfinished) == (230, 0, 126)
    assert (member.calls, place.failed) == (44, 2)


async def test_a_busy_pool_says_when_half_of_what_waits_will_have_been_served() -> None:
    place = Place(2, limit=40)
    for _ in range(20):
        place.submit()
        place.answer(0, micros=100_000)
    for _ in range(42):
        place.submit()
    with pytest.raises(PoolBusy) as busy:
        place.submit()
    assert (busy.value.limit, busy.value.retry_after_ms) == (40, 1_000)  # 20 calls of 100 ms for 2 children


async def test_what_waits_counts_not_what_was_called_once() -> None:
    place = Place(1, limit=10)
    place.submit(method="slow")
    place.answer(0, micros=3_600_000_000)
    place.submit(method="quick")
    place.answer(0, micros=100_000)
    for _ in range(11):
        place.submit(method="quick")
    with pytest.raises(PoolBusy) as busy:
        place.submit(method="slow")
    assert busy.value.retry_after_ms == 500


async def test_a_busy_pool_s_guess_has_bounds_and_one_for_the_unknown() -> None:
    async def guess(micros: int | None, children: int = 1) -> int:
        place = Place(children, limit=2)
        if micros is not None:
            place.submit()
            place.answer(0, micros=micros)
        for _ in range(children + 2):
            place.submit(alone=True)
        with pytest.raises(PoolBusy) as busy:
            place.submit()
        return busy.value.retry_after_ms

    assert await guess(None) == 1_000
    assert await guess(None, children=0) == 1_000
    assert await guess(10) == 100
    assert await guess(3_600_000_000) == 30_000


async def test_a_limit_of_none_means_that_nobody_waits() -> None:
    place = Place(1, limit=0)
    place.submit()
    with pytest.raises(PoolBusy):
        place.submit()
