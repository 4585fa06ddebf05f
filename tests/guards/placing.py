"""One application in which each guard stands in each of the three places: around a handler, around a scheduled function
and around a method of a pool, whose children are real.

All of them do `work`, which a test steers by files, because some of it is done in another process."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.app.working import Worker, until
from workfleet import CallTimeout, CircuitOpen, Client, LockBusy, Pools, RateLimited
from workfleet.errors import Fail, Skipped
from workfleet.events import JobClaimed, JobSettled
from workfleet.model.jobs import JobRecord

PLACES = ("handler", "schedule", "method")

GUARDS = {
    "locked_skip": '@locked("NAME")',
    "locked_raise": '@locked("NAME", on_busy="raise")',
    "locked_wait": '@locked("NAME", on_busy="wait", ttl="10s")',
    "metric_bare": "@metric",
    "metric_named": '@metric("shop.NAME")',
    "trace_bare": "@trace",
    "trace_named": '@trace("shop NAME")',
    "opens": '@circuit_breaker(threshold=2, reset_after="1h")',
    "resets": '@circuit_breaker(threshold=1, reset_after="50ms")',
    "window": '@circuit_breaker(threshold=2, reset_after="1h", window="1h")',
    "rate": '@circuit_breaker(threshold=2, reset_after="1h", window="1h", failure_rate=0.6)',
    "keyed": '@circuit_breaker(threshold=1, reset_after="1h", key="KEY")',
    "only": '@circuit_breaker(threshold=1, reset_after="1h", only=ConnectionError)',
    "ignore": '@circuit_breaker(threshold=1, reset_after="1h", ignore=KeyError)',
    "shared": '@circuit_breaker(threshold=1, reset_after="1h", scope="fleet")',
    "fallback": '@circuit_breaker(threshold=1, reset_after="1h", fallback=lambda: "instead")',
    "limit": '@rate_limit(2, "1h")',
    "per": '@rate_limit(1, "50ms")',
    "limit_keyed": '@rate_limit(1, "1h", key="KEY")',
    "limit_waits": '@rate_limit(1, "50ms", on_limit="wait")',
    "limit_shared": '@rate_limit(1, "1h", scope="fleet")',
    "once": '@idempotent("KEY")',
    "once_braces": '@idempotent("key-{KEY}", ttl="1h")',
    "once_shared": '@idempotent(key="KEY")',
    "once_fails": '@idempotent("KEY")',
    "once_ttl": '@idempotent("KEY", ttl="50ms")',
    "once_large": '@idempotent("KEY", max_result="10B")',
}
METHOD_ONLY = {
    "retried": '@retry(3, backoff="1ms")',
    "retried_on": "@retry(2, backoff=None, on=ConnectionError)",
    "above": '@timeout("300ms")\n    @retry(1000, backoff="10ms")',
}
KEYS = {"handler": "job.data", "schedule": "job.schedule", "method": "value"}

_HEAD = """
import asyncio
import builtins
import os
import time
from pathlib import Path

from workfleet import (
    App, Job, circuit_breaker, handler, idempotent, locked, metric, process, public, queue, rate_limit, retry, schedule,
    timeout, trace,
)

FOLDER = Path(__file__).parent

def work_hard(what: str, value: str) -> str:
    with (FOLDER / f"{what}.calls").open("a") as file:
        file.write(f"{value} {os.getpid()}\\n")
    while (FOLDER / f"{what}.hold").exists():
        try:
            time.sleep(0.005)
        except BaseException:
            pass
    return f"{what} of {value}"

async def work(what: str, value: str) -> str:
    calls, error, hold = (FOLDER / f"{what}.{kind}" for kind in ("calls", "error", "hold"))
    with calls.open("a") as file:
        file.write(f"{value} {os.getpid()}\\n")
    while hold.exists():
        await asyncio.sleep(0.005)
    if error.exists():
        raise getattr(builtins, error.read_text())("it fails")
    return f"{what} of {value}"

"""
_HANDLER = """
    @handler("NAME", queue="guarded", attempts=1)
    GUARDS
    async def NAME(self, job: Job[str]) -> str:
        return await work("handler.NAME", job.data)
"""
_SCHEDULE = """
    @schedule("NAME", overlap="allow")
    GUARDS
    async def NAME(self, job: Job[None]) -> str:
        return await work("schedule.NAME", str(job.schedule))
"""
_METHOD = """
    @public
    GUARDS
    async def NAME(self, value: str) -> str:
        return await work("method.NAME", value)
"""
_TIMED = """
    @public
    @timeout("300ms")
    def timed(self, value: str) -> str:
        return work_hard("method.timed", value)
"""


def program() -> str:
    """The application's module."""

    def each(template: str, place: str, guards: dict[str, str]) -> str:
        return "".join(
            template.replace("GUARDS", text.replace("KEY", KEYS[place])).replace("NAME", name)
            for name, text in guards.items()
        )

    return (
        f"{_HEAD}\nclass Handlers:{each(_HANDLER, 'handler', GUARDS)}"
        f"\nclass Scheduled:{each(_SCHEDULE, 'schedule', GUARDS)}"
        f'\n@process("methods", size=1)\nclass Methods:{each(_METHOD, "method", {**GUARDS, **METHOD_ONLY})}{_TIMED}'
        '\napp = App("guarded", jobs=[Handlers, Scheduled, Methods])\n'
    )


class Site:
    """One place of the application, whose guarded functions a test calls."""

    def __init__(self, place: str, worker: Worker, module: Any, folder: Path) -> None:
        self.place, self.worker, self._module, self._folder = place, worker, module, folder
        self.said = ""
        """What the last call came to, in words."""
        self.record: JobRecord | None = None
        """The last run's job as it was then."""

    async def run(self, name: str, value: str = "a") -> str:
        """Call it, and say what came of it: ran, failed, refused, skipped or busy."""
        if self.place == "method":
            return await self._call(name, value)
        self.record = record = await self._settled(await self._start(name, value))
        self.said = record.failure.message if record.failure is not None else (record.result or b"").decode()
        code = record.failure.code if record.failure is not None else ""
        if record.outcome == "failed" and code == "lock_busy":
            return "busy"
        return {"completed": "ran", "snoozed": "refused"}.get(record.outcome or "", str(record.outcome))

    async def _call(self, name: str, value: str) -> str:
        methods = await (await self.worker.get(Pools)).pool(self._module.Methods)
        try:
            self.said = str(await getattr(methods, name)(value))
        except (CircuitOpen, RateLimited) as error:
            self.said = str(error)
            return "refused" if error.retry_after_ms > 0 else "refused for no time"
        except Skipped as error:
            self.said = str(error)
            return "skipped"
        except LockBusy as error:
            self.said = str(error)
            return "busy"
        except (Fail, OSError, KeyError, CallTimeout) as error:
            self.said = str(error)
            return "failed"
        return "ran"

    async def _start(self, name: str, value: str) -> str:
        client = await self.worker.get(Client)
        if self.place == "handler":
            return (await client.enqueue(getattr(self._module.Handlers, name).job(value))).id
        triggered = await client.schedules.trigger(name)
        assert triggered.ref is not None, triggered
        return triggered.ref.id

    async def _settled(self, id: str) -> JobRecord:
        await until(lambda: any(event.id == id for event in self.worker.told(JobSettled)), 30)
        (record,) = await self.worker.store.jobs.get([id])
        assert record is not None
        return record

    async def until_it_ran(self, name: str) -> None:
        """Call it until it runs."""
        async with asyncio.timeout(30):
            while await self.run(name) != "ran":
                await asyncio.sleep(0.01)

    async def until_begun(self, name: str, count: int) -> None:
        """Until so many calls have come to its guards, of which one has come to the function."""
        queue = {"handler": "guarded", "schedule": "guarded-schedules"}.get(self.place)
        claimed = self.worker.told
        await until(
            lambda: queue is None or sum(e.name == name and e.queue == queue for e in claimed(JobClaimed)) == count
        )
        await until(lambda: self.calls(name))

    def calls(self, name: str) -> int:
        """How often the function itself was entered."""
        return len(self._lines(name))

    def pids(self, name: str) -> list[str]:
        """Where."""
        return [line.split()[1] for line in self._lines(name)]

    def _lines(self, name: str) -> list[str]:
        file = self._file(name, "calls")
        return file.read_text().splitlines() if file.exists() else []

    def breaks(self, name: str, error: str = "OSError") -> None:
        """From now on it raises this."""
        # In one step: a child may read it at this moment.
        with tempfile.NamedTemporaryFile("w", dir=self._folder, delete=False) as made:
            made.write(error)
        os.replace(made.name, self._file(name, "error"))

    def mends(self, name: str) -> None:
        self._file(name, "error").unlink()

    def holds(self, name: str) -> None:
        """From now on it does not end."""
        self._file(name, "hold").touch()

    def lets_go(self, name: str) -> None:
        self._file(name, "hold").unlink()

    def whole_name(self, name: str) -> str:
        """By which guards know the function."""
        return (
            f"guarded_places.{dict(zip(PLACES, ('Handlers', 'Scheduled', 'Methods'), strict=True))[self.place]}.{name}"
        )

    def _file(self, name: str, kind: str) -> Path:
        return self._folder / f"{self.place}.{name}.{kind}"
