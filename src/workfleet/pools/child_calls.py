"""The child's work: takes messages one at a time, runs what they ask for and answers.

A reply is sent before the next call begins, so that a call that kills the child takes no finished one along.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from typing import Any, Final, assert_never

from workfleet.pools import child_context, parcel, wire
from workfleet.pools.board import STOPPING, Board
from workfleet.pools.child_channel import Channel, Closed
from workfleet.pools.child_engine import Engine
from workfleet.pools.child_failure import pack
from workfleet.pools.child_target import Kind, Target, illness
from workfleet.pools.child_trace import SHOWN, TRACEPARENT, CallTrace
from workfleet.supervision.lifeline import end_group

_SETTLED: Final = parcel.SIMPLE | {bytes, bytearray, tuple, list, dict, set, frozenset}
"""Types of which nothing is awaitable or a generator; looking closer costs more than a small call."""
_NOTHING: Final = frozenset[int]()
_ABOUT_CALLS: Final = frozenset({wire.CREDIT, wire.CANCEL})


def _ignore(room: int) -> None:
    pass


def _end_all(cancel: Callable[[], None]) -> None:
    end_group()


class Unsendable(Exception):
    """A method returned what cannot be sent. `body` says what and why."""

    def __init__(self, value: object, reason: object) -> None:
        self.body = wire.encode((type(value).__qualname__, str(reason)))


class Calls:
    """Serves until the parent says stop."""

    def __init__(
        self,
        target: Target,
        channel: Channel,
        board: Board,
        engine: Engine,
        trace: CallTrace,
        orphaned: Callable[[Callable[[], None]], None] = _end_all,
    ) -> None:
        """`orphaned` is called, with what cancels it, while async code runs and the parent has gone."""
        self._target = target
        self._channel = channel
        self._board = board
        self._engine = engine
        self._trace = trace
        self._orphaned = orphaned
        self._pid = os.getpid()
        self._methods: dict[str, tuple[Kind, Callable[..., Any]]] = {}

    def serve(self) -> None:
        while True:
            while self._engine.started and not self._channel.has_message():
                self._engine.wait_readable(self._channel.fileno())
                self._channel.poll(_NOTHING)
            kind, call_id, _, body = self._channel.next()
            if kind == wire.CALL:
                if self._board.begin(call_id):
                    self._answer(call_id, body)
                else:
                    self._channel.send(wire.UNBEGUN, call_id)
            elif kind == wire.PING:
                self._channel.send(wire.PONG, call_id, wire.encode(illness(self._target, self._engine.settle)))
            elif kind == wire.STOP:
                self._board.enter(STOPPING)
                return
            # Else it is about a call that has ended meanwhile.

    def _answer(self, call_id: int, request: wire.Heard) -> None:
        started = time.perf_counter_ns()
        kind = wire.RESULT
        body: wire.Body
        try:
            kind, body = self._run(call_id, request)
        except Closed:
            raise
        except Unsendable as error:
            kind, body = wire.UNSENDABLE, error.body
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is the call's answer
            kind, body = wire.ERROR, pack(error)
        if os.getpid() != self._pid:  # the method forked and its copy came back here: only the original may answer
            os._exit(0)
        self._channel.answer(kind, call_id, body, started, time.perf_counter_ns())

    def _run(self, call_id: int, request: wire.Heard) -> tuple[int, wire.Body]:
        method, args, kwargs, facts = wire.decode(request)
        known = self._methods.get(method)
        if known is None:
            known = self._methods[method] = self._target.method(method)
        kind, function = known
        child_context.enter(self._channel, call_id, facts)
        if facts is None or TRACEPARENT not in facts:
            return self._run_method(call_id, method, kind, function, args, kwargs)
        with self._trace.around(facts.get(SHOWN, method), facts[TRACEPARENT]):
            return self._run_method(call_id, method, kind, function, args, kwargs)

    def _run_method(
        self, call_id: int, method: str, kind: Kind, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[int, wire.Body]:
        match kind:
            case "sync":
                value = function(*args, **kwargs)
                if type(value) not in _SETTLED:
                    value = self._settled(call_id, method, value)
            case "async":
                value = self._attend(call_id, function(*args, **kwargs))
            case "generator":
                self._stream(call_id, function(*args, **kwargs))
                return wire.END, b""
            case "async generator":
                self._stream_async(call_id, function(*args, **kwargs))
                return wire.END, b""
            case _:
                assert_never(kind)
        return wire.RESULT, _packed(value)

    def _settled(self, call_id: int, method: str, value: Any) -> Any:
        if inspect.isgenerator(value) or inspect.isasyncgen(value):
            raise TypeError(f"{method} returned a generator but is none itself: write it with `yield`")
        return self._attend(call_id, value) if inspect.isawaitable(value) else value

    def _attend(self, call_id: int, work: Awaitable[Any], grant: Callable[[int], None] = _ignore) -> Any:
        """Runs async code and hears meanwhile what the parent says about the call."""

        def hear(cancel: Callable[[], None]) -> None:
            try:
                messages = self._channel.poll(_ABOUT_CALLS)
            except Closed:  # an exception in a callback of the loop would only be logged
                self._orphaned(cancel)
                return
            for kind, about, number, _ in messages:
                if about == call_id and kind == wire.CANCEL:
                    cancel()
                elif about == call_id:
                    grant(number)

        return self._engine.run_watching(work, self._channel.fileno(), hear)

    def _stream(self, call_id: int, items: Generator[Any, Any, Any]) -> None:
        room = wire.STREAM_WINDOW
        for item in items:
            self._channel.send(wire.ITEM, call_id, _packed(item))
            left = self._room(call_id, room - 1)
            if left is None:
                items.close()
                return
            room = left

    def _room(self, call_id: int, room: int) -> int | None:
        """How many items the consumer has room for: waits while that is none. None when nobody reads any more."""
        while True:
            messages = self._channel.poll(_ABOUT_CALLS) if room else self._channel.wait(_ABOUT_CALLS)
            for kind, about, number, _ in messages:
                if about == call_id:
                    if kind == wire.CANCEL:
                        return None
                    room += number
            if room:
                return room

    def _stream_async(self, call_id: int, items: AsyncGenerator[Any, Any]) -> None:
        import asyncio  # here, as in the engine

        room = asyncio.Semaphore(wire.STREAM_WINDOW)

        def grant(more: int) -> None:
            for _ in range(more):
                room.release()

        async def pump() -> None:
            async with aclosing(items):
                async for item in items:
                    await room.acquire()
                    self._channel.send(wire.ITEM, call_id, _packed(item))

        self._attend(call_id, pump(), grant)


def encoded(value: object) -> bytes:
    try:
        return wire.encode(value)
    except Exception as error:
        raise Unsendable(value, error) from error


def _packed(value: object) -> wire.Body:
    """As `encoded`, with what is large taken apart."""
    try:
        return parcel.pack(value)
    except Exception as error:
        raise Unsendable(value, error) from error
