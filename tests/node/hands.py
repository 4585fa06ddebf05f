"""One set of operations, done by npm's BullMQ and by us: what the differential harness drives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Protocol

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, raised, settlement
from workfleet.ids import new_token
from workfleet.model.jobs import JobRecord, JobState, Keep, KeepRule, RunOverrides
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.model.policy import Backoff
from workfleet.ports.jobs import TakeOver
from workfleet.ports.stores import Store

WORKER = "py1"
LEASE_MS = 3_600_000
"""So long that it is not over before the test is, on whatever machine."""
SHORT_MS = 3_000
"""A lease that a test waits out; long enough to be seen."""
_LOOK_MS = 30
"""So often Node looks for stalled jobs at the most."""


class Hand(Protocol):
    """Operations on the queue "q"."""

    async def add(self, job_id: str, **options: Any) -> None: ...
    async def claim(self, count: int = 1, *, lease_ms: int = LEASE_MS) -> None: ...
    async def progress(self, job_id: str, value: object) -> None: ...
    async def log(self, job_id: str, line: str) -> None: ...
    async def complete(self, job_id: str, value: object = None) -> None: ...
    async def fail(self, job_id: str, message: str = "boom") -> None: ...
    async def fail_for_good(self, job_id: str, message: str = "no way") -> None: ...
    async def delay(self, job_id: str, ms: int) -> None: ...
    async def give_back(self, job_id: str) -> None: ...
    async def promote(self, job_id: str) -> None: ...
    async def retry(self, job_id: str) -> None: ...
    async def remove(self, job_id: str) -> None: ...
    async def pause(self) -> None: ...
    async def resume(self) -> None: ...
    async def purge(self, state: str) -> None: ...
    async def recover(self) -> None: ...


class NodesHand:
    """BullMQ's own classes, step by step. The worker runs nothing by itself."""

    def __init__(self, queue: Opened, worker: Opened) -> None:
        self._queue, self._worker = queue, worker
        self._tokens: dict[str, str] = {}

    @classmethod
    async def open(cls, room: NodeRoom, *, lib: int = 6, prefix: str) -> NodesHand:
        queue = await room.queue(lib=lib, prefix=prefix)
        worker = await room.worker(
            lib=lib, prefix=prefix, work=False, name=WORKER, stalledInterval=_LOOK_MS, lockDuration=LEASE_MS
        )
        return cls(queue, worker)

    async def add(self, job_id: str, **options: Any) -> None:
        await self._queue.call("add", "work", {"n": job_id}, {"jobId": job_id, **options})

    async def claim(self, count: int = 1, *, lease_ms: int = LEASE_MS) -> None:
        for _ in range(count):
            token = new_token()
            job = await self._worker.call("getNextJob", token, {"block": False})
            if job is None:
                return
            self._tokens[job["id"]] = token
            if lease_ms != LEASE_MS:
                await self._worker.job(job["id"], "extendLock", token, lease_ms)

    async def progress(self, job_id: str, value: object) -> None:
        await self._worker.job(job_id, "updateProgress", value)

    async def log(self, job_id: str, line: str) -> None:
        await self._worker.job(job_id, "log", line)

    async def complete(self, job_id: str, value: object = None) -> None:
        await self._worker.job(job_id, "moveToCompleted", value, self._tokens[job_id], False)

    async def fail(self, job_id: str, message: str = "boom") -> None:
        await self._worker.job(job_id, "moveToFailed", {"$error": message}, self._tokens[job_id], False)

    async def fail_for_good(self, job_id: str, message: str = "no way") -> None:
        await self._worker.job(
            job_id, "moveToFailed", {"$error": message, "kind": "UnrecoverableError"}, self._tokens[job_id], False
        )

    async def delay(self, job_id: str, ms: int) -> None:
        await self._worker.job(job_id, "moveToDelayed", {"$now": ms}, self._tokens[job_id])

    async def give_back(self, job_id: str) -> None:
        await self._worker.job(job_id, "moveToWait", self._tokens[job_id])

    async def promote(self, job_id: str) -> None:
        await self._queue.job(job_id, "promote")

    async def retry(self, job_id: str) -> None:
        await self._queue.job(job_id, "retry", "failed", {"resetAttemptsMade": True})

    async def remove(self, job_id: str) -> None:
        await self._queue.job(job_id, "remove")

    async def pause(self) -> None:
        await self._queue.call("pause")

    async def resume(self) -> None:
        await self._queue.call("resume")

    async def purge(self, state: str) -> None:
        await self._queue.call("clean", 0, 1_000, "wait" if state == "waiting" else state)

    async def recover(self) -> None:
        await asyncio.sleep(SHORT_MS * 1.1 / 1000)
        for _ in range(2):  # the first look flags them
            await asyncio.sleep(_LOOK_MS * 3 / 1000)
            await self._worker.call("moveStalledJobsToWait")


class OurHand:
    """Our store, as its callers use it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._held: dict[str, JobRecord] = {}

    async def add(self, job_id: str, **options: Any) -> None:
        await self._store.jobs.enqueue([record(job_id, options)])

    async def claim(self, count: int = 1, *, lease_ms: int = LEASE_MS) -> None:
        for each in await claim(self._store, count, lease_ms=lease_ms):
            self._held[each.id] = each

    async def progress(self, job_id: str, value: object) -> None:
        claimed = self._held[job_id].claim
        assert await self._store.jobs.report(claimed, progress=_json(value), call=new_token())

    async def log(self, job_id: str, line: str) -> None:
        assert await self._store.jobs.report(self._held[job_id].claim, lines=[line], call=new_token())

    async def complete(self, job_id: str, value: object = None) -> None:
        await self._end(job_id, Ended(kind="returned", result=_json(value)))

    async def fail(self, job_id: str, message: str = "boom") -> None:
        await self._end(job_id, raised(message, "Error"))

    async def fail_for_good(self, job_id: str, message: str = "no way") -> None:
        await self._end(job_id, Ended(kind="failed", failure=raised(message).failure))

    async def delay(self, job_id: str, ms: int) -> None:
        await self._end(job_id, Ended(kind="snoozed", after_ms=ms))

    async def give_back(self, job_id: str) -> None:
        await self._end(job_id, GIVE_BACK)

    async def _end(self, job_id: str, how: Ended) -> None:
        assert (await self._store.jobs.settle([settlement(self._held.pop(job_id), how, most=1)])).applied == [True]

    async def promote(self, job_id: str) -> None:
        assert await self._store.jobs.promote([job_id]) == [True]

    async def retry(self, job_id: str) -> None:
        assert await self._store.jobs.retry([job_id]) == [True]

    async def remove(self, job_id: str) -> None:
        assert await self._store.jobs.delete([job_id]) == [True]

    async def pause(self) -> None:
        await self._store.queues.set_paused("q", paused=True)

    async def resume(self) -> None:
        await self._store.queues.set_paused("q", paused=False)

    async def purge(self, state: str) -> None:
        await self._store.jobs.purge("q", [JobState(state)])

    async def recover(self) -> None:
        await asyncio.sleep(SHORT_MS * 1.1 / 1000)
        taken = await self._store.jobs.take_over(TakeOver(WORKER, new_token(), LEASE_MS))
        crashed = [settlement(each, Ended(kind="crashed", failure=raised("gone").failure)) for each in taken]
        await self._store.jobs.settle(crashed)


def _json(value: object) -> bytes:
    """As JavaScript writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def record(job_id: str, options: Mapping[str, Any]) -> JobRecord:
    """A job of ours that says what BullMQ's options say."""
    said = dict(options)
    backoff = said.pop("backoff", None)
    run: dict[str, Any] = {}
    if "attempts" in said:
        run["attempts"] = said.pop("attempts")
    if backoff:
        jitter = "full" if backoff.get("jitter") else "none"
        run["backoff"] = Backoff(backoff["type"], backoff["delay"], 10**9, jitter)
    completed, failed = (_keep(said.pop(name, None)) for name in ("removeOnComplete", "removeOnFail"))
    made = JobRecord(
        id=job_id,
        queue="q",
        name="work",
        payload=_json({"n": job_id}),
        run=RunOverrides(**run),
        priority=said.pop("priority", 0),
        lifo=said.pop("lifo", False),
        delay_ms=said.pop("delay", 0),
        keep=Keep(completed, failed),
    )
    assert not said, f"no word of ours for {said}"
    return made


def _keep(said: Mapping[str, int] | None) -> KeepRule | None:
    if said is None:
        return None
    return KeepRule(said["age"] * 1000 if "age" in said else None, said.get("count"))
