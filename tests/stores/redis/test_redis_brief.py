"""What the Redis store does in bulk: jobs like most are added, claimed and settled as one at a time would be, and those
that are not to be kept are gone when they have finished."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from msgspec import structs

from tests.stores.redis.servers import Server
from workfleet.model.jobs import Attempt, Claim, JobRecord, JobState, Keep, KeepRule
from workfleet.model.outcome import Ended, Settlement
from workfleet.ports.jobs import TakeOver
from workfleet.stores.redis.store import RedisStore
from workfleet.testing.contracts.harness import (
    COMPLETED,
    FAILED,
    RAISED,
    ManualClock,
    claim,
    ended,
    finish,
    ids,
    job,
    jobs,
    request,
    stored,
)

NONE = Keep(KeepRule(count=0), KeepRule(count=0))
OF_QUEUES = {"active", "completed", "failed", "wait", "delayed", "id", "meta", "events", "marker"}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest_asyncio.fixture
async def store(server: Server, clock: ManualClock) -> AsyncIterator[RedisStore]:
    opened = await RedisStore.open(server.url, app="shop", clock=clock, test_now_ms=clock.now_ms)
    yield opened
    await opened.close()


@pytest_asyncio.fixture
async def other(server: Server, clock: ManualClock) -> AsyncIterator[RedisStore]:
    """Another process, which knows nothing of what the first one has claimed."""
    opened = await RedisStore.open(server.url, app="shop", clock=clock, test_now_ms=clock.now_ms)
    yield opened
    await opened.close()


def keys_of(server: Server, job_id: str) -> list[bytes]:
    """Every key with a job's id in its name."""
    found = server.ask("KEYS", f"*{job_id}*")
    assert isinstance(found, list)
    return sorted(found)


def texts(reply: object) -> list[str]:
    assert isinstance(reply, list)
    return [part.decode() for part in reply]


def events(server: Server) -> list[str]:
    """The event and the job of each entry of the stream."""
    found = server.ask("XRANGE", "shop:q:events", "-", "+")
    assert isinstance(found, list)
    told = []
    for _, flat in found:
        said = dict(zip(texts(flat)[::2], texts(flat)[1::2], strict=True))
        told.append(" ".join(filter(None, (said["event"], said.get("jobId")))))
    return told


@pytest.mark.parametrize("how", [COMPLETED, FAILED])
@pytest.mark.parametrize("said", [{}, {"group": "g"}, {"priority": 3}, {"unique_key": "k"}, {"housekeeping": True}])
async def test_what_is_not_kept_is_gone_when_it_has_finished(
    store: RedisStore, server: Server, how: Ended, said: dict[str, object]
) -> None:
    await store.jobs.enqueue([job("it", keep=NONE, **said), job("stays")])
    by_id = {each.id: each for each in await claim(store, 2)}
    await store.jobs.report(by_id["it"].claim, progress=b"1", lines=["x"])
    before = len(events(server))
    await finish(store, by_id.values(), how)
    assert await store.jobs.get(["it"]) == [None]
    assert keys_of(server, "it") == []
    assert [server.ask("ZCARD", f"shop:q:{state}") for state in ("completed", "failed")].count(1) == 1
    words = ["completed"] if how is COMPLETED else ["failed", "retries-exhausted"]
    told = [f"{word} {each}" for each in by_id for word in words]
    assert sorted(events(server)[before:]) == sorted([*told, "drained"])
    await store.jobs.prune([])
    (again,) = await store.jobs.enqueue([job("it", keep=NONE, **said)])
    assert again.created


async def test_one_note_for_many_tells_a_repeat_from_a_stale_claim(
    store: RedisStore, other: RedisStore, server: Server
) -> None:
    await store.jobs.enqueue(jobs("a b c d", keep=NONE))
    records = await claim(store, 4)
    done = [ended(record, RAISED if record.id == "d" else COMPLETED) for record in records]
    for opened in (store, store, other):
        assert (await opened.jobs.settle(done)).applied == [True] * 4
    assert ids(await _there(store, "a b c d")) == "d"
    token = records[0].token
    assert token is not None
    note = f"wf:shop:erased:{token}:q:v"
    assert sorted(texts(server.ask("SMEMBERS", note))) == ["a", "b", "c"]
    left = server.ask("PTTL", note)
    assert isinstance(left, int)
    assert 0 < left <= 300_000
    stale = [
        Settlement(Claim(each.id, "another", each.queue), one.outcome) for each, one in zip(records, done, strict=True)
    ]
    for opened in (store, other):
        assert (await opened.jobs.settle(stale)).applied == [False] * 4


async def test_a_call_that_adds_again_what_has_run_and_is_gone_adds_nothing(store: RedisStore) -> None:
    for said in ({}, {"priority": 1}):
        added = jobs("a b", keep=NONE, **said)
        first = await store.jobs.enqueue(added, call=f"c{said}")
        await finish(store, await claim(store, 2))
        assert await store.jobs.enqueue(added, call=f"c{said}") == first
        assert await claim(store, 2) == []
        assert ids(await _there(store, "a b")) == ""


async def test_the_first_run_is_told_in_short_and_read_in_full(store: RedisStore, clock: ManualClock) -> None:
    await store.jobs.enqueue(jobs("a"))
    (record,) = await claim(store)
    before = record.started_ms or 0
    await clock.advance(70)
    outcome = structs.replace(
        ended(record).outcome, attempt=Attempt(1, "completed", before, before + 50, record.worker or "")
    )
    assert (await store.jobs.settle([Settlement(record.claim, outcome)])).applied == [True]
    done = await stored(store, "a")
    assert (done.state, done.outcome, done.attempts_made) == (JobState.COMPLETED, "completed", 1)
    assert (done.result, done.finished_ms) == (b'"done"', before + 70)
    assert done.history == (outcome.attempt,)


async def test_what_a_run_has_more_to_say_is_kept(store: RedisStore) -> None:
    await store.jobs.enqueue(jobs("a b c d"))
    records = await claim(store, 4)
    outcomes = [ended(record).outcome for record in records]
    attempt = outcomes[0].attempt
    assert attempt is not None
    said = [
        structs.replace(outcomes[0], code="skipped"),
        structs.replace(outcomes[1], attempt=structs.replace(attempt, started_ms=5)),
        structs.replace(outcomes[2], attempt=structs.replace(attempt, worker="somebody")),
        structs.replace(outcomes[3], attempt=None),
    ]
    settlements = [Settlement(record.claim, outcome) for record, outcome in zip(records, said, strict=True)]
    assert (await store.jobs.settle(settlements)).applied == [True] * 4
    found = [await stored(store, record.id) for record in records]
    assert [each.outcome for each in found] == ["skipped", "completed", "completed", "completed"]
    assert [each.history for each in found] == [() if each.attempt is None else (each.attempt,) for each in said]


@pytest.mark.parametrize("older", ["", "x y"])
@pytest.mark.parametrize("order", ["abcdefgh", "hgfedcba", "adgbehcf", "acgbdefh"])
@pytest.mark.parametrize("at_once", [1, 3, 8])
async def test_they_leave_in_any_order_and_nobody_else_does(
    store: RedisStore, server: Server, order: str, at_once: int, older: str
) -> None:
    await store.jobs.enqueue([*jobs(older), *jobs(" ".join("abcdefgh")), *jobs("z")])
    by_id = {each.id: each for each in await claim(store, 11)}
    stay = texts(server.ask("LRANGE", "shop:q:active", 0, -1))
    for at in range(0, 8, at_once):
        some = order[at : at + at_once]
        await finish(store, [by_id[each] for each in some])
        stay = [each for each in stay if each not in some]
        assert texts(server.ask("LRANGE", "shop:q:active", 0, -1)) == stay
    assert stay == ["z", *older.split()[::-1]]


async def test_the_same_one_twice_in_a_call_is_one(store: RedisStore, server: Server) -> None:
    await store.jobs.enqueue([*jobs("a b"), *jobs("c d", keep=NONE)])
    records = await claim(store, 4)
    done = [ended(record) for record in records]
    assert (await store.jobs.settle([*done, *done])).applied == [True] * 8
    assert [event for event in events(server) if event.startswith("completed")] == [
        f"completed {each}" for each in "abcd"
    ]


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_one_that_another_has_taken_over_is_left_alone(
    store: RedisStore, other: RedisStore, clock: ManualClock, elsewhere: bool
) -> None:
    """Also where it was taken by another process, of which this one knows nothing."""
    await store.jobs.enqueue([*jobs("a b"), *jobs("c d", keep=NONE)])
    records = await claim(store, 4, lease_ms=100)
    await clock.advance(100)
    taker = other if elsewhere else store
    taken = await taker.jobs.take_over(TakeOver("reaper", "t2", 5_000, limit=3))
    lost = {each.id for each in taken}
    assert len(lost) == 3
    applied = (await store.jobs.settle([ended(record) for record in records])).applied
    assert applied == [record.id not in lost for record in records]
    assert ids(await _there(store, "a b c")) == "a b c"
    assert (await taker.jobs.settle([ended(record) for record in taken])).applied == [True] * 3


@pytest.mark.parametrize("how", [COMPLETED, RAISED, FAILED])
async def test_a_stale_claim_stays_stale_when_the_lease_of_the_next_one_is_over_too(
    store: RedisStore, other: RedisStore, server: Server, clock: ManualClock, how: Ended
) -> None:
    await store.jobs.enqueue([job("a")])
    (record,) = await claim(store, 1, lease_ms=100)
    await clock.advance(100)
    (taken,) = await other.jobs.take_over(TakeOver("reaper", "t2", 5_000))
    server.ask("DEL", "shop:q:a:lock")
    assert (await store.jobs.settle([ended(record, how)])).applied == [False]
    assert await store.jobs.renew([record.claim], 1_000) == [False]
    assert (await other.jobs.settle([ended(taken, how)])).applied == [True]


@pytest.mark.parametrize("said", [{}, {"lifo": True}, {"priority": 1}, {"delay_ms": 5}, {"group": "g"}])
async def test_many_are_added_as_one_at_a_time(store: RedisStore, server: Server, said: dict[str, object]) -> None:
    """Whatever one of a call says, the others are added as they would be by themselves."""
    given = [*jobs("a b", tags=("t",)), job("c", keep=NONE, trace="00-1"), job("d", **said)]
    await store.jobs.enqueue(given)
    await store.jobs.enqueue([structs.replace(each, id=f"{each.id}2") for each in given[:3]])
    together = [await stored(store, f"{each.id}2") for each in given[:3]]
    mixed = [await stored(store, each.id) for each in given[:3]]
    assert [structs.replace(each, id="") for each in together] == [structs.replace(each, id="") for each in mixed]
    fields = [texts(server.ask("HKEYS", f"shop:q:{each}")) for each in ("a", "a2")]
    assert sorted(fields[0]) == sorted(fields[1])
    assert [event for event in events(server) if event.endswith(("2", " a"))] == [
        "added a", "waiting a", "added a2", "waiting a2", "added b2", "waiting b2", "added c2", "waiting c2",
    ]  # fmt: skip
    assert server.ask("GET", "shop:q:id") == b"7"


@pytest.mark.parametrize("said", [{}, {"priority": 1}])
async def test_newcomers_are_last_also_where_the_clock_was_turned_back(
    store: RedisStore, clock: ManualClock, said: dict[str, int]
) -> None:
    await store.jobs.enqueue(jobs("a b", **said))
    await clock.advance(-1_000)
    await store.jobs.enqueue(jobs("c d", **said))
    assert ids(await claim(store, 9)) == "a b c d"


async def test_what_is_there_already_is_not_added(store: RedisStore) -> None:
    first = await store.jobs.enqueue(jobs("a b"), call="c1")
    assert await store.jobs.enqueue(jobs("a b"), call="c1") == first
    assert [each.created for each in await store.jobs.enqueue(jobs("a c c b"), call="c2")] == [
        False,
        True,
        False,
        False,
    ]
    assert [each.created for each in await store.jobs.enqueue(jobs("a c c b"), call="c2")] == [
        False,
        True,
        False,
        False,
    ]
    assert [each.created for each in await store.jobs.enqueue(jobs("a b"))] == [False, False]
    assert [each.created for each in await store.jobs.enqueue([job("a", queue="r")])] == [False]
    assert ids(await claim(store, 9)) == "a b c"


async def test_events_are_trimmed(store: RedisStore, server: Server) -> None:
    server.ask("HSET", "shop:q:meta", "opts.maxLenEvents", 100)
    for start in range(0, 600, 100):
        await store.jobs.enqueue(jobs(" ".join(f"j{start + n}" for n in range(100)), keep=NONE))
        (await store.jobs.settle([ended(each) for each in await claim(store, 100)]))
    length = server.ask("XLEN", "shop:q:events")
    assert isinstance(length, int)
    assert 100 <= length <= 300


async def test_a_claim_takes_what_is_like_most_up_to_what_is_not(store: RedisStore) -> None:
    await store.jobs.enqueue([*jobs("a b"), job("c", unique_key="k"), *jobs("d e")])
    assert ids(await store.jobs.claim(request(4, token="t"))) == "a b c d"
    assert ids(await store.jobs.claim(request(4, token="t"))) == "a b c d"
    assert ids(await claim(store, 9)) == "e"


async def _there(store: RedisStore, names: str) -> Sequence[JobRecord]:
    return [each for each in await store.jobs.get(names.split()) if each is not None]
