"""What the contract leaves to chance: places in the middle of long lists, and what other programs do to our jobs."""

from __future__ import annotations

import json

import pytest

from tests.stores.redis.conftest import Place
from tests.stores.redis.servers import Server
from workfleet.model.jobs import UNDECODABLE, JobState, UniqueRule
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.jobs import PruneRule, TakeOver
from workfleet.ports.stores import Store
from workfleet.testing.contracts import Leaks, ManualClock, clock, store  # noqa: F401 - fixtures
from workfleet.testing.contracts.harness import COMPLETED, claim, ended, finish, ids, job, jobs, state, states, stored

AT_ONCE = Ended(kind="retry", after_ms=0)


@pytest.fixture
def place(server: Server) -> Place:
    """One server, which other programs use too."""
    return Place(server.url, [server])


@pytest.fixture
def leaks(place: Place) -> Leaks:
    async def look(_: Store) -> list[str]:
        return place.left_behind()

    return look


async def test_a_job_is_put_between_two_of_its_priority_that_leave_no_room(store: Store) -> None:  # noqa: F811
    await store.jobs.enqueue([job("a", priority=1), job("b", priority=1)])
    a, b = await claim(store, 2)
    await finish(store, [a], AT_ONCE)
    await store.jobs.enqueue([job("c", priority=1), job("d", priority=2)])
    await finish(store, [b], AT_ONCE)
    assert ids(await claim(store, 9)) == "a b c d"


async def test_delayed_jobs_of_one_instant_are_first_in_first_out_for_bullmq_too(store: Store, server: Server) -> None:  # noqa: F811
    """Its workers promote by the score, and those of one score by their ids."""
    await store.jobs.enqueue([job(name, delay_ms=60_000) for name in "cab"])
    assert server.ask("ZRANGE", "shop:q:delayed", 0, -1) == [b"c", b"a", b"b"]


async def test_the_counter_of_priorities_begins_anew_when_none_waits(store: Store, server: Server) -> None:  # noqa: F811
    """Else it would come round to where it began, after 2**32 jobs."""
    await store.jobs.enqueue([job("a", priority=1), job("b", priority=2)])
    await claim(store)
    assert server.ask("EXISTS", "shop:q:pc") == 1
    await claim(store)
    assert server.ask("EXISTS", "shop:q:pc") == 0


@pytest.mark.parametrize("at", [0, 1, 50, 150, 298, 299])
async def test_a_job_returns_to_its_place_in_a_long_queue(
    store: Store,  # noqa: F811
    clock: ManualClock,  # noqa: F811
    at: int,
) -> None:
    names = [f"j{number:03}" for number in range(300)]
    for name in names:
        await store.jobs.enqueue([job(name)])
        await clock.advance(1)
    claimed = {record.id: record for record in await claim(store, 300)}
    others = [record for name, record in claimed.items() if name != names[at]]
    await finish(store, others, GIVE_BACK)
    await finish(store, [claimed[names[at]]], GIVE_BACK)
    assert [record.id for record in await claim(store, 300)] == names


def _held_up(server: Server, name: str, key: str, due_ms: int) -> None:
    """A ready job is delayed as it was before it was due: nothing has come by since."""
    assert server.ask("LREM" if key == "wait" else "ZREM", f"shop:q:{key}", *([0] if key == "wait" else []), name) == 1
    server.ask("ZADD", "shop:q:delayed", due_ms * 4096, name)


@pytest.mark.parametrize(("priority", "key"), [(0, "wait"), (1, "prioritized")])
@pytest.mark.parametrize("at", [0, 1, 150, 298, 299])
async def test_one_that_is_due_is_counted_at_its_place_in_a_long_queue(
    store: Store,  # noqa: F811
    clock: ManualClock,  # noqa: F811
    server: Server,
    priority: int,
    key: str,
    at: int,
) -> None:
    names = [f"j{number:03}" for number in range(300)]
    for name in names:
        await store.jobs.enqueue([job(name, priority=priority)])
        await clock.advance(1)
    _held_up(server, names[at], key, clock.now_ms() - 1)
    assert [place.ahead for name in names if (place := await store.jobs.place(name))] == list(range(300))
    assert await state(store, names[at]) == "delayed"
    assert [record.id for record in await claim(store, 300)] == names


async def test_of_very_many_that_are_due_those_are_looked_at_that_a_claim_makes_ready(
    store: Store,  # noqa: F811
    clock: ManualClock,  # noqa: F811
) -> None:
    await store.jobs.enqueue([job("x", priority=1), *(job(f"j{number}", delay_ms=5) for number in range(1_500))])
    await clock.advance(5)
    places = [await store.jobs.place(name) for name in ("j0", "j999", "j1000", "j1499", "x")]
    assert [place and place.ahead for place in places] == [0, 999, 1_000, 1_499, 1_000]


async def test_a_repeated_settle_does_not_add_again_what_was_deleted(store: Store) -> None:  # noqa: F811
    await store.jobs.enqueue(jobs("a"))
    (record,) = await claim(store)
    settlement = ended(record, Ended(kind="returned", result=b"1", follow_up=(job("next"),)))
    assert (await store.jobs.settle([settlement])).applied == [True]
    assert await store.jobs.delete(["next"]) == [True]
    assert (await store.jobs.settle([settlement])).applied == [True]
    assert await store.jobs.get(["next"]) == [None]


@pytest.mark.parametrize("job_id", ["wait", "id", "a:b", "x:lock", "repeat", "%41", "é:", "wf", "a b", "7"])
async def test_an_id_is_never_another_key(store: Store, job_id: str) -> None:  # noqa: F811
    added = await store.jobs.enqueue([job(job_id), job("wait2")])
    assert [answer.id for answer in added] == [job_id, "wait2"]
    records = await claim(store, 2)
    assert ids(records) == f"{job_id} wait2"
    await finish(store, records, COMPLETED)
    assert await state(store, job_id) == "completed"
    assert await store.jobs.delete([job_id]) == [True]


async def test_a_key_is_free_when_another_program_deletes_its_holder(store: Store, server: Server) -> None:  # noqa: F811
    await store.jobs.enqueue([job("a", unique_key="k")])
    server.ask("DEL", "shop:q:a")
    server.ask("LREM", "shop:q:wait", 0, "a")
    (added,) = await store.jobs.enqueue([job("b", unique_key="k")])
    assert added.created
    assert ids(await claim(store, 9)) == "b"


async def test_a_job_with_the_id_of_a_holder_that_is_gone_does_not_fail_for_its_key(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
) -> None:
    await store.jobs.enqueue([job("a", unique_key="k")])
    # As BullMQ's `remove` does it.
    assert server.ask("DEL", "shop:q:a", "shop:q:de:k") == 2
    server.ask("LREM", "shop:q:wait", 0, "a")
    await store.jobs.enqueue([job("a", expires_after_ms=100)])
    await clock.advance(100)
    (added,) = await store.jobs.enqueue([job("b", unique_key="k")])
    assert added.created
    assert await states(store, "a b") == "waiting waiting"


async def test_who_was_parked_behind_a_job_that_another_program_ended_goes_on(
    store: Store,  # noqa: F811
    server: Server,
) -> None:
    rule = UniqueRule("started", exclusive=True)
    await store.jobs.enqueue([job("a", unique_key="k", unique=rule)])
    (record,) = await claim(store)
    await store.jobs.enqueue([job("b", unique_key="k", unique=rule)])
    assert await states(store, "a b") == "active parked"
    # As a BullMQ worker completes it.
    server.ask("LREM", "shop:q:active", 0, "a")
    server.ask("DEL", "shop:q:a:lock")
    server.ask("ZADD", "shop:q:completed", 5, "a")
    server.ask("HSET", "shop:q:a", "finishedOn", 5, "returnvalue", "1")
    assert (await store.jobs.settle([ended(record)])).applied == [False]
    assert (await stored(store, "a")).outcome == "completed"
    await store.jobs.prune([])
    assert ids(await claim(store, 9)) == "b"


async def test_what_a_bullmq_worker_lost_is_taken_over(store: Store, server: Server) -> None:  # noqa: F811
    await store.jobs.enqueue(jobs("a b"))
    for name in "ab":
        server.ask("LREM", "shop:q:wait", 0, name)
        server.ask("LPUSH", "shop:q:active", name)
    server.ask("SET", "shop:q:b:lock", "node:1")
    taken = await store.jobs.take_over(TakeOver("w9", "t9", 1_000))
    assert ids(taken) == "a"
    await finish(store, taken, COMPLETED)
    assert (await stored(store, "a")).state is JobState.COMPLETED
    server.ask("DEL", "shop:q:b:lock")
    await finish(store, await store.jobs.take_over(TakeOver("w9", "t10", 1_000)), COMPLETED)


@pytest.mark.parametrize("wf", ["{bad", "[]", '{"v":1,"n":1,"spec":"{\\"tags\\":5}"}', '{"v":1,"n":"x"}', None])
async def test_what_cannot_be_read_fails_stands_in_nobodys_way_and_is_kept(
    store: Store,  # noqa: F811
    server: Server,
    wf: str | None,
) -> None:
    await store.jobs.enqueue(jobs("a"))
    if wf is None:
        server.ask("HDEL", "shop:q:a", "data")
    else:
        server.ask("HSET", "shop:q:a", "wf", wf)
    await store.jobs.enqueue(jobs("b"))
    assert ids(await claim(store, 9)) == "b"
    record = await stored(store, "a")
    assert (record.state, record.outcome) == (JobState.FAILED, UNDECODABLE)
    assert record.failure is not None
    assert "this version cannot read the stored job" in record.failure.message
    assert await store.jobs.prune([PruneRule(JobState.FAILED, count=0)]) == 0
    assert await store.jobs.delete(["a"]) == [True]


async def test_fields_of_a_newer_version_stay(store: Store, server: Server) -> None:  # noqa: F811
    await store.jobs.enqueue(jobs("a"))
    server.ask("HSET", "shop:q:a", "wf", '{"v":2,"n":1,"later":"x"}')
    for how in (GIVE_BACK, COMPLETED):
        await finish(store, await claim(store), how)
    said = server.ask("HGET", "shop:q:a", "wf")
    assert isinstance(said, bytes)
    wf = json.loads(said)
    assert (wf["v"], wf["later"], wf["code"]) == (2, "x", "completed")
