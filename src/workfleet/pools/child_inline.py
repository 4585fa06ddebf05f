"""A child that lives on this process's event loop: async methods are awaited there, sync ones run on it.

For methods that only wait or are very cheap: while a sync one runs, the whole process stands still, and nothing can end
it. Like a thread, a killed child is left to itself: async code in it is cancelled, and what it says is not heard.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import os
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, aclosing, closing
from typing import Any, NamedTuple, assert_never

from workfleet.pools import board, child_context, wire
from workfleet.pools.child import Boot
from workfleet.pools.child_calls import Unsendable, encoded
from workfleet.pools.child_failure import pack, trace_of
from workfleet.pools.child_target import Kind, Target
from workfleet.pools.child_thread import LEFT, from_boot
from workfleet.pools.child_trace import TRACEPARENT, CallTrace
from workfleet.pools.link import OnFrames
from workfleet.pools.marks import Moment
from workfleet.pools.parcel import Parcel
from workfleet.pools.process import Exit
from workfleet.pools.segment import Segment


class Message(NamedTuple):
    """What it has to do, in its order."""

    kind: int
    call_id: int
    body: bytes | memoryview | Parcel


class InlineChild:
    """`build` makes the object; None: as the boot frame says. One call runs at a time, as in any child."""

    arguments: Segment | None = None

    def __init__(self, label: str, build: Callable[[], object] | None, on_frames: OnFrames) -> None:
        self.pid = os.getpid()
        self.arguments = None
        self.ended: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()
        self._label = label
        self._build = build
        self._mouth = _Mouth(on_frames)
        self._reader = wire.FrameReader()
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._begun = self._beats = 0
        self._phase = board.BUILDING
        self._life: asyncio.Task[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._room = asyncio.Semaphore(0)
        self._trace = CallTrace(None, None)

    async def open(self) -> None:
        self._life = asyncio.create_task(self._live(), name=self._label)

    def send(self, pieces: list[bytes]) -> None:
        for kind, call_id, number, body in _frames(self._reader, pieces):
            running = self._running if call_id == self._begun else None
            if kind == wire.CANCEL:
                if running is not None:
                    running.cancel()
            elif kind == wire.CREDIT:
                for _ in range(number if running is not None else 0):
                    self._room.release()
            else:
                self._inbox.put_nowait(Message(kind, call_id, wire.kept(body)))

    def catch_up(self) -> None:
        """It says everything aloud."""

    def kill(self) -> None:
        self._mouth.closed = True
        for task in (self._running, self._life):
            if task is not None:
                task.cancel()
        self._end(LEFT)

    def _end(self, exit_: Exit) -> None:
        if not self.ended.done():
            self.ended.set_result(exit_)

    def begun(self) -> int:
        return self._begun

    def phase(self) -> str:
        return board.PHASES[self._phase]

    def halt(self) -> None:
        """What it was sent it has begun."""

    def beats(self) -> int:
        """The loop lives as long as it can ask."""
        self._beats += 1
        return self._beats

    def dump(self) -> None:
        faulthandler.dump_traceback()

    def look(self) -> None:
        """It cannot end unnoticed."""

    async def _live(self) -> None:
        failed: BaseException | None = None
        try:
            async with AsyncExitStack() as stack:
                target = await self._make(stack)
                stack.push_async_callback(run_hooks, target, "shutdown")
                self._phase = board.READY
                self._mouth.send(wire.READY, 0, wire.encode(target.kinds))
                try:
                    await self._serve(target)
                finally:  # left to itself, it must not be closed under a method that goes on
                    if self._running is not None:
                        await asyncio.wait({self._running})
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: it ends, and says by what
            failed = error
        self._end(Exit(0, "ended", "") if failed is None else _failed(failed))

    async def _make(self, stack: AsyncExitStack) -> Target:
        boot = Boot(*wire.decode((await self._inbox.get()).body))
        self._trace = CallTrace(boot.trace, boot.traced_as)
        try:
            build = self._build or from_boot(boot)
            target = Target(await _entered(stack, await _settled(build())))
            self._phase = board.STARTING
            await run_hooks(target, "start")
        except BaseException as error:
            self._mouth.send(wire.UNFIT, 0, pack(error))
            raise
        return target

    async def _serve(self, target: Target) -> None:
        while True:
            message = await self._inbox.get()
            if message.kind == wire.CALL:
                await self._answer(target, message)
            elif message.kind == wire.PING:
                self._mouth.send(wire.PONG, message.call_id, wire.encode(await illness(target)))
            elif message.kind == wire.STOP:
                self._phase = board.STOPPING
                return

    async def _answer(self, target: Target, message: Message) -> None:
        self._begun, self._room = message.call_id, asyncio.Semaphore(wire.STREAM_WINDOW)
        self._running = asyncio.create_task(self._run(target, message), name=self._label)
        await asyncio.wait({self._running})  # in a task of its own it can be cancelled, and has its own context
        self._running = None

    async def _run(self, target: Target, message: Message) -> None:
        started = time.perf_counter_ns()
        try:
            kind, body = await self._run_method(target, message)
        except Unsendable as error:
            kind, body = wire.UNSENDABLE, error.body
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: whatever it raises is the call's answer
            kind, body = wire.ERROR, pack(error)
        # Said in the same step of the loop: a sync method that took too long has ended before any timer could run.
        self._mouth.send(kind, message.call_id, body, (time.perf_counter_ns() - started) // 1000)

    async def _run_method(self, target: Target, message: Message) -> tuple[int, wire.Body]:
        method, args, kwargs, facts = wire.decode(message.body)
        kind, function = target.method(method)
        child_context.enter(self._mouth, message.call_id, facts)
        if facts is None or TRACEPARENT not in facts:
            return await self._called(message, method, kind, function, args, kwargs)
        with self._trace.around(method, facts[TRACEPARENT]):
            return await self._called(message, method, kind, function, args, kwargs)

    async def _called(
        self, message: Message, method: str, kind: Kind, function: Callable[..., Any], args: Any, kwargs: Any
    ) -> tuple[int, wire.Body]:
        match kind:
            case "sync" | "async":
                value = function(*args, **kwargs)
                if inspect.isgenerator(value) or inspect.isasyncgen(value):
                    raise TypeError(f"{method} returned a generator but is none itself: write it with `yield`")
                return wire.RESULT, encoded(await _settled(value))
            case "generator":
                await self._stream(message.call_id, _each(function(*args, **kwargs)))
            case "async generator":
                await self._stream(message.call_id, function(*args, **kwargs))
            case _:
                assert_never(kind)
        return wire.END, b""

    async def _stream(self, call_id: int, items: AsyncGenerator[Any, None]) -> None:
        async with aclosing(items):
            async for item in items:
                await self._room.acquire()
                self._mouth.send(wire.ITEM, call_id, encoded(item))


class _Mouth:
    """What it says is heard at once, as a copy like all that a child says, until it is closed."""

    def __init__(self, on_frames: OnFrames) -> None:
        self._on_frames = on_frames
        self._reader = wire.FrameReader()
        self.closed = False

    def send(self, kind: int, call_id: int, body: wire.Body = b"", number: int = 0) -> None:
        if not self.closed:
            for frame in _frames(self._reader, wire.frame(kind, call_id, body, number)):
                self._on_frames([frame])


def _frames(reader: wire.FrameReader, pieces: list[bytes]) -> Iterator[wire.Frame]:
    left = memoryview(b"".join(pieces))
    while left:
        room = reader.room()
        count = min(len(room), len(left))
        room[:count], left = left[:count], left[count:]
        yield from reader.take(count)


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _entered(stack: AsyncExitStack, made: object) -> object:
    """What a context manager gives, held until the stack is left; anything else as it is."""
    entered: object = made
    if isinstance(made, AbstractAsyncContextManager):
        entered = await stack.enter_async_context(made)
    elif isinstance(made, AbstractContextManager):
        entered = stack.enter_context(made)
    return made if entered is None else entered


async def run_hooks(target: Target, moment: Moment) -> None:
    """As in any child, on this loop."""
    failed: Exception | None = None
    for hook in target.hooks(moment):
        try:
            await _settled(hook())
        except Exception as error:  # noqa: BLE001 - user code: one failing hook must not keep the others from running
            failed = failed or error
    if failed is not None:
        raise failed


async def illness(target: Target) -> str | None:
    """As in any child, on this loop."""
    for name, check in target.checks():
        try:
            if await _settled(check()) is False:
                return f"{name} returned False"
        except Exception as error:  # noqa: BLE001 - user code: whatever it raises is the answer
            return f"{name} raised {type(error).__qualname__}: {error}"
    return None


async def _each(items: Generator[Any, None, None]) -> AsyncGenerator[Any, None]:
    with closing(items):
        for item in items:
            yield item


def _failed(error: BaseException) -> Exit:
    return Exit(1, f"ended by {type(error).__qualname__}", trace_of(error))
