"""One run's own channel to the store: log lines and progress, both under the run's claim.

What is said is sent in the order in which it was said, in batches that form while a call is under way. A store that is
down costs what was said last, never the run's outcome; what is lost is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from workfleet.bus import shown
from workfleet.errors import StaleClaim, StoreUnavailable
from workfleet.events import Event, JobLinesLost, JobLogged, StoreTrouble
from workfleet.model.jobs import JobRecord
from workfleet.payloads.codec import encode_result
from workfleet.ports.jobs import JobStore

from .kept import MOST_KEPT, KeptLines, MostKept
from .said import Said

_LINE_LIMIT = 10_000
_LAST_TRIES = 2
"""At the end of a run: one lost reply costs nothing, and an outage does not hold up the outcome."""


class Channel:
    """What all runs of an event loop say through."""

    def __init__(
        self,
        jobs: JobStore,
        publish: Callable[[Event], None],
        loop: asyncio.AbstractEventLoop,
        kept: MostKept = MOST_KEPT,
        clean: Callable[[str], str] = str,
    ) -> None:
        self.jobs, self.publish, self.loop, self.kept, self.clean = jobs, publish, loop, kept, clean
        self.lock = threading.Lock()
        """Held while a run gets its place for what it says: two of its threads may begin at once."""


class Run:
    """What a `Job` says through: the `RunPort` of one run. Made in the event loop; `log` and `progress` may be called
    from any thread."""

    # Most runs say nothing: what they do not need, they do not have.
    _said: Said | None = None
    _stopped = _stale = _closed = False

    def __init__(self, record: JobRecord, channel: Channel, limit: int) -> None:
        """`limit` is how many bytes of JSON a progress may have."""
        self._record, self._channel, self._limit = record, channel, limit

    def log(self, line: str) -> None:
        """Keep a line."""
        # Cleaned before it is cut: half a secret does not look like one.
        text = self._channel.clean(str(line))[:_LINE_LIMIT].encode(errors="replace").decode()
        record = self._record
        self._channel.publish(JobLogged(id=record.id, name=record.name, queue=record.queue, line=text))
        if not self._closed:
            said = self._place()
            said.add(text, may_wait=not self._stopped)
            self._wake(said)

    def keep(self, text: str) -> None:
        """Keep what the run's code has logged, as far as its job has room. Never raises."""
        if self._closed:
            return
        said = self._place()
        with self._channel.lock:  # its threads may say something at the same time
            if said.kept is None:
                said.kept = KeptLines(self._record, self._channel.kept)
            line = said.kept.taken(text[:_LINE_LIMIT].encode(errors="replace").decode())
        if line is not None:
            said.add(line, may_wait=False)
            self._wake(said)

    def progress(self, value: object) -> Awaitable[None]:
        """Keep a value as the progress. It is sent whether the answer is awaited or not: code in a thread cannot."""
        data = encode_result(value, f"progress of job {self._record.id}", limit=self._limit)
        if not self._closed:
            said = self._place()
            said.progress.append(data)
            self._wake(said)
        return _Reported(self)

    def cancelled(self) -> bool:
        """Whether the run should stop."""
        return self._stopped

    def stop(self) -> None:
        """Tell code that cannot be cancelled that it should stop."""
        self._stopped = True
        if self._said is not None:
            self._said.stuck()

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
        self._closed = True
        self.stop()
        try:
            for _ in range(_LAST_TRIES):
                if self._pending():
                    await asyncio.shield(self._sent())
            if self._said is not None and self._pending():
                self._tell_lost(self._said.forget(), "the store did not take them before the run was over")
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()

    async def delivered(self) -> None:
        """Until the store has what was said so far. Raises `StaleClaim` when it is not this run's any more."""
        loop = self._channel.loop
        if asyncio.get_running_loop() is not loop:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.delivered(), loop))
            return
        await asyncio.shield(self._sent())
        if self._stale or self._closed:
            raise StaleClaim(self._record.id)

    def _place(self) -> Said:
        """Where this run puts what it says."""
        if self._said is None:
            with self._channel.lock:
                if self._said is None:
                    self._said = Said()
        return self._said

    def _wake(self, said: Said) -> None:
        if said.woken:
            return
        said.woken = True
        try:
            self._channel.loop.call_soon_threadsafe(self._start, said)
        except RuntimeError:
            return  # the loop has ended before the thread that says this: nobody is left to send it

    def _start(self, said: Said) -> None:
        said.woken = False  # before it looks: what a thread says from now on wakes again
        _ = self._sent()

    def _sent(self) -> asyncio.Task[None]:
        """The sending that is under way, or a new one."""
        said = self._place()
        if said.sending is None or said.sending.done():
            said.sending = self._channel.loop.create_task(self._send(said))
        return said.sending

    def _pending(self) -> bool:
        said = self._said
        if said is None:
            return False
        if said.sending is not None and not said.sending.done():
            return True
        return not self._stale and said.pending()

    async def _send(self, said: Said) -> None:
        while not self._stale:
            try:
                if said.kept is not None:
                    await said.kept.look(self._channel.jobs)
                if (batch := said.next()) is None:
                    return
                alive = await self._channel.jobs.report(
                    self._record.claim, progress=batch.progress, lines=batch.lines, call=batch.call
                )
            except StoreUnavailable:
                said.stuck()
                return  # the batch stays, for the next time that something is said
            except Exception as error:
                if said.batch is not None and said.batch.progress is not None:
                    raise  # whoever awaits it is told
                said.stuck()
                self._channel.publish(StoreTrouble(what="keeping a job's log lines", error=shown(error)))
                self._tell_lost(said.forget(), shown(error))
                return
            said.sent()
            if not alive:
                self._stale = True
                self.stop()
            elif batch.lost:
                self._tell_lost(batch.lost, "they came faster than the store took them")

    def _tell_lost(self, lines: int, why: str) -> None:
        if lines:
            record = self._record
            self._channel.publish(
                JobLinesLost(id=record.id, name=record.name, queue=record.queue, lines=lines, why=why)
            )


class _Reported:
    """Awaited, it waits until the progress is in the store."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __await__(self) -> Generator[Any, Any, None]:
        return self._run.delivered().__await__()
