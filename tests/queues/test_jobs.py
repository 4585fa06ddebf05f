"""`Jobs` and `Queues`: what user code does with stored jobs, on every store, with a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from workfleet.errors import NotFound, UsageError
from workfleet.model.fleet import WorkerRecord
from workfleet.model.jobs import Claim, Failure, JobRecord, JobState, UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.stores import ClaimRequest, JobQuery, Store, Want
from workfleet.queues import actions
from workfleet.queues.actions import Acted
from workfleet.queues.filters import query_of
from workfleet.queues.jobs import Jobs
from workfleet.queues.queues import Queues
from workfleet.stores.open import open_store
from workfleet.supervision.identity import own_identity
from workfleet.testing.clock import TestClock

NOW = 1_800_000_000_000
HOUR = 3_600_000


@pytest.fixture
def clock() -> TestClock:
    return TestClock(NOW)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, clock: TestClock, tmp_path: Path) -> AsyncIterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    opened = await open_store(url, app="test", clock=clock, create=True)
    yield opened
    await opened.close()


@pytest.fixture
def jobs(store: Store, clock: TestClock) -> Jobs:
    return Jobs(lambda: given(store), clock)


@pytest.fixture
def queues(store: Store) -> Queues:
    return Queues(lambda: given(store))


async def given(store: Store) -> Store:
    return store


async def add(store: Store, *ids: str, **facts: Any) -> None:
    await store.jobs.enqueue([JobRecord(**{"id": each, "queue": "q", "name": "n", **facts}) for each in ids])


async def claim(store: Store, queue: str = "q", limit: int = 1) -> list[JobRecord]:
    claimed = await store.jobs.claim(ClaimRequest("w", f"t{NOW}-{limit}", 30_000, (Want(queue, limit),)))
    assert len(claimed) == limit
    return claimed


async def finish(store: Store, claims: Sequence[Claim], state: JobState, message: str = "no") -> None:
    failure = Failure("raised", message, "ValueError") if state is JobState.FAILED else None
    outcome = Outcome(state=state, code=state.value, attempts_made=1, failure=failure)
    settled = await store.jobs.settle([Settlement(claim, outcome) for claim in claims])
    assert all(settled.applied)


async def failed(store: Store, *ids: str, message: str = "no", **facts: Any) -> None:
    await add(store, *ids, **{"queue": "failing", **facts})
    claimed = await claim(store, facts.get("queue", "failing"), len(ids))
    await finish(store, [job.claim for job in claimed], JobState.FAILED, message)


def ids(found: Sequence[JobRecord]) -> list[str]:
    return [job.id for job in found]


async def states(store: Store) -> dict[str, str]:
    return {job.id: job.state.value for job in await store.jobs.find(JobQuery(limit=1_000_000))}


# ---- listing


async def test_every_filter_and_the_newest_first(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "old", tags=("red", "blue"), payload=b'{"mail":"Ada@example.com"}')
    clock.move_to(NOW + HOUR)
    await add(store, "grouped", group="g1")
    await add(store, "other", queue="r", name="m")
    await add(store, "later", delay_ms=HOUR)
    await add(store, "heart", queue="beats", housekeeping=True)
    clock.move_to(NOW + HOUR + 60_000)
    await failed(store, "broken", message="Connection timeout")
    at = datetime.fromtimestamp((NOW + HOUR) / 1000, UTC)
    for filters, expected in (
        ({}, ["broken", "other", "later", "grouped", "old"]),
        ({"housekeeping": True}, ["broken", "other", "later", "heart", "grouped", "old"]),
        ({"queue": "beats"}, ["heart"]),
        ({"queue": "beats", "housekeeping": False}, []),
        ({"queue": "r"}, ["other"]),
        ({"name": "m"}, ["other"]),
        ({"states": [JobState.DELAYED, JobState.FAILED]}, ["broken", "later"]),
        ({"states": ["failed"]}, ["broken"]),
        ({"tag": "blue"}, ["old"]),
        ({"group": "g1"}, ["grouped"]),
        ({"older_than": "30m"}, ["old"]),
        ({"older_than": timedelta(minutes=1)}, ["old"]),
        ({"older_than": "59s"}, ["other", "later", "grouped", "old"]),
        ({"newer_than": "1m", "queue": "q"}, ["later", "grouped"]),
        ({"newer_than": at, "older_than": at + timedelta(seconds=1)}, ["other", "later", "grouped"]),
        ({"text": "ada@EXAMPLE"}, ["old"]),
        ({"text": "TIMEOUT"}, ["broken"]),
        ({"text": "valueerror"}, ["broken"]),
        ({"limit": 2}, ["broken", "other"]),
        ({"limit": 2, "offset": 1}, ["other", "later"]),
    ):
        assert ids(await jobs.list(**filters)) == expected, filters


@pytest.mark.parametrize(
    ("filters", "told"),
    [
        ({"limit": 0}, "limit=0, offset=0: at most 1,000,000"),
        ({"limit": 10**20}, "use iterate"),
        ({"offset": -1}, "offset=-1"),
        ({"states": ["broken"]}, "states: 'broken' is not a valid JobState; there are waiting, "),
        ({"older_than": "90"}, "older_than: '90' has no unit"),
        ({"newer_than": datetime(2026, 1, 1)}, "newer_than: 2026-01-01T00:00:00 has no time zone"),  # noqa: DTZ001 - that is the mistake
        ({"queue": "\udcff"}, "queue='\\udcff': it is no Unicode text"),
        ({"text": 3}, "text=3: it is text"),
        ({"sate": "failed"}, "unknown filter 'sate'; there are group, "),
    ],
    ids=str,
)
async def test_filters_that_make_no_sense(filters: dict[str, Any], told: str, jobs: Jobs) -> None:
    with pytest.raises(UsageError) as error:
        await jobs.list(**filters)
    assert told in str(error.value)


def test_ages_beyond_the_beginning_are_everything() -> None:
    assert query_of({"newer_than": "3000d"}, 1_000).created_from_ms == 0
    assert query_of({"newer_than": datetime(1901, 1, 1, tzinfo=UTC)}, 1_000).created_from_ms == 0


async def test_iterating_gives_each_job_once_in_pages_whatever_happens(
    store: Store, jobs: Jobs, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PAGE", 10)
    await add(store, *(f"a{number:02}" for number in range(25)))  # all of one instant
    clock.move_to(NOW + 1)
    await add(store, *(f"b{number:02}" for number in range(10)))
    met: list[str] = []
    async for job in jobs.iterate(queue="q"):
        met.append(job.id)
        if len(met) == 3:  # what is behind changes, what is met is deleted, new ones come
            clock.move_to(NOW + 2)
            await add(store, "new")
            await jobs.delete("b09", "b08", "a24")
    expected = [f"b{number:02}" for number in range(9, -1, -1)] + [f"a{number:02}" for number in range(23, -1, -1)]
    assert met == expected


async def test_a_job_that_is_not_there(jobs: Jobs) -> None:
    for job_id, shown in (("nobody", "'nobody'"), ("\udcff", "'\\udcff'"), ("x" * 1_000, f"'{'x' * 60}…'")):
        for ask in (jobs.get, jobs.logs, jobs.waits_for):
            with pytest.raises(NotFound) as error:
                await ask(job_id)
            assert str(error.value) == f"there is no job {shown}: check the id, or its retention is over"


# ---- actions by id


async def test_each_answer_says_what_happened(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1", "f2")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    await add(store, "waits")
    await add(store, "later", delay_ms=HOUR)
    assert await jobs.retry("f1", "f2", "f1") == [Acted("f1", "retried"), Acted("f2", "retried")]
    assert await jobs.promote("later") == [Acted("later", "promoted")]
    await finish(store, [job.claim for job in await claim(store, "failing", 2)], JobState.COMPLETED)
    cancelled = await jobs.cancel("waits", "runs", "f1")
    assert cancelled == [Acted("waits", "cancelled"), Acted("runs", "asked"), Acted("f1", "finished")]
    assert [one.done for one in cancelled] == [True, True, False]
    assert await jobs.cancel("waits") == [Acted("waits", "finished")]
    assert await jobs.delete("waits", "f2") == [Acted("waits", "deleted"), Acted("f2", "deleted")]
    assert await states(store) == {"f1": "completed", "runs": "active", "later": "waiting"}
    assert (await jobs.get("runs")).cancel_asked


async def test_nothing_is_done_when_one_id_is_wrong(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1")
    await add(store, "waits")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    before = await states(store)
    for act, given_ids, error, told in (
        (jobs.retry, ("f1", "nope", "gone"), NotFound, "there is no job nope, gone: check the id"),
        (jobs.retry, ("f1", "waits"), UsageError, "job waits is waiting: only a failed job can be retried. Nothing"),
        (jobs.delete, ("f1", "runs"), UsageError, "job runs is active: a job that runs cannot be deleted: cancel it"),
        (jobs.promote, ("waits", "f1"), UsageError, "job waits is waiting, job f1 is failed: only a delayed job that"),
        (jobs.cancel, ("waits", "nope"), NotFound, "there is no job nope: "),
    ):
        with pytest.raises(error) as raised:
            await act(*given_ids)
        assert str(raised.value).startswith(told)
        assert await states(store) == before
    with pytest.raises(NotFound) as many:
        await jobs.retry(*(f"m{number}" for number in range(50)))
    assert "m19 and 30 more: check the id" in str(many.value)


async def test_a_retry_that_a_unique_key_forbids_says_so(store: Store, jobs: Jobs) -> None:
    await failed(store, "first", unique_key="k")
    await add(store, "second", unique_key="k")
    await failed(store, "free")
    with pytest.raises(UsageError) as error:
        await jobs.retry("first")
    assert str(error.value) == (
        "cannot retry job first: another job holds its unique key by now, or it has not failed any more"
    )
    refused, retried = await jobs.retry("first", "free")
    assert (refused.result, refused.done, retried.result) == ("refused", False, "retried")


async def test_a_parked_job_cannot_be_promoted(store: Store, jobs: Jobs) -> None:
    await park(store)
    with pytest.raises(UsageError, match="job second is parked behind the job that runs under its unique key"):
        await jobs.promote("second")
    assert await jobs.promote_all() == 0


async def park(store: Store) -> None:
    """`first` runs under the key, `second` waits for its end."""
    rule = UniqueRule(until="started", exclusive=True)
    await add(store, "first", unique_key="k", unique=rule)
    await claim(store)
    await add(store, "second", unique_key="k", unique=rule)


# ---- actions on all that match


async def test_all_that_match_in_pages_each_once(store: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "PAGE", 10)
    await failed(store, *(f"f{number:02}" for number in range(25)), tags=("red",))
    await failed(store, "other", queue="else")
    await add(store, "waits", tags=("red",))
    found = [job.id async for job in jobs.changed_by("retry", tag="red")]
    assert (len(found), set(found) & {"waits", "other"}) == (25, set())
    asked: list[str] = []
    retry = store.jobs.retry

    async def noting(wanted: Sequence[str]) -> list[bool]:
        asked.extend(wanted)
        done = await retry(wanted)
        # A worker takes some at once, and they fail again: they are not met twice.
        claimed = await claim(store, "failing", len(wanted))
        await finish(store, [job.claim for job in claimed], JobState.FAILED)
        return done

    monkeypatch.setattr(store.jobs, "retry", noting)
    assert await jobs.retry_all(tag="red") == 25
    assert (len(asked), set(asked)) == (25, set(found))
    assert {(await jobs.get(one)).state for one in found} == {JobState.FAILED}


async def test_an_action_takes_only_the_states_that_it_is_about(store: Store, jobs: Jobs) -> None:
    await failed(store, "f1")
    await add(store, "runs", queue="busy")
    await claim(store, "busy")
    await add(store, "waits")
    await add(store, "later", delay_ms=HOUR)
    await add(store, "heart", queue="beats", housekeeping=True)
    assert await jobs.promote_all(queue="q") == 1
    assert await states(store) == {
        "f1": "failed", "runs": "active", "waits": "waiting", "later": "waiting", "heart": "waiting",
    }  # fmt: skip
    assert await jobs.cancel_all() == 3
    assert (await states(store))["runs"] == "active"
    assert await jobs.delete_all(states=[JobState.FAILED, JobState.ACTIVE], older_than="0s") == 0  # all of this instant
    assert await jobs.delete_all(states=[JobState.FAILED, JobState.ACTIVE]) == 3
    assert await states(store) == {"runs": "active", "heart": "waiting"}
    for act, told in (
        (jobs.retry_all, "cannot retry waiting, delayed jobs: only a failed job can be retried"),
        (jobs.promote_all, None),
    ):
        if told is None:
            assert await act(states=[JobState.WAITING, JobState.DELAYED]) == 0
            continue
        with pytest.raises(UsageError) as error:
            await act(states=[JobState.WAITING, JobState.DELAYED])
        assert str(error.value) == told
    with pytest.raises(UsageError, match="is none of retry, cancel, delete, promote"):
        await jobs.check("burn", "runs")  # type: ignore[arg-type]


# ---- logs


async def test_following_logs_ends_with_the_job(store: Store, jobs: Jobs, clock: TestClock) -> None:
    await add(store, "a")
    heard: list[str] = []

    async def follow() -> None:
        async for line in jobs.follow_logs("a"):
            heard.append(line)  # noqa: PERF401 - what was heard so far is looked at meanwhile

    following = asyncio.create_task(follow())
    await sleeping(clock)
    (job,) = await claim(store)
    for number in range(3):
        assert await store.jobs.report(job.claim, lines=[f"line {number}", "  more"], call=f"c{number}")
        await wake(clock)
        assert heard[-2:] == [f"line {number}", "  more"]
    assert await store.jobs.report(job.claim, lines=["last words"], call="c9")
    await finish(store, [job.claim], JobState.COMPLETED)
    clock.move_to(clock.now_ms() + 2_000)
    await asyncio.wait_for(following, 10)
    assert heard == [line for number in range(3) for line in (f"line {number}", "  more")] + ["last words"]
    assert heard == await jobs.logs("a")
    assert [line async for line in jobs.follow_logs("a")] == heard


async def test_following_the_logs_of_a_job_that_is_deleted_or_not_there(
    store: Store, jobs: Jobs, clock: TestClock
) -> None:
    with pytest.raises(NotFound):
        await anext(jobs.follow_logs("nobody"))
    await add(store, "a")

    async def follow() -> list[str]:
        return [line async for line in jobs.follow_logs("a")]

    following = asyncio.create_task(follow())
    await sleeping(clock)
    await jobs.delete("a")
    clock.move_to(clock.now_ms() + 2_000)
    assert await asyncio.wait_for(following, 10) == []


async def sleeping(clock: TestClock) -> None:
    """Wait until somebody sleeps on the clock."""
    async with asyncio.timeout(10):
        while not clock.sleepers:
            await asyncio.sleep(0.001)


async def wake(clock: TestClock) -> None:
    """Let the sleeper look, and sleep again."""
    clock.move_to(clock.now_ms() + 2_000)
    await sleeping(clock)


# ---- why a job waits


async def listen(store: Store, *names: str) -> None:
    await store.fleet.register(WorkerRecord(id="w", identity=own_identity(), queues=names))


async def test_what_a_job_waits_for(store: Store, jobs: Jobs) -> None:
    await add(store, "a", group="g1")
    assert await jobs.waits_for("a") == ["a worker that listens to queue 'q': none does"]
    await store.queues.set_paused("q", paused=True)
    assert (await jobs.waits_for("a"))[0] == "queue 'q' to be resumed: it is paused"
    await store.queues.set_paused("q", paused=False)
    await listen(store, "p", "q")
    assert await jobs.waits_for("a") == ["a free slot of a worker on queue 'q', where no other job is ready"]
    await add(store, "b", group="g2")
    assert await jobs.waits_for("a") == ["a free slot of a worker on queue 'q', where 2 jobs are ready"]
    await store.queues.set_limits({"q": QueueLimits(rate=Rate(5, 60_000))})
    assert await jobs.waits_for("a") == ["its turn: at most 5 in 1m start"]
    await add(store, "later", delay_ms=90_000)
    assert await jobs.waits_for("later") == ["its time, 2027-01-15T08:01:30Z (in 1m30s); `promote` makes it ready now"]


async def test_what_a_job_waits_for_under_limits(store: Store, jobs: Jobs) -> None:
    await listen(store, "q")
    await store.queues.set_limits({"q": QueueLimits(concurrency=2, group=GroupLimits(concurrency=1))})
    await add(store, "a", group="g1")
    (a,) = await claim(store)
    assert await jobs.waits_for("a") == []
    await add(store, "b", group="g1")
    assert await jobs.waits_for("b") == ["one of the 1 jobs that may run at once in group 'g1' to end"]
    await add(store, "c", group="g2")
    await store.jobs.claim(ClaimRequest("w", "other", 30_000, (Want("q", 5),)))
    assert (await jobs.waits_for("b"))[0] == "one of the 2 jobs that may run at once on queue 'q' to end"
    await finish(store, [a.claim], JobState.FAILED)
    assert await jobs.waits_for("a") == []


async def test_a_parked_job_waits_for_the_one_that_runs(store: Store, jobs: Jobs) -> None:
    await park(store)
    assert await jobs.waits_for("second") == ["the job that runs under its unique key 'k'"]


# ---- queues


async def test_queues_are_shown_paused_and_resumed(store: Store, queues: Queues) -> None:
    with pytest.raises(NotFound, match=r"there is no queue 'q'\. Known queues: none"):
        await queues.get("q")
    assert (await queues.pause("empty"), await queues.pause("empty")) == (True, False)
    assert (await queues.get("empty")).paused
    await add(store, "a", "b")
    await store.queues.set_limits({"q": QueueLimits(concurrency=3)})
    info = await queues.get("q")
    assert (info.name, info.counts.waiting, info.paused, info.limits.concurrency) == ("q", 2, False, 3)
    assert await queues.pause("q")
    assert await store.jobs.claim(ClaimRequest("w", "t", 30_000, (Want("q", 5),))) == []
    assert (await queues.resume("q"), await queues.resume("q")) == (True, False)
    assert ids(await store.jobs.claim(ClaimRequest("w", "t2", 30_000, (Want("q", 5),)))) == ["a", "b"]
    with pytest.raises(NotFound, match="Known queues: empty, q"):
        await queues.get("nope")
    for name in ("", "\udcff"):
        with pytest.raises(UsageError, match="is no queue's name"):
            await queues.pause(name)


async def test_purge_deletes_what_has_not_begun_unless_told_otherwise(
    store: Store, jobs: Jobs, queues: Queues, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workfleet.queues.queues._PAGE", 10)
    await failed(store, "f1", queue="q")
    await add(store, "runs")
    await claim(store)
    await add(store, *(f"w{number}" for number in range(25)))
    await add(store, "first", priority=1)
    await add(store, "later", delay_ms=HOUR)
    await add(store, "other", queue="r")
    assert await queues.purge("q") == 27
    assert await states(store) == {"f1": "failed", "runs": "active", "other": "waiting"}
    assert await queues.purge("q", states=[JobState.FAILED]) == 1
    with pytest.raises(UsageError, match="active jobs cannot be purged"):
        await queues.purge("q", states=[JobState.ACTIVE])
    with pytest.raises(UsageError, match="'broken' is not a valid JobState"):
        await queues.purge("q", states=["broken"])  # type: ignore[list-item]
    assert await states(store) == {"runs": "active", "other": "waiting"}
