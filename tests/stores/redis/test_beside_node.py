"""What Node's workers and queues do to jobs that we hold, keep or have in line, with the keys as BullMQ writes them.
`tests/node` has the real ones."""

from __future__ import annotations

import json

import pytest

from tests.stores.redis.bullmq_side import texts
from tests.stores.redis.conftest import Place
from tests.stores.redis.servers import Server
from workfleet.model.jobs import Enqueued, JobState, UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits
from workfleet.model.outcome import GIVE_BACK
from workfleet.ports.jobs import PruneRule, TakeOver
from workfleet.ports.stores import Store
from workfleet.testing.contracts import Leaks, ManualClock, clock, store  # noqa: F401 - fixtures
from workfleet.testing.contracts.harness import COMPLETED, FAILED, claim, ended, finish, ids, job, jobs, stored

LEASE_MS = 1_000
KEEP_NONE = [PruneRule(state, count=0) for state in (JobState.COMPLETED, JobState.FAILED)]


@pytest.fixture
def place(server: Server) -> Place:
    """One server, which other programs use too."""
    return Place(server.url, [server])


@pytest.fixture
def leaks(place: Place) -> Leaks:
    async def look(_: Store) -> list[str]:
        return place.left_behind()

    return look


def _begun_by_node(server: Server, job_id: str, now_ms: int) -> None:
    """A stalled check has taken back what we held, and a Node worker has begun it."""
    server.ask("SET", f"shop:q:{job_id}:lock", "node:1", "PX", 30_000)
    server.ask("HSET", f"shop:q:{job_id}", "processedOn", now_ms, "pb", "node1")
    server.ask("HINCRBY", f"shop:q:{job_id}", "ats", 1)


def _as_before(server: Server, job_id: str) -> None:
    """Our note on a claim as it was written before it said of which start it is."""
    note = server.ask("HGET", "shop:q:wf:queue:claims", job_id)
    assert isinstance(note, bytes)
    lines = note.decode().split("\n")
    assert len(lines) == 5
    server.ask("HSET", "shop:q:wf:queue:claims", job_id, "\n".join(lines[:4]))


def _added_by_node(server: Server, job_id: str, now_ms: int, opts: str = "{}") -> None:
    said = ("name", "work", "data", "{}", "opts", opts, "timestamp", now_ms, "delay", 0, "priority", 0)
    server.ask("HSET", f"shop:q:{job_id}", *said)
    server.ask("LPUSH", "shop:q:wait", job_id)


def _take_over(*workers: str) -> TakeOver:
    return TakeOver("w9", f"t9-{len(workers)}", LEASE_MS, workers=workers or None)


@pytest.mark.parametrize("old_form", [False, True])
@pytest.mark.parametrize("name", ["a", "in a group"])
async def test_a_job_that_node_has_begun_since_is_not_taken_from_it(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    name: str,
    *,
    old_form: bool,
) -> None:
    await store.jobs.enqueue([job("a", group="" if name == "a" else "g")])
    (record,) = await claim(store, lease_ms=LEASE_MS)
    if old_form:
        _as_before(server, "a")
    await clock.advance(LEASE_MS + 1)
    _begun_by_node(server, "a", clock.now_ms())
    assert await store.jobs.expires_in_ms() in range(29_000, 30_001)
    assert (await stored(store, "a")).token is None
    assert await store.jobs.take_over(_take_over("w1")) == []
    assert await store.jobs.take_over(_take_over()) == []
    assert server.ask("GET", "shop:q:a:lock") == b"node:1"
    assert server.ask("EXISTS", "shop:q:wf:queue:claims") == 0
    # Its worker dies too.
    server.ask("DEL", "shop:q:a:lock")
    assert await store.jobs.expires_in_ms() == 0
    assert (await store.jobs.settle([ended(record)])).applied == [False]
    taken = await store.jobs.take_over(_take_over())
    assert ids(taken) == "a"
    await finish(store, taken, COMPLETED)


@pytest.mark.parametrize("old_form", [False, True])
async def test_an_old_claim_is_stale_once_node_has_begun_the_job_and_lost_it(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    *,
    old_form: bool,
) -> None:
    await store.jobs.enqueue(jobs("a"))
    (record,) = await claim(store, lease_ms=LEASE_MS)
    if old_form:
        _as_before(server, "a")
    await clock.advance(LEASE_MS + 1)
    _begun_by_node(server, "a", clock.now_ms())
    server.ask("DEL", "shop:q:a:lock")
    assert await store.jobs.renew([record.claim], LEASE_MS) == [False]
    assert await store.jobs.report(record.claim, progress=b"1", lines=(), call="c") is False
    assert (await store.jobs.settle([ended(record)])).applied == [False]
    assert server.ask("EXISTS", "shop:q:a:lock") == 0
    assert await store.jobs.take_over(_take_over("w1")) == []
    assert await store.jobs.expires_in_ms() == 0
    taken = await store.jobs.take_over(_take_over())
    assert ids(taken) == "a"
    await finish(store, taken, COMPLETED)


@pytest.mark.parametrize("old_form", [False, True])
async def test_a_claim_holds_beyond_its_lease_while_nobody_has_begun_the_job(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    *,
    old_form: bool,
) -> None:
    await store.jobs.enqueue(jobs("a b"))
    a, b = await claim(store, 2, lease_ms=LEASE_MS)
    if old_form:
        _as_before(server, "a")
        _as_before(server, "b")
    await clock.advance(LEASE_MS + 1)
    server.ask("DEL", "shop:q:a:lock", "shop:q:b:lock")
    assert await store.jobs.renew([a.claim], LEASE_MS) == [True]
    assert await store.jobs.expires_in_ms() == -1
    assert ids(await store.jobs.take_over(_take_over())) == "b"
    # What was taken over is held in its turn, beyond that lease too.
    server.ask("DEL", "shop:q:b:lock")
    await clock.advance(LEASE_MS + 1)
    taken = await store.jobs.take_over(TakeOver("w8", "t8", LEASE_MS, workers=("w9",)))
    assert ids(taken) == "b"
    server.ask("DEL", "shop:q:a:lock", "shop:q:b:lock")
    await finish(store, [a, *taken], COMPLETED)
    assert (await store.jobs.settle([ended(b)])).applied == [False]


async def test_a_group_counts_what_it_runs(store: Store, server: Server) -> None:  # noqa: F811
    """Also by notes of the older form, and by those that were renewed."""
    await store.queues.set_limits({"q": QueueLimits(group=GroupLimits(concurrency=2))})
    await store.jobs.enqueue(jobs("a b c", group="g"))
    a, b = await claim(store, 9)
    _as_before(server, "a")
    assert await store.jobs.renew([a.claim, b.claim], LEASE_MS) == [True, True]
    assert await claim(store, 9) == []
    await finish(store, [a], COMPLETED)
    (c,) = await claim(store, 9)
    await finish(store, [b, c], COMPLETED)


def _promoted_by_node(server: Server, job_id: str, *, priority: int = 0) -> None:
    assert server.ask("ZREM", "shop:q:delayed", job_id) == 1
    if priority:
        score = priority * 2**32 + int(str(server.ask("INCR", "shop:q:pc")))
        server.ask("ZADD", "shop:q:prioritized", score, job_id)
    else:
        server.ask("LPUSH", "shop:q:wait", job_id)
    server.ask("HSET", f"shop:q:{job_id}", "delay", 0)


@pytest.mark.parametrize("priority", [0, 1])
async def test_newcomers_are_behind_what_node_has_promoted(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    priority: int,
) -> None:
    await store.jobs.enqueue([job("d", delay_ms=60_000, priority=priority), *jobs("b0 b1", priority=priority)])
    _promoted_by_node(server, "d", priority=priority)
    # One by one and together, like most and not so.
    await store.jobs.enqueue(jobs("e0", priority=priority))
    await clock.advance(1)
    await store.jobs.enqueue([*jobs("e1", priority=priority), job("e2", priority=priority, unique_key="k")])
    assert ids(await claim(store, 3)) == "b0 b1 d"
    assert ids(await claim(store, 9)) == "e0 e1 e2"


async def test_newcomers_are_behind_a_job_of_node_whose_clock_is_ahead(store: Store, server: Server) -> None:  # noqa: F811
    await store.jobs.enqueue(jobs("a"))
    _added_by_node(server, "x", await store.now_ms() + 5_000)
    await store.jobs.enqueue(jobs("b"))
    assert ids(await claim(store, 9)) == "a x b"


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("priority", [0, 1])
async def test_what_comes_back_is_put_to_its_place_around_what_node_has_promoted(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    priority: int,
    count: int,
) -> None:
    """However many they are, and wherever they stand: nobody who comes back later passes them."""
    early, late = job("early", priority=priority), job("late", delay_ms=3, priority=priority)
    promoted = [f"d{number:02}" for number in range(count)]
    await store.jobs.enqueue([early, *(job(name, delay_ms=60_000, priority=priority) for name in promoted)])
    (record,) = await claim(store)
    await clock.advance(1)
    await store.jobs.enqueue(jobs("b0 b1", priority=priority))
    for name in promoted:
        _promoted_by_node(server, name, priority=priority)
    await store.jobs.enqueue([late])
    await clock.advance(1)
    await store.jobs.enqueue(jobs("e0 e1", priority=priority))
    await clock.advance(9)
    await finish(store, [record], GIVE_BACK)
    expected = ["early", "b0", "b1", *promoted, "e0", "e1", "late"]
    assert [record.id for record in await claim(store, 99)] == expected


async def test_one_of_a_group_that_node_has_promoted_comes_back_to_the_line(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
) -> None:
    await store.jobs.enqueue([job("d", delay_ms=60_000, group="g"), *jobs("b", group="g")])
    _promoted_by_node(server, "d")
    await clock.advance(1)
    (record,) = await claim(store)
    assert record.id == "d"
    await finish(store, [record], GIVE_BACK)
    await store.jobs.enqueue(jobs("e", group="g"))
    records = await claim(store, 9)
    assert ids(records) == "b d e"
    await finish(store, records, GIVE_BACK)
    assert ids(await claim(store, 9)) == "b d e"


@pytest.mark.parametrize("rule", [False, -1, {"count": -1}, {"limit": 5}, {}])
async def test_what_node_wants_kept_for_ever_is_kept(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    rule: object,
) -> None:
    opts = json.dumps({"removeOnComplete": rule, "removeOnFail": rule})
    for name in ("a", "b", "c", "d"):
        _added_by_node(server, name, clock.now_ms(), opts if name in "ab" else "{}")
    a, b, c, d = await claim(store, 4)
    await finish(store, [a, c], COMPLETED)
    await finish(store, [b, d], FAILED)
    assert await store.jobs.prune(KEEP_NONE) == 2
    await clock.advance(365 * 86_400_000)
    assert await store.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=1), PruneRule(JobState.FAILED, age_ms=1)]) == 0
    assert [each and each.id for each in await store.jobs.get(["a", "b", "c", "d"])] == ["a", "b", None, None]
    assert await store.jobs.delete(["a", "b"]) == [True, True]


async def test_of_those_kept_for_ever_nothing_is_left_when_node_has_deleted_them(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
) -> None:
    _added_by_node(server, "a", clock.now_ms(), '{"removeOnComplete":false}')
    await finish(store, await claim(store), COMPLETED)
    # As BullMQ's `clean` does it.
    assert server.ask("DEL", "shop:q:a") == 1
    assert server.ask("ZREM", "shop:q:completed", "a") == 1
    await store.jobs.prune([])
    assert server.ask("KEYS", "shop:q:wf:kept:*") == []


def _ended_by_node(server: Server, job_id: str, now_ms: int, *, kept: bool) -> None:
    """A Node worker has run a job with a unique key."""
    (key,) = texts(server.ask("HMGET", f"shop:q:{job_id}", "deid"))
    assert server.ask("LREM", "shop:q:wait", 1, job_id) == 1
    server.ask("DEL", f"shop:q:de:{key}")
    if kept:
        server.ask("ZADD", "shop:q:completed", now_ms, job_id)
        server.ask("HSET", f"shop:q:{job_id}", "finishedOn", now_ms)
    else:
        server.ask("DEL", f"shop:q:{job_id}")


def _keys_of_keys(server: Server) -> list[str]:
    """What is there of unique keys, with or without an end."""
    return sorted([*texts(server.ask("KEYS", "wf:shop:hold:*")), *texts(server.ask("KEYS", "wf:shop:key:*"))])


@pytest.mark.parametrize("indexed", [True, False], ids=["", "written before there was an index"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "gone"])
async def test_nothing_is_left_of_a_key_whose_job_node_has_ended(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
    *,
    indexed: bool,
    kept: bool,
) -> None:
    window, count = UniqueRule(window_ms=60_000), 250
    await store.jobs.enqueue([job(f"u{i}", unique_key=f"order[{i}]", queue="q") for i in range(count)])
    await store.jobs.enqueue([job("w", unique_key="windowed", unique=window), job("stays", unique_key="mine")])
    if not indexed:
        server.ask("DEL", "wf:shop:unique")
    assert len(_keys_of_keys(server)) == 2 * (count + 2)
    for at in range(count):
        _ended_by_node(server, f"u{at}", clock.now_ms(), kept=kept)
    _ended_by_node(server, "w", clock.now_ms(), kept=kept)
    await store.jobs.prune([])
    assert _keys_of_keys(server) == ["wf:shop:hold:mine:v", "wf:shop:hold:windowed:v", "wf:shop:key:mine:v"]
    assert isinstance(ends := server.ask("PTTL", "wf:shop:hold:windowed:v"), int)
    assert ends > 0
    assert texts(server.ask("ZRANGE", "wf:shop:unique", 0, -1)) == ["mine"]
    assert await store.jobs.enqueue([job("late", unique_key="mine")]) == [Enqueued("stays", created=False)]
    await finish(store, await claim(store))
    assert server.ask("EXISTS", "wf:shop:unique") == 0


async def test_keys_of_many_that_wait_are_looked_at_in_turns(
    store: Store,  # noqa: F811
    server: Server,
    clock: ManualClock,  # noqa: F811
) -> None:
    await store.jobs.enqueue([job(f"u{i}", unique_key=f"k{i}") for i in range(2_500)])
    for job_id in ("u1", "u1200", "u2499"):
        _ended_by_node(server, job_id, clock.now_ms(), kept=False)
    left = []
    for _ in range(3):
        await store.jobs.prune([])
        left.append(len(_keys_of_keys(server)))
    assert left == [4_998, 4_996, 4_994]
    server.ask("FLUSHALL")
