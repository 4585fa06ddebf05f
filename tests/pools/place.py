"""A desk with children that are lists of what was sent to them: for tests of who gets which call, and when."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable

from workfleet.clock import SystemClock
from workfleet.pools import wire
from workfleet.pools.calls import Call
from workfleet.pools.desk import Desk
from workfleet.pools.marks import Strategy
from workfleet.pools.member import Member
from workfleet.pools.options import PoolOptions
from workfleet.pools.process import Exit


class FakeChild:
    """Notes the ids of the calls that it was sent."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.arguments = None
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
    def catch_up(self) -> None: ...

    def begun(self) -> int:
        return self.last_begun

    def phase(self) -> str:
        return "ready"


class Place:
    """A desk with fake children."""

    def __init__(
        self,
        children: int,
        limit: int = 1_000,
        strategy: Strategy = "least_busy",
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.desk = Desk("p", limit, strategy, draw)
        self.calls = self.failed = 0
        self.desk.places(range(children))
        self.members = [self.add(pid) for pid in range(children)]

    def add(self, place: int) -> tuple[Member, FakeChild]:
        child = FakeChild(place)
        member = Member(place, child, PoolOptions(name="p", size=1), self, SystemClock())
        member.hear([(wire.READY, 0, 0, memoryview(wire.encode({})))])
        return member, child

    def joined(self, member: Member) -> None:
        self.desk.join(member)

    def finished(self, member: Member, calls: list[Call], failed: int) -> None:
        self.failed += failed
        self.desk.finished(member, calls, answered=member.state != "gone")

    def give_back(self, member: Member, calls: list[Call]) -> None:
        self.desk.leave(member)
        self.desk.take_back(calls)

    def note(self, deadline: float) -> None: ...

    def submit(self, *, method: str = "m", alone: bool = False, key: str | None = None) -> Call:
        self.calls += 1
        future = asyncio.get_running_loop().create_future()
        call = Call(self.calls, method, b"", timeout=None, listener=None, alone=alone, future=future)
        call.key = key
        self.desk.submit(call)
        return call

    def answer(self, which: int, micros: int = 10) -> None:
        member, child = self.members[which]
        member.hear([(wire.RESULT, child.line.popleft(), micros, memoryview(wire.encode(None)))])

    def lines(self) -> list[list[int]]:
        return [list(child.line) for _, child in self.members]

    def prove_quick(self) -> None:
        for _ in range(40):
            self.submit()
            self.answer(0)
        self.calls = 100
