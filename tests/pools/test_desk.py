"""Which child gets a call, and when: without processes, a child here is a list of what was sent to it."""

from __future__ import annotations

import asyncio
from collections import deque

import pytest

from workfleet.clock import SystemClock
from workfleet.errors import PoolBusy, PoolError
from workfleet.pools import wire
from workfleet.pools.calls import Call
from workfleet.pools.desk import Desk
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.pools.process import Exit


class FakeChild:
    """Notes the ids of the calls that it was sent."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self.line: deque[int] = deque()
        self.sent: list[int] = []
        self.last_begun = 0

    def send(self, pieces: list[bytes]) -> None:
        _, kind, _, call_id = wire.HEADER.unpack_from(pieces[0])
        if kind == wire.CALL:
            self.line.append(call_id)
            self.sent.append(call_id)

    def kill(self) -> None: ...
    def look(self) -> None: ...

    def begun(self) -> int:
        return self.last_begun

    def phase(self) -> str:
        return "ready"


class Place:
    """A desk with fake children."""

    def __init__(self, children: int, limit: int = 1_000) -> None:
        self.desk = Desk("p", limit)
        self.calls = 0
        self.members = [self.add(pid) for pid in range(children)]

    def add(self, pid: int) -> tuple[Member, FakeChild]:
        child = FakeChild(pid)
        member = Member(pid, child, PoolOptions(name="p", size=1), self, SystemClock())
        member.hear(wire.READY, 0, 0, memoryview(wire.encode({})))
        return member, child

    def joined(self, member: Member) -> None:
        self.desk.join(member)

    def finished(self, member: Member, call: Call, micros: int, *, failed: bool) -> None:
        self.desk.finished(call, None if member.state == "gone" else micros)

    def give_back(self, member: Member, calls: list[Call]) -> None:
        self.desk.leave(member)
        self.desk.take_back(calls)

    def note(self, deadline: float) -> None: ...

    def submit(self, *, method: str = "m", alone: bool = False) -> Call:
        self.calls += 1
        call = Call(self.calls, method, b"", timeout=None, listener=None, alone=alone)
        self.desk.submit(call)
        return call

    def answer(self, which: int, micros: int = 10) -> None:
        member, child = self.members[which]
        member.hear(wire.RESULT, child.line.popleft(), micros, memoryview(wire.encode(None)))

    def lines(self) -> list[list[int]]:
        return [list(child.line) for _, child in self.members]

    def prove_quick(self) -> None:
        for _ in range(40):
            self.submit()
            self.answer(0)
        self.calls = 100


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
    assert [len(line) for line in place.lines()] == [64, 64]
    assert place.desk.queued == 1_000 - 128
    assert sorted(call for line in place.lines() for call in line) == list(range(101, 229))
    for _ in range(1_000 - 128):
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
    assert place.members[0][1].sent == list(range(103, 167))


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
    place.members[0][0].hear(wire.RESULT, 77, 0, memoryview(wire.encode("wrong")))
    assert not call.future.done()
