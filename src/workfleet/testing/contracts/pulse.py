"""Contract of `Store.pulse`: the round trip of a probe, a sign of life, and what it makes known."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .exclusive import alone
from .harness import ManualClock, Opener, claim, ended, ids, job, jobs, pulse, request, stored
from .schedules import fire, schedule
from .whole import IDENTITY

_SOON_S = 10


async def told(store: Store, **said: Any) -> list[str]:
    """Which of the queues q and r, and the schedules, a pulse wakes who waits for them."""
    for wait in (store.jobs.wait(["q"], 0), store.jobs.wait(["r"], 0), store.schedules.wait(0)):
        await wait
    await pulse(store, queues=("q", "r"), **said)
    woken = {"q": store.jobs.wait(["q"], 0), "r": store.jobs.wait(["r"], 0), "schedules": store.schedules.wait(0)}
    return [name for name, wait in woken.items() if await wait]


@pytest.mark.asyncio
class TestPulse:
    async def test_a_probe_makes_the_round_trip(self, store: Store) -> None:
        await store.jobs.enqueue(jobs("a"))
        answer = await pulse(store, probe=job("probe", queue="probes", housekeeping=True))
        assert (answer.settled, answer.worker) == (1, None)
        probe = await stored(store, "probe")
        assert (probe.state, probe.outcome, probe.attempts_made) == (JobState.COMPLETED, "completed", 1)
        assert (probe.worker, probe.token, probe.finished_ms) == (None, None, await store.now_ms())
        assert ids(await store.jobs.find(JobQuery(states=(JobState.WAITING,)))) == "a"

    async def test_what_was_left_half_way_is_settled_too(self, store: Store) -> None:
        await store.jobs.enqueue([job(each, queue="probes", housekeeping=True) for each in ("old", "older")])
        assert (await pulse(store)).settled == 3
        assert (await pulse(store)).settled == 1
        assert await store.jobs.claim(request(probes=9)) == []

    async def test_a_paused_queue_hands_out_no_probe(self, store: Store) -> None:
        await store.queues.set_paused("probes", paused=True)
        assert (await pulse(store)).settled == 0

    async def test_it_brings_the_record(self, store: Store, clock: ManualClock) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY, queues=("a",)))
        await store.fleet.instruct("w", "quiet")
        await clock.advance(9)
        answer = await pulse(store, worker="w", active=3)
        (record,) = await store.fleet.workers()
        assert answer.worker == record
        assert (record.seen_ms, record.active, record.instruction) == (await store.now_ms(), 3, "quiet")
        assert (await pulse(store, worker="nobody")).worker is None
        assert len(await store.fleet.workers()) == 1

    async def test_each_change_of_the_schedules_raises_the_revision(self, store: Store) -> None:
        seen = [(await pulse(store)).schedules]
        for change in (
            lambda: store.schedules.merge([schedule("a"), schedule("b")]),
            lambda: store.schedules.merge([schedule("a"), schedule("b", fingerprint="f2")]),
            lambda: store.schedules.merge([schedule("a")]),
            lambda: store.schedules.put(schedule("c", from_code=False), replace=False),
            lambda: store.schedules.put(schedule("c", from_code=False, fingerprint="f2"), replace=True),
            lambda: store.schedules.set_paused("a", paused=True),
            lambda: store.schedules.set_paused("a", paused=False),
            lambda: store.schedules.remove("c"),
        ):
            await change()
            seen.append((await pulse(store)).schedules)
        assert seen[0] == 0
        assert seen == sorted(set(seen)), "each is greater than the one before"
        await store.schedules.fire([fire("a")])
        assert (await pulse(store)).schedules == seen[-1]

    async def test_another_apps_schedules_are_no_news(self, store: Store, opener: Opener, clock: ManualClock) -> None:
        other = await opener("other", clock)
        await other.schedules.merge([schedule("a")])
        assert (await pulse(store)).schedules == 0
        await other.close()

    async def test_the_first_one_and_a_changed_revision_wake_for_schedules(self, store: Store) -> None:
        assert await told(store) == ["schedules"]
        assert await told(store) == []
        await store.schedules.merge([schedule("a")])
        assert await told(store) == ["schedules"]
        assert await told(store) == []

    async def test_who_waits_already_is_woken(self, store: Store, clock: ManualClock) -> None:
        await pulse(store)
        await store.schedules.merge([schedule("a")])
        await store.schedules.wait(0)
        task = asyncio.create_task(store.schedules.wait(60_000))
        await pulse(store)
        assert await asyncio.wait_for(task, _SOON_S)

    async def test_queues_with_something_to_claim_are_woken_for(self, store: Store) -> None:
        await pulse(store)
        assert await told(store) == []
        await store.jobs.enqueue(jobs("a"))
        assert await told(store) == ["q"]
        (record,) = await claim(store)
        assert await told(store) == []
        await store.jobs.settle([ended(record)])
        kinds: list[dict[str, Any]] = [{"priority": 3}, {"group": "g"}, {"lifo": True}]
        for number, kind in enumerate(kinds):
            await store.jobs.enqueue([job(f"r{number}", queue="r", **kind)])
            assert await told(store) == ["r"]
            (record,) = await store.jobs.claim(request(r=1))
            await store.jobs.settle([ended(record)])
        assert await told(store) == []

    async def test_a_paused_queue_has_nothing(self, store: Store) -> None:
        await pulse(store)
        await store.jobs.enqueue([*jobs("a"), job("b", queue="r")])
        await store.queues.set_paused("q", paused=True)
        assert await told(store) == ["r"]

    async def test_delayed_jobs_count_when_they_are_due_soon(self, store: Store, clock: ManualClock) -> None:
        await pulse(store)
        await store.jobs.enqueue([job("a", delay_ms=5_000)])
        assert await told(store, within_ms=4_999) == []
        assert await told(store, within_ms=5_000) == ["q"]
        await clock.advance(5_000)
        assert await told(store) == ["q"]

    async def test_parked_jobs_do_not_count(self, store: Store) -> None:
        await pulse(store)
        await store.jobs.enqueue([alone("a")])
        (first,) = await claim(store)
        await store.jobs.enqueue([alone("b")])
        assert await told(store, within_ms=900_000) == []
        await store.jobs.settle([ended(first)])
        assert await told(store) == ["q"]

    async def test_a_repeat_does_nothing_twice(self, store: Store) -> None:
        await store.fleet.register(WorkerRecord(id="w", identity=IDENTITY))
        said = {"probe": job("probe", queue="probes"), "claim": request(probes=9), "worker": "w", "active": 1}
        first, again = await pulse(store, **said), await pulse(store, **said)
        assert (first.settled, again.settled, again.worker, again.schedules) == (1, 0, first.worker, first.schedules)
        assert (await store.jobs.counts())["probes"].completed == 1
