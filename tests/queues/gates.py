"""Handlers that wait at a gate, a store that notes what it is asked for, and a reaper that takes claims over."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from tests.queues.rig import PATIENCE_S, POLICY, FaultyJobs, Rig
from workfleet.ids import new_token
from workfleet.model.jobs import Claim
from workfleet.model.outcome import GIVE_BACK, Ended, Settlement, decide
from workfleet.ports.jobs import ClaimRequest, TakeOver
from workfleet.ports.stores import Store


class Gate:
    """A handler that waits until it is opened, and counts who is inside."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.inside: Counter[str] = Counter()
        self.most: Counter[str] = Counter()

    async def __call__(self, job: Any) -> str:
        self.inside[job.queue] += 1
        self.most[job.queue] = max(self.most[job.queue], self.inside[job.queue])
        await self.open.wait()
        self.inside[job.queue] -= 1
        return "through"


def gated(rig: Rig, *queues: str) -> Gate:
    gate = Gate()

    async def wait(job: Any) -> str:
        return await gate(job)

    for queue in queues or ("q",):
        rig.on(wait, queue=queue)
    return gate


async def lease_over(store: Store) -> None:
    """Until the first lease has expired."""
    async with asyncio.timeout(PATIENCE_S):
        while (left_ms := await store.jobs.expires_in_ms()) is None or left_ms > 0:
            await asyncio.sleep((left_ms or 1) / 1000)


async def take_over(store: Store) -> list[Claim]:
    """What somebody does whose keeper saw the leases expire."""
    records = await store.jobs.take_over(TakeOver("reaper", new_token(), 30_000))
    return [record.claim for record in records]


async def give_back(store: Store, claims: list[Claim]) -> None:
    for claim in claims:
        (record,) = await store.jobs.get([claim.job_id])
        assert record is not None
        settled = await store.jobs.settle([Settlement(claim, decide(GIVE_BACK, record, POLICY, now_ms=0, draw=0))])
        assert settled.applied == [True]


async def complete(store: Store, claims: list[Claim]) -> None:
    """What another worker does that has run these jobs."""
    for claim in claims:
        (record,) = await store.jobs.get([claim.job_id])
        assert record is not None
        done = decide(Ended(kind="returned", result=b'"elsewhere"'), record, POLICY, now_ms=0, draw=0)
        assert (await store.jobs.settle([Settlement(claim, done)])).applied == [True]


class Asking(FaultyJobs):
    """Notes what was claimed for. `slow_s` is how long each claim takes to be answered."""

    def __init__(self, jobs: Any, slow_s: float = 0.0) -> None:
        super().__init__(jobs, lambda *_: None)
        self.wants: list[dict[str, int]] = []
        self.answer = asyncio.Event()
        self.answer.set()
        self.looked, self.claimed = asyncio.Event(), asyncio.Event()
        """The store has been asked once, and has given something."""

    async def claim(self, request: ClaimRequest) -> Any:
        self.calls.append("claim")
        self.wants.append({want.queue: want.limit for want in request.wants})
        records = await self._jobs.claim(request)
        self.looked.set()
        if records:
            self.claimed.set()
        await self.answer.wait()
        return records
