"""The calls that one child was given, in order: the head runs, the others were sent ahead. What the child says of them.

Knows the child only as somewhere to send frames. Ending the child is the member's decision, when a deadline is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from workfleet.errors import PayloadRejected
from workfleet.pools import wire
from workfleet.pools.calls import NEVER, Call
from workfleet.pools.failures import unpack, unsendable_result
from workfleet.ports.clock import Clock

_SYNC_GRACE: Final = 0.05
"""Sync code cannot be cancelled, but a call that is about to end anyway is not worth its process."""
_MOST_LOSSES: Final = 2


class Line:
    """`ended` is told of every call that the child answered, with the microseconds that it took."""

    def __init__(
        self,
        pool: str,
        clock: Clock,
        *,
        grace: float,
        send: Callable[[list[bytes]], None],
        ended: Callable[[Call, int, bool], None],
        note: Callable[[float], None],
    ) -> None:
        self._pool = pool
        self._clock = clock
        self._grace = grace
        self._send = send
        self._ended = ended
        self._note = note
        self._calls: deque[Call] = deque()
        self.kinds: Mapping[str, str] = {}
        """The kind of each method, as the child told."""

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def head(self) -> Call | None:
        return self._calls[0] if self._calls else None

    def deadline(self) -> float:
        return self._calls[0].deadline if self._calls else NEVER

    def append(self, call: Call) -> None:
        self._calls.append(call)
        self._send(wire.frame(wire.CALL, call.id, call.body))
        if len(self._calls) == 1:
            self._begin(call)

    def _begin(self, call: Call) -> None:
        """The child runs this one from now on."""
        if call.abandoned:
            self._cancel(call)
        else:
            self.arm(call)

    def arm(self, call: Call) -> None:
        """Starts the call's time if it runs and somebody waits for it; a stream's only while its consumer waits."""
        if call.timeout is None or call.abandoned or call is not self.head:
            return
        if call.items is None or call.items.wanted:
            call.deadline = self._clock.monotonic() + call.timeout
            self._note(call.deadline)

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

    def hear(self, kind: int, call_id: int, number: int, body: memoryview) -> None:
        call = self.head
        if call is None or call.id != call_id:
            return
        if kind in (wire.ITEM, wire.LOG, wire.PROGRESS):
            self._hear_meanwhile(call, kind, body)
            return
        self._calls.popleft()
        error: Exception | None = None
        value: Any = None
        if kind == wire.ERROR:
            error = unpack(body)
        elif kind == wire.UNSENDABLE:
            error = unsendable_result(self._pool, call.method, body)
        elif kind == wire.RESULT:
            value, error = self._decode(call, body)
        if error is None:
            call.succeed(value)
        else:
            call.fail(error)
        if self._calls:
            self._begin(self._calls[0])
        self._ended(call, number, error is not None)

    def _hear_meanwhile(self, call: Call, kind: int, body: memoryview) -> None:
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

    def _decode(self, call: Call, body: memoryview) -> tuple[Any, Exception | None]:
        try:
            return wire.decode(body), None
        except Exception as error:  # noqa: BLE001 - unpickling runs the value's own code
            what = f"result of {self._pool}.{call.method}"
            return None, PayloadRejected(what, "$", f"it cannot be read in this process: {error}")

    def break_up(self, begun: int, death: Callable[[Call], Exception]) -> list[Call]:
        """The child is gone. The call that it had begun fails; gives back those that it never began, in order."""
        back: list[Call] = []
        for position, call in enumerate(self._calls):
            call.deadline = NEVER
            if position == 0 and call.id != begun:
                call.losses += 1
            if call.doom is None and not call.abandoned and call.id != begun and call.losses < _MOST_LOSSES:
                back.append(call)
            else:  # receiving it may be what kills a child (a huge argument): it is not tried for ever
                call.fail(call.doom or death(call))
                self._ended(call, 0, True)
        self._calls.clear()
        return back
