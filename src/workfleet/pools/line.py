"""The calls that one child was given, in order: the head runs, the others were sent ahead. What the child says of them.

Knows the child only as somewhere to send frames. Ending the child is the member's decision, when a deadline is told.
"""

from __future__ import annotations

import asyncio
import pickle
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from workfleet.pools import wire
from workfleet.pools.calls import NEVER, Call
from workfleet.pools.failures import unpack, unreadable_result, unsendable_result
from workfleet.pools.parcel import Parcel
from workfleet.pools.segment import Segment
from workfleet.ports.clock import Clock

_SYNC_GRACE: Final = 0.05
"""Sync code cannot be cancelled, but a call that is about to end anyway is not worth its process."""
_LOOK_EVERY: Final = 0.002
_MOST_LOSSES: Final = 2
_MEANWHILE: Final = frozenset({wire.ITEM, wire.LOG, wire.PROGRESS})
"""Kinds that do not end a call."""
_ABOUT_CALLS: Final = _MEANWHILE | {wire.RESULT, wire.ERROR, wire.UNSENDABLE, wire.END}


class Line:
    """`ended` is told of the calls that the child has answered, those of one word together, and how many of them have
    failed. Large arguments go through `memory`, where the child shares some; they are kept there until the call has
    ended. `other` hears what the child says that is not about a call."""

    def __init__(
        self,
        pool: str,
        clock: Clock,
        *,
        grace: float,
        send: Callable[[list[bytes]], None],
        catch_up: Callable[[], None],
        memory: Segment | None,
        ended: Callable[[list[Call], int], None],
        other: Callable[[int, int, wire.Heard], None],
        note: Callable[[float], None],
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._grace = grace
        self._send = send
        self._memory = memory
        self._catch_up = catch_up
        self._catching_up = False
        self._early: dict[int, tuple[int, bytes]] = {}
        """Results of calls that are not the head yet, by call: what was said of that is still on its way."""
        self._looks = False
        self._ended = ended
        self._other = other
        self._answered: list[Call] = []
        """What was answered but not told of yet."""
        self._failed = 0
        self._note = note
        self.calls: deque[Call] = deque()
        """In order; only the line changes it."""
        self.kinds: Mapping[str, str] = {}
        """The kind of each method, as the child told."""

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def head(self) -> Call | None:
        return self.calls[0] if self.calls else None

    def deadline(self) -> float:
        return self.calls[0].deadline if self.calls else NEVER

    def append(self, call: Call) -> None:
        calls, body = self.calls, call.body
        if type(body) is Parcel:
            self._send(self._parcelled(call, body))
        elif len(body) < wire.SMALL:
            self._send([wire.small(wire.CALL, call.id, cast(bytes, body))])
        else:
            self._send(wire.frame(wire.CALL, call.id, body))
        calls.append(call)
        if len(calls) == 1:
            self._begin(call)
        elif not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def _parcelled(self, call: Call, parcel: Parcel) -> list[bytes]:
        start = None if self._memory is None else self._memory.put(call.id, parcel.parts)
        if start is None:  # what is sent by the socket is sent later, in pieces
            call.body = parcel = parcel.frozen()
        return wire.frame(wire.CALL, call.id, parcel, start=start)

    def _look(self) -> None:
        """While calls are sent ahead, the child says of a finished one only that it is, and wakes nobody."""
        self.catch_up()
        self._looks = len(self.calls) > 1
        if self._looks:
            asyncio.get_running_loop().call_later(_LOOK_EVERY, self._look)

    def catch_up(self) -> None:
        """Hears everything that the child has said so far: the head is then the call that it runs."""
        if not self._catching_up:
            self._catching_up = True
            try:
                self._catch_up()
            finally:
                self._catching_up = False

    def _begin(self, call: Call) -> None:
        """The child runs this one from now on."""
        if call.made:
            call.begun = self._clock.monotonic()
        if call.abandoned:
            self._cancel(call)
        elif call.timeout is not None:
            self._time(call, call.timeout)

    def arm(self, call: Call) -> None:
        """Starts the call's time if it runs and somebody waits for it; a stream's only while its consumer waits."""
        if call.timeout is not None and not call.abandoned and call is self.head:
            self._time(call, call.timeout)

    def _time(self, call: Call, timeout: float) -> None:
        if call.items is None or call.items.wanted:
            call.deadline = deadline = self._clock.monotonic() + timeout
            self._note(deadline)

    def grant(self, call: Call, room: int) -> None:
        if call is self.head:
            self._send(wire.frame(wire.CREDIT, call.id, number=room))

    def abandon(self, call: Call) -> None:
        """Nobody waits for it any more: it has a grace to end by itself, which begins when it is the head."""
        if call is self.head:
            self._cancel(call)

    def _cancel(self, call: Call) -> None:
        hears = self.kinds.get(call.method) != "sync"
        if hears:
            self._send(wire.frame(wire.CANCEL, call.id))
        call.deadline = self._clock.monotonic() + (self._grace if hears else _SYNC_GRACE)
        self._note(call.deadline)

    def hear(self, frames: list[wire.Frame]) -> None:
        """What the child says. What follows from answers is done once for all of them: most are small and many."""
        try:
            for frame in frames:
                kind, call_id, micros, body = frame
                calls = self.calls
                if kind == wire.RESULT and calls and calls[0].id == call_id:
                    self._hear_result(calls.popleft(), micros, body)
                else:
                    self._hear_one(*frame)
                if self._early:
                    self._hear_early()
        finally:
            self._settle()

    def _settle(self) -> None:
        """Those that were answered have ended, and the head is what runs now."""
        if self._answered:
            answered, failed, self._answered, self._failed = self._answered, self._failed, [], 0
            for call in answered:
                if call.made and not call.begun:
                    call.begun = self._clock.monotonic()
                if type(call.body) is Parcel and self._memory is not None:
                    self._memory.release(call.id)
            if self.calls:
                self._begin(self.calls[0])
            self._ended(answered, failed)

    def _hear_result(self, call: Call, micros: int, body: wire.Heard) -> None:
        call.micros = micros
        self._answered.append(call)
        try:
            value = wire.decode(body) if type(body) is Parcel else pickle.loads(body)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001 - unpickling runs the value's own code
            self._failed += 1
            call.fail(unreadable_result(self._pool, call.method, error))
        else:
            call.succeed(value)

    def _hear_one(self, kind: int, call_id: int, micros: int, body: wire.Heard) -> None:
        if kind not in _ABOUT_CALLS:
            self._settle()
            self._other(kind, call_id, body)
            return
        calls = self.calls
        if not calls:
            return
        if calls[0].id != call_id:
            if self._catching_up:  # it sends nothing in that way but small results
                self._early[call_id] = micros, bytes(body)  # type: ignore[arg-type] # none is a parcel
                return
            self.catch_up()
            calls = self.calls
            if not calls or calls[0].id != call_id:
                return
        call = calls[0]
        if kind in _MEANWHILE:
            self._hear_meanwhile(call, kind, body)
            return
        del calls[0]
        if kind == wire.RESULT:
            self._hear_result(call, micros, body)
            return
        call.micros = micros
        self._answered.append(call)
        if kind == wire.END:
            call.succeed(None)
        else:
            self._failed += 1
            call.fail(unpack(body) if kind == wire.ERROR else unsendable_result(self._pool, call.method, body))

    def _hear_early(self) -> None:
        """What was said of the head before it was the head."""
        while self.calls and (early := self._early.pop(self.calls[0].id, None)) is not None:
            self._hear_result(self.calls.popleft(), early[0], memoryview(early[1]))

    def _hear_meanwhile(self, call: Call, kind: int, body: wire.Heard) -> None:
        value, error = self._decode(call, body)
        if kind != wire.ITEM:
            if call.listener is not None:
                if error is not None:
                    call.listener.log(str(error))
                elif kind == wire.LOG:
                    call.listener.log(value)
                else:
                    call.listener.progress(value)
        elif call.items is not None and not call.abandoned:
            call.deadline = NEVER
            if error is None:
                call.items.put(value)
            else:
                call.fail(error)
                call.abandoned = True
                self._cancel(call)

    def _decode(self, call: Call, body: wire.Heard) -> tuple[Any, Exception | None]:
        try:
            return wire.decode(body), None
        except Exception as error:  # noqa: BLE001 - as above
            return None, unreadable_result(self._pool, call.method, error)

    def break_up(self, begun: int, death: Callable[[Call], Exception]) -> list[Call]:
        """The child is gone. The call that it had begun fails; gives back those that it never began, in order."""
        back: list[Call] = []
        for position, call in enumerate(self.calls):
            call.deadline = NEVER
            if position == 0 and call.id != begun:
                call.losses += 1
            if call.doom is None and not call.abandoned and call.id != begun and call.losses < _MOST_LOSSES:
                self._take_back(call)
                back.append(call)
            else:  # receiving it may be what kills a child (a huge argument): it is not tried for ever
                call.fail(call.doom or death(call))
                self._ended([call], 1)
        self.calls.clear()
        if self._memory is not None:
            self._memory.close()
        return back

    def give_back(self, call_id: int) -> list[Call]:
        """The child will not begin this call, nor any after it: takes them out, in their order."""
        self.catch_up()
        if self.head is None or self.head.id != call_id:  # it was among those of an earlier word
            return []
        calls, self.calls = self.calls, deque()
        for call in calls:
            call.deadline = NEVER
            self._take_back(call)
            if self._memory is not None and type(call.body) is Parcel:
                self._memory.release(call.id)
            if call.abandoned:
                call.succeed(None)  # nobody hears it; who abandoned it hears that no process has it
                self._ended([call], 1)
        return [call for call in calls if not call.abandoned]

    def _take_back(self, call: Call) -> None:
        """Its arguments as they were when it was sent: whoever made the call may have changed them since."""
        start = None if self._memory is None else self._memory.start(call.id)
        if start is not None and self._memory is not None and type(call.body) is Parcel:
            call.body = call.body.taken_from(self._memory, start)
