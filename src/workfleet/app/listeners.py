"""Listeners of an application: told of runs after the fact, each in a line of its own, in the order of what happened.

A line never holds up a job, nor another line: what fails, hangs or does not keep up harms nobody but itself, and is
told. Knows nothing of how jobs run."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from dishka import AsyncContainer

from workfleet.bus import shown
from workfleet.errors import ConfigError, Problem
from workfleet.events import (
    Event,
    JobClaimed,
    JobRecovered,
    JobSettled,
    ListenerDropped,
    ListenerFailed,
    ScheduleCoalesced,
    ScheduleMissed,
    ScheduleSkipped,
)
from workfleet.model.jobtypes import JobContext
from workfleet.model.runs import RunEvent, RunKind
from workfleet.modules.module import Listener, Module
from workfleet.payloads.hints import read_hints

from .graph import check_parameters, split_hint
from .registry import Code
from .threads import HandlerThreads

_LIMIT = 1_000
_GRACE_S = 1.0
_SLOW = "it does not keep up"
_HANGS = "an earlier call of it has not returned"
_AGAIN = ("failed", "timed_out", "retry", "crashed")
"""Outcomes after which a job that has not failed is tried again."""


class ListenerLine:
    """A Service, and a subscriber of the bus: one listener with what waits for it, `_LIMIT` events at the most."""

    def __init__(
        self,
        listener: Listener,
        container: AsyncContainer,
        threads: HandlerThreads,
        publish: Callable[[Event], None],
    ) -> None:
        self.name = f"listener {listener.where}"
        self._listener, self._container, self._threads, self._publish = listener, container, threads, publish
        hints = read_hints(listener.fn, method=False).injected
        self._takes_event = [name for name, hint in hints.items() if _is_event(hint)]
        self._injected = {name: split_hint(hint) for name, hint in hints.items() if not _is_event(hint)}
        self._waiting: deque[RunEvent | Event] = deque()
        self._something = asyncio.Event()
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._telling = asyncio.Lock()
        self._hanging: asyncio.Task[BaseException | None] | None = None
        self._dropped = 0

    def route(self, kind: type[Event]) -> Callable[[Any], None] | None:
        if kind in self._listener.events:
            return self._queue
        heard = _HEARD.get(kind)
        if heard is None or heard[0].isdisjoint(self._listener.kinds):
            return None
        return partial(self._hear, heard[1])

    async def serve(self) -> None:
        while True:
            await self._something.wait()
            await self.catch_up()

    async def catch_up(self) -> None:
        """Tell the listener of all that waits."""
        async with self._telling:
            self._something.clear()
            while self._waiting:
                await self._tell(self._waiting.popleft())

    async def finish(self, timeout_ms: int) -> None:
        """Tell the rest, as far as the time allows."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self.catch_up()
        except TimeoutError:
            self._dropped += len(self._waiting)
            self._waiting.clear()
            self._failed("end of the process", f"it was ended: all listeners together have {timeout_ms} ms then")
        if self._dropped:
            self._tell_dropped("the process ends")

    def _hear(self, read: Callable[[Any], RunEvent | None], event: Event) -> None:
        said = read(event)
        if said is not None and said.kind in self._listener.kinds:
            self._queue(said)

    def _queue(self, said: RunEvent | Event) -> None:
        if len(self._waiting) >= _LIMIT:
            self._dropped += 1
            return
        self._waiting.append(said)
        if threading.get_ident() == self._thread:
            self._something.set()
        else:  # a line that code in a thread wrote, say
            self._loop.call_soon_threadsafe(self._something.set)

    async def _tell(self, event: RunEvent | Event) -> None:
        if self._hanging is not None and not self._hanging.done():
            self._dropped += 1
            return
        self._hanging = None
        if self._dropped:
            self._tell_dropped(_SLOW)
        task = asyncio.get_running_loop().create_task(self._call(event), name=self.name)
        try:
            await asyncio.wait({task}, timeout=self._listener.timeout_ms / 1000)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if task.done():
            error = asyncio.CancelledError() if task.cancelled() else task.result()
            if error is not None:
                self._failed(_word(event), shown(error))
            return
        # Once only: a thread cannot be ended, and a second time would let go of it while it goes on.
        task.cancel()
        await asyncio.wait({task}, timeout=_GRACE_S)
        self._hanging = None if task.done() else task
        left = "" if task.done() else "; it goes on, and is told of nothing until it returns"
        self._failed(_word(event), f"it took longer than its {self._listener.timeout_ms} ms{left}")

    async def _call(self, event: RunEvent | Event) -> BaseException | None:
        """What it raised, if anything. As a value: `SystemExit` raised in a task would end the loop."""
        arguments: dict[str, Any] = dict.fromkeys(self._takes_event, event)
        try:
            async with self._container() as scope:
                for name, (kind, component) in self._injected.items():
                    arguments[name] = await scope.get(kind, component)
                if inspect.iscoroutinefunction(self._listener.fn):
                    await self._listener.fn(**arguments)
                else:
                    await self._threads.run(self._listener.fn, **arguments)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the boundary around user code: told, and nobody else's trouble
            return error
        return None

    def _failed(self, kind: str, error: str) -> None:
        self._publish(ListenerFailed(listener=self._listener.where, kind=kind, error=error))

    def _tell_dropped(self, error: str) -> None:
        count, self._dropped = self._dropped, 0
        self._publish(ListenerDropped(listener=self._listener.where, count=count, error=error))


def check_listeners(modules: Iterable[Module], container: AsyncContainer) -> list[Problem]:
    """What is wrong with the parameters of listeners."""
    return [problem for module in modules for each in module.listeners for problem in _faults(each, container)]


def _faults(listener: Listener, container: AsyncContainer) -> list[Problem]:
    try:
        hints = read_hints(listener.fn, method=False)
    except ConfigError as error:
        return list(error.problems)
    if hints.job_parameter is not None or JobContext in hints.injected.values():
        return [Problem(listener.where, "a listener has no job: take `event: RunEvent`, which says what it was")]
    wrong = [hint for hint in hints.injected.values() if _is_event(hint) and not _is_told(listener, hint)]
    if wrong:
        return [Problem(listener.where, f"it is never told of a {_shown(wrong[0])}: its listener names others")]
    injected = {name: hint for name, hint in hints.injected.items() if not _is_event(hint)}
    return check_parameters(container, Code(listener.fn, None, listener.fn.__name__), injected)


def _is_event(hint: Any) -> bool:
    """Whether a parameter takes what happened: a `RunEvent`, a class of events, or one of several (`A | B`)."""
    parts = get_args(hint) or (hint,)
    return all(isinstance(part, type) and (part is RunEvent or issubclass(part, Event)) for part in parts)


def _is_told(listener: Listener, hint: Any) -> bool:
    """Whether all that it is told of fits a parameter."""
    parts = get_args(hint) or (hint,)
    if listener.kinds:
        return RunEvent in parts
    return all(issubclass(each, parts) for each in listener.events)


def _shown(hint: Any) -> str:
    return " | ".join(part.__qualname__ for part in get_args(hint) or (hint,))


def _word(event: RunEvent | Event) -> str:
    return event.kind if isinstance(event, RunEvent) else event.wire_name


def _began(event: JobClaimed) -> RunEvent | None:
    return None if event.housekeeping else _run("start", event)


def _ended(event: JobSettled) -> RunEvent | None:
    kind = _kind_of(event)
    if kind is None or event.housekeeping:
        return None
    return _run(
        kind,
        event,
        outcome=event.outcome,
        duration_ms=event.duration_ms,
        delay_ms=event.delay_ms if kind == "retry" else None,
        error=event.error,
    )


def _recovered(event: JobRecovered) -> RunEvent | None:
    kind = _kind_of(event)
    if kind is None or event.housekeeping:
        return None
    return _run(kind, event, outcome=event.outcome, error=event.how)


def _kind_of(event: JobSettled | JobRecovered) -> RunKind | None:
    if event.outcome == "skipped":
        return "skip"
    if event.state == "completed":
        return "success"
    if event.state == "failed":
        return "failure"
    # What was given back or put off has neither ended nor failed.
    return "retry" if event.outcome in _AGAIN else None


def _skipped(event: ScheduleSkipped) -> RunEvent:
    return _slots("skip", event, outcome="skipped", count=event.count)


def _coalesced(event: ScheduleCoalesced) -> RunEvent:
    return _slots("skip", event, outcome="coalesced", job_id=event.job_id)


def _missed(event: ScheduleMissed) -> RunEvent:
    return _slots("miss", event, outcome="missed", count=event.count)


def _slots(kind: RunKind, event: ScheduleSkipped | ScheduleCoalesced | ScheduleMissed, **facts: Any) -> RunEvent:
    return RunEvent(kind=kind, schedule=event.schedule, slot_ms=event.slot_ms, error=event.reason or None, **facts)


def _run(kind: RunKind, event: JobClaimed | JobSettled | JobRecovered, **facts: Any) -> RunEvent:
    return RunEvent(
        kind=kind,
        schedule=event.schedule,
        slot_ms=event.slot_ms,
        job_id=event.id,
        name=event.name,
        queue=event.queue,
        attempt=event.attempt,
        **facts,
    )


_HEARD: Mapping[type[Event], tuple[frozenset[RunKind], Callable[[Any], RunEvent | None]]] = MappingProxyType(
    {
        JobClaimed: (frozenset({"start"}), _began),
        JobSettled: (frozenset({"success", "failure", "retry", "skip"}), _ended),
        JobRecovered: (frozenset({"failure", "retry"}), _recovered),
        ScheduleSkipped: (frozenset({"skip"}), _skipped),
        ScheduleCoalesced: (frozenset({"skip"}), _coalesced),
        ScheduleMissed: (frozenset({"miss"}), _missed),
    }
)
"""Which events say something of which kinds."""
