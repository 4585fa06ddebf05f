"""A worker's queue part on a real store: an exchange that serves, plain functions as handlers, what it published."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from workfleet.app.threads import HandlerThreads
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.events import Event
from workfleet.ids import new_id
from workfleet.model.jobs import FINISHED, Claim, JobRecord
from workfleet.model.jobtypes import Job
from workfleet.model.outcome import RunPolicy
from workfleet.model.policy import OwnBackoff, fixed
from workfleet.payloads.codec import Codec, encode_result
from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.queues.exchange import Exchange
from workfleet.queues.handlers import Handler, HandlerTable, Returned
from workfleet.queues.runner import Runner

E = TypeVar("E", bound=Event)
POLICY = RunPolicy(attempts=2, backoff=fixed("10ms"))
UNKNOWN = RunPolicy(max_deferrals=1)
PATIENCE_S = 10.0


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until something is true; fail the test when it does not become so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_S
    while not condition():
        assert loop.time() < deadline, f"not within {PATIENCE_S} s: {what or inspect.getsource(condition).strip()}"
        await asyncio.sleep(0.001)


class Notes:
    """A board that keeps its notes in a dictionary. `room` is how many it holds."""

    def __init__(self, room: int = 1_000) -> None:
        self.room, self.notes = room, dict[int, Claim]()
        self.timeouts: dict[int, int | None] = {}
        self._next = 0

    def put(self, claim: Claim, *, timeout_ms: int | None = None, since_ms: int | None = None, label: str = "") -> int:
        if len(self.notes) >= self.room:
            return -1
        self._next += 1
        self.notes[self._next], self.timeouts[self._next] = claim, timeout_ms
        return self._next

    def ended(self, slot: int) -> None:
        if slot in self.timeouts:
            self.timeouts[slot] = None

    def clear(self, slot: int) -> None:
        self.notes.pop(slot, None)
        self.timeouts.pop(slot, None)


@dataclass
class Rig:
    """Use it as `async with rig:`; `rig.on(fn)` before that."""

    store: Store
    clock: Clock = field(default_factory=SystemClock)
    concurrency: dict[str, int] = field(default_factory=lambda: {"q": 10})
    lease_ms: int = 30_000
    poll_ms: int = 10_000
    worker: str = "w1"
    board: Notes = field(default_factory=Notes)
    events: list[Event] = field(default_factory=list)
    handlers: list[Handler] = field(default_factory=list)
    weights: dict[str, int] = field(default_factory=dict)
    total: int | None = None
    backoffs: dict[str, OwnBackoff] = field(default_factory=dict)
    calls: int = 1
    jobs: Any = None
    """The job store that the exchange sees; None: the real one."""

    def on(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        queue: str = "q",
        payload: Any = Any,
        policy: RunPolicy = POLICY,
        abandons: bool = False,
        finish: Callable[[JobRecord, object], Returned] | None = None,
    ) -> None:
        """Add a handler. A plain function runs in a thread."""
        threads = self._threads
        in_thread = not inspect.iscoroutinefunction(fn)

        async def invoke(job: Job[Any]) -> object:
            return await threads.run(fn, job) if in_thread else await fn(job)

        def plain(record: JobRecord, value: object) -> Returned:
            return Returned(encode_result(value, f"result of {record.name}"))

        wanted = name or fn.__name__
        codec = Codec(payload, f"payload of {wanted}")
        self.handlers.append(Handler(queue, wanted, codec, policy, invoke, finish or plain, in_thread, abandons))

    def __post_init__(self) -> None:
        self._threads = HandlerThreads()
        self.restarts: list[BaseException] = []

    async def __aenter__(self) -> Rig:
        jobs = self.jobs or self.store.jobs
        table = HandlerTable(
            self.handlers, self.concurrency, weights=self.weights, total=self.total, backoffs=self.backoffs
        )
        runner = Runner(
            table,
            jobs,
            clock=self.clock,
            publish=self.events.append,
            bind=lambda _record, _keep: None,
            draw=lambda: 0.5,
            unknown=UNKNOWN,
        )
        self.exchange = Exchange(
            jobs,
            runner,
            table,
            self.board,
            worker=self.worker,
            lease_ms=self.lease_ms,
            poll_ms=self.poll_ms,
            clock=self.clock,
            now_ms=self.store.now_ms,
            publish=self.events.append,
            calls=self.calls,
        )
        self.serving = asyncio.create_task(self.exchange.serve())
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.serving.cancel()
        await asyncio.gather(self.serving, return_exceptions=True)
        self._threads.shutdown()

    async def enqueue(self, name: str, payload: bytes = b"null", **facts: Any) -> str:
        """One job of that name; its id."""
        (job_id,) = await self.enqueue_many([name], payload, **facts)
        return job_id

    async def enqueue_many(self, names: Sequence[str], payload: bytes = b"null", **facts: Any) -> list[str]:
        base: dict[str, Any] = {"queue": "q", "payload": payload} | facts
        records = [JobRecord(**{"id": new_id(self.clock.now_ms()), "name": name} | base) for name in names]
        return [answer.id for answer in await self.store.jobs.enqueue(records)]

    async def record(self, job_id: str) -> JobRecord:
        (record,) = await self.store.jobs.get([job_id])
        assert record is not None
        return record

    async def finished(self, job_id: str) -> JobRecord:
        """The job once it has finished."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while (record := await self.record(job_id)).state not in FINISHED:
            assert not self.serving.done(), self.serving.exception()
            assert asyncio.get_running_loop().time() < deadline, f"{record.name} is {record.state} after {PATIENCE_S} s"
            await asyncio.sleep(0.001)
        return record

    def told(self, kind: type[E]) -> list[E]:
        """The events of a class, in order."""
        return [event for event in self.events if isinstance(event, kind)]


class FaultyJobs:
    """A job store whose calls fail as `plan` says: "before" reaches nothing, "after" loses the reply of what was done.

    `calls` is the order of the methods' names, failed ones included.
    """

    def __init__(self, jobs: Any, plan: Callable[[str, int], str | None]) -> None:
        self._jobs, self._plan = jobs, plan
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._jobs, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            fault = self._plan(name, self.calls.count(name))
            if fault == "before":
                raise StoreUnavailable("test", "it is down")
            answer = await method(*args, **kwargs)
            if fault == "after":
                raise StoreUnavailable("test", "the reply was lost")
            return answer

        return call
