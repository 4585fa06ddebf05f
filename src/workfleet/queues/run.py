"""One run's own channel to the store: log lines and progress, both under the run's claim.

What is said is sent in the order in which it was said, in batches that form while a call is under way. A store that is
down costs what was said last, never the run's outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from msgspec import Struct

from workfleet.errors import StaleClaim, StoreUnavailable
from workfleet.events import Event, JobLogged
from workfleet.ids import new_token
from workfleet.model.jobs import JobRecord
from workfleet.payloads.codec import encode_result
from workfleet.ports.stores import JobStore

_LINE_LIMIT = 10_000
_KEPT_LINES = 10_000
"""Lines that wait for a store that is down; the oldest make room."""
_BATCH = 1_000
_LAST_TRIES = 2
"""At the end of a run: one lost reply costs nothing, and an outage does not hold up the outcome."""


class _Batch(Struct, frozen=True):
    """One call to the store. Sent again as it is, because the store knows a repeat by its `call`."""

    call: str
    progress: bytes | None
    lines: list[str]


class Run:
    """What a `Job` says through: the `RunPort` of one run. Made in the event loop; `log` and `progress` may be called
    from any thread."""

    __slots__ = (
        "_batch", "_closed", "_jobs", "_limit", "_lines", "_loop", "_progress", "_publish", "_record", "_sending",
        "_stale", "_stopped", "_woken",
    )  # fmt: skip

    def __init__(
        self,
        record: JobRecord,
        jobs: JobStore,
        publish: Callable[[Event], None],
        loop: asyncio.AbstractEventLoop,
        *,
        limit: int,
    ) -> None:
        """`limit` is how many bytes of JSON a progress may have."""
        self._record, self._jobs, self._publish, self._loop, self._limit = record, jobs, publish, loop, limit
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._progress: deque[bytes] = deque(maxlen=1)
        self._batch: _Batch | None = None
        self._sending: asyncio.Task[None] | None = None
        self._woken = self._stopped = self._stale = self._closed = False

    def log(self, line: str) -> None:
        """Keep a line."""
        text = str(line)[:_LINE_LIMIT].encode(errors="replace").decode()
        record = self._record
        self._publish(JobLogged(id=record.id, name=record.name, queue=record.queue, line=text))
        if not self._closed:
            self._lines.append(text)
            self._wake()

    def progress(self, value: object) -> Awaitable[None]:
        """Keep a value as the progress. It is sent whether the answer is awaited or not: code in a thread cannot."""
        data = encode_result(value, f"progress of job {self._record.id}", limit=self._limit)
        if not self._closed:
            self._progress.append(data)
            self._wake()
        return _Reported(self)

    def cancelled(self) -> bool:
        """Whether the run should stop."""
        return self._stopped

    def stop(self) -> None:
        """Tell code that cannot be cancelled that it should stop."""
        self._stopped = True

    def over(self) -> bool:
        """The run has ended. True when nothing of what was said is left to send, else `close` is to be awaited."""
        if self._pending():
            return False
        self._closed = self._stopped = True
        return True

    async def close(self) -> None:
        """The run is over, whether its code has noticed or not: send what is left, and take nothing any more.

        A cancellation that comes meanwhile comes too late: the run has ended, and its outcome must not be lost.
        """
        self._closed = self._stopped = True
        try:
            for _ in range(_LAST_TRIES):
                if self._pending():
                    await asyncio.shield(self._sent())
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()

    async def delivered(self) -> None:
        """Until the store has what was said so far. Raises `StaleClaim` when it is not this run's any more."""
        if asyncio.get_running_loop() is not self._loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.delivered(), self._loop))
            return
        await asyncio.shield(self._sent())
        if self._stale or self._closed:
            raise StaleClaim(self._record.id)

    def _wake(self) -> None:
        if self._woken:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._start)
        except RuntimeError:
            return  # the loop has ended before the thread that says this: nobody is left to send it

    def _start(self) -> None:
        self._woken = False  # before it looks: what a thread says from now on wakes again
        _ = self._sent()

    def _sent(self) -> asyncio.Task[None]:
        """The sending that is under way, or a new one."""
        if self._sending is None or self._sending.done():
            self._sending = self._loop.create_task(self._send())
        return self._sending

    def _pending(self) -> bool:
        if self._sending is not None and not self._sending.done():
            return True
        return not self._stale and bool(self._lines or self._progress or self._batch)

    async def _send(self) -> None:
        while not self._stale and (batch := self._next()) is not None:
            try:
                alive = await self._jobs.report(
                    self._record.claim, progress=batch.progress, lines=batch.lines, call=batch.call
                )
            except StoreUnavailable:
                return  # the batch stays, for the next time that something is said
            self._batch = None
            if not alive:
                self._stale = self._stopped = True

    def _next(self) -> _Batch | None:
        if self._batch is None and (self._lines or self._progress):
            # Taken out one by one, because a thread may be saying more at this moment.
            lines = [self._lines.popleft() for _ in range(min(len(self._lines), _BATCH))]
            self._batch = _Batch(new_token(), self._progress.popleft() if self._progress else None, lines)
        return self._batch


class _Reported:
    """Awaited, it waits until the progress is in the store."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, Any, None]:
        return self._run.delivered().__await__()
