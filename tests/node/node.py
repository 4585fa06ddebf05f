"""The Node process of the tests, seen from Python: requests, answers, and what its workers and QueueEvents saw."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TIMEOUT_S = 60


class NodeError(Exception):
    """What a call of Node's threw. `kind` is the class."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Seen:
    """Something that a worker or a QueueEvents saw."""

    event: str
    said: Mapping[str, Any]

    @property
    def job(self) -> str:
        return str(self.said.get("id", self.said.get("jobId", "")))


class Node:
    """One Node process. Safe to use from several event loops, one after the other."""

    def __init__(self, packages: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(HERE / "driver.js"), str(packages)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[Any]] = {}
        self._seen: dict[str, list[Seen]] = {}
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(TIMEOUT_S), "the Node process did not start"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if "of" in message:
                self._seen.setdefault(message["of"], []).append(Seen(message["event"], message["said"] or {}))
                self._ready.set()
            elif "error" in message:
                self._asked.pop(message["id"]).set_exception(NodeError(message["error"], message["kind"]))
            else:
                self._asked.pop(message["id"]).set_result(message["ok"])
        for future in self._asked.values():
            future.set_exception(NodeError("the Node process has ended", "Ended"))

    async def ask(self, op: str, **said: Any) -> Any:
        number = next(self._numbers)
        future: Future[Any] = Future()
        self._asked[number] = future
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"id": number, "op": op, **said}) + "\n")
        self._process.stdin.flush()
        async with asyncio.timeout(TIMEOUT_S):
            return await asyncio.wrap_future(future)

    def seen(self, handle: str) -> list[Seen]:
        return list(self._seen.get(handle, ()))

    def versions(self) -> list[str]:
        """Of BullMQ: the 5 and the 6."""
        return list(self.seen("driver")[0].said["bullmq"])

    def forget(self) -> None:
        for handle in list(self._seen):
            if handle != "driver":
                del self._seen[handle]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT_S)
        finally:
            self._process.kill()
            self._process.wait(TIMEOUT_S)
            self._reader.join(TIMEOUT_S)
            self._process.stdout.close()


class Opened:
    """Something of Node's that is open: a Queue, a Worker, a QueueEvents or a FlowProducer."""

    def __init__(self, node: Node, handle: str) -> None:
        self.node, self.handle = node, handle

    async def call(self, method: str, *args: Any) -> Any:
        return await self.node.ask("call", handle=self.handle, method=method, args=list(args))

    async def job(self, job_id: str, method: str | None = None, *args: Any) -> Any:
        """What a method of a job of this queue says; without one, the job."""
        return await self.node.ask("job", handle=self.handle, job=job_id, method=method, args=list(args))

    async def logs(self, job_id: str) -> list[str]:
        lines: list[str] = await self.node.ask("logs", handle=self.handle, job=job_id)
        return lines

    async def close(self, *args: Any) -> None:
        await self.node.ask("close", handle=self.handle, args=list(args))

    @property
    def seen(self) -> list[Seen]:
        return self.node.seen(self.handle)

    def ends(self) -> list[Seen]:
        """What ended, in the order of the ends."""
        return [each for each in self.seen if each.event in ("completed", "failed")]

    async def until(
        self, enough: Callable[[list[Seen]], object], what: str, *, timeout_s: float = TIMEOUT_S
    ) -> list[Seen]:
        """Wait until what was seen is enough."""
        try:
            async with asyncio.timeout(timeout_s):
                while not enough(self.seen):
                    await asyncio.sleep(0.01)
        except TimeoutError:
            lines = "\n".join(f"  {each.event} {dict(each.said)}" for each in self.seen)
            raise AssertionError(f"waited in vain for {what}; seen:\n{lines}") from None
        return self.seen

    async def until_saw(self, event: str, *jobs: str, timeout_s: float = TIMEOUT_S) -> list[Seen]:
        """Wait until it saw this event of each of these jobs; returns these sights, in the order of `jobs`."""

        def found() -> list[Seen]:
            by_job = {each.job: each for each in self.seen if each.event == event}
            return [by_job[job] for job in jobs if job in by_job]

        await self.until(lambda _: len(found()) == len(jobs), f"{event} of {', '.join(jobs)}", timeout_s=timeout_s)
        return found()


class NodeRoom:
    """Opens things of Node's on one server, for one test."""

    def __init__(self, node: Node, url: str) -> None:
        self.node, self.url = node, url
        self._count = itertools.count(1)

    async def _open(self, kind: str, queue: str | None, lib: int, options: Mapping[str, Any], **said: Any) -> Opened:
        handle = f"{kind}-{next(self._count)}"
        await self.node.ask(
            "open", kind=kind, handle=handle, queue=queue, url=self.url, lib=lib, options=dict(options), **said
        )
        return Opened(self.node, handle)

    async def queue(self, queue: str = "q", *, lib: int = 6, **options: Any) -> Opened:
        return await self._open("Queue", queue, lib, options)

    async def worker(self, queue: str = "q", *, lib: int = 6, work: bool = True, **options: Any) -> Opened:
        """A worker that runs jobs by the behaviours of driver.js; without `work`, one that only hands them out."""
        return await self._open("Worker", queue, lib, options, work=work)

    async def events(self, queue: str = "q", *, lib: int = 6, **options: Any) -> Opened:
        """It sees the queue's events from the first one on."""
        return await self._open("QueueEvents", queue, lib, {"lastEventId": "0-0", **options})

    async def flows(self, *, lib: int = 6, **options: Any) -> Opened:
        return await self._open("FlowProducer", None, lib, options)

    async def board(self, *queues: Opened) -> int:
        """bull-board over these queues. Its port."""
        handle = f"board-{next(self._count)}"
        port: int = await self.node.ask("board", handle=handle, queues=[queue.handle for queue in queues])
        return port

    async def release(self, job_id: str) -> None:
        """Let a run of the behaviour `hold` go on."""
        await self.node.ask("release", job=job_id)
