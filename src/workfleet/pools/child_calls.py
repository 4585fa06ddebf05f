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

from workfleet.pools import child_context, wire
from workfleet.pools.board import STOPPING, Board
from workfleet.pools.child_channel import Channel, Closed
from workfleet.pools.child_engine import Engine
from workfleet.pools.child_failure import pack
from workfleet.pools.child_target import Target
from workfleet.supervision.lifeline import end_group

_ABOUT_CALLS: Final = frozenset({wire.CREDIT, wire.CANCEL})


def _ignore(room: int) -> None:
    pass


class _Unsendable(Exception):
    def __init__(self, value: object, reason: object) -> None:
        self.body = wire.encode((type(value).__qualname__, str(reason)))


class Calls:
    """Serves until the parent says stop."""

    def __init__(self, target: Target, channel: Channel, board: Board, engine: Engine) -> None:
        self._target = target
        self._channel = channel
        self._board = board
        self._engine = engine
        self._pid = os.getpid()

    def serve(self) -> None:
        while True:
            if self._engine.started and not self._channel.has_message():
                self._engine.wait_readable(self._channel.fileno())
            message = self._channel.next()
            if message.kind == wire.CALL:
                self._answer(message.call_id, message.body)
            elif message.kind == wire.PING:
                self._channel.send(wire.PONG, message.call_id, wire.encode(self._target.illness()))
            elif message.kind == wire.STOP:
                self._board.enter(STOPPING)
                return
            # Else it is about a call that has ended meanwhile.

    def _answer(self, call_id: int, request: bytes | memoryview) -> None:
        self._board.begin(call_id)
        started = time.perf_counter_ns()
        kind = wire.RESULT
        try:
            kind, body = self._run(call_id, request)
        except Closed:
            raise
        except _Unsendable as error:
            kind, body = wire.UNSENDABLE, error.body
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is the call's answer
            kind, body = wire.ERROR, pack(error)
        if os.getpid() != self._pid:  # the method forked and its copy came back here: only the original may answer
            os._exit(0)
        self._channel.send(kind, call_id, body, (time.perf_counter_ns() - started) // 1000)

    def _run(self, call_id: int, request: bytes | memoryview) -> tuple[int, bytes]:
        method, args, kwargs, facts = wire.decode(request)
        kind, function = self._target.method(method)
        child_context.enter(child_context.CallContext(self._channel, call_id, facts or {}))
        match kind:
            case "sync":
                value = function(*args, **kwargs)
                if inspect.isgenerator(value) or inspect.isasyncgen(value):
                    raise TypeError(f"{method} returned a generator but is none itself: write it with `yield`")
                if inspect.isawaitable(value):
                    value = self._attend(call_id, value)
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
        return wire.RESULT, _encode(value)

    def _attend(self, call_id: int, work: Awaitable[Any], grant: Callable[[int], None] = _ignore) -> Any:
        """Runs async code and hears meanwhile what the parent says about the call."""

        def hear(cancel: Callable[[], None]) -> None:
            try:
                messages = self._channel.poll(_ABOUT_CALLS)
            except Closed:  # an exception in a callback of the loop would only be logged
                end_group()
                return
            for message in messages:
                if message.call_id == call_id and message.kind == wire.CANCEL:
                    cancel()
                elif message.call_id == call_id:
                    grant(message.number)

        return self._engine.run_watching(work, self._channel.fileno(), hear)

    def _stream(self, call_id: int, items: Generator[Any, Any, Any]) -> None:
        room = wire.STREAM_WINDOW
        for item in items:
            self._channel.send(wire.ITEM, call_id, _encode(item))
            left = self._room(call_id, room - 1)
            if left is None:
                items.close()
                return
            room = left

    def _room(self, call_id: int, room: int) -> int | None:
        """How many items the consumer has room for: waits while that is none. None when nobody reads any more."""
        while True:
            for message in self._channel.poll(_ABOUT_CALLS) if room else self._channel.wait(_ABOUT_CALLS):
                if message.call_id == call_id:
                    if message.kind == wire.CANCEL:
                        return None
                    room += message.number
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
                    self._channel.send(wire.ITEM, call_id, _encode(item))

        self._attend(call_id, pump(), grant)


def _encode(value: object) -> bytes:
    try:
        return wire.encode(value)
    except Exception as error:
        raise _Unsendable(value, error) from error
