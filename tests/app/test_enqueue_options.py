"""What options of a job do, in a whole application: keys and their conflicts, groups, expiry, retention, the trace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import Struct
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider

from workfleet import (
    App,
    Client,
    Group,
    Job,
    NewJob,
    Queue,
    Retention,
    StoreUnavailable,
    Unique,
    UsageError,
    scheduled_job,
)
from workfleet.model.jobs import Enqueued, JobRecord
from workfleet.model.options import JobOptions
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")


class Item(Struct):
    key: str
    text: str = ""
    tenant: str = ""


def recorder(seen: list[str], **options: Any) -> tuple[App, Any]:
    app = App("shop", **options)

    @app.handler(queue="q")
    async def work(job: Job[Item]) -> str:
        seen.append(job.data.text or job.data.tenant)
        job.log(f"{job.group} {job.trace}")
        return job.data.text

    return app, work


async def test_replaced_and_debounced_holders_run_with_the_last_payload() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    debounce, replace = Unique("data.key", on_conflict="debounce"), Unique("data.key", on_conflict="replace")
    async with Fleet(app) as fleet:
        first = await fleet.enqueue(work.job(Item("a", "one"), delay="10s", unique=debounce))
        assert (first.created, first.replaced) == (True, False)
        await fleet.travel("6s")
        second = await fleet.enqueue(work.job(Item("a", "two"), delay="10s", unique=debounce))
        assert (second.id, second.created, second.replaced) == (first.id, False, True)
        await fleet.travel("6s")
        assert seen == []
        kept = await fleet.enqueue(work.job(Item("a", "three"), unique="data.key"))
        assert (kept.id, kept.created, kept.replaced) == (first.id, False, False)
        third = await fleet.enqueue(work.job(Item("a", "four"), unique=replace))
        assert (third.id, third.replaced) == (first.id, True)
        await fleet.travel("4s")
        assert seen == ["four"]


async def test_a_window_holds_the_key_whatever_becomes_of_the_job() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    async with Fleet(app) as fleet:
        made = []
        for _ in range(3):
            made.append((await fleet.enqueue(work.job(Item("a", "x"), unique=Unique("data.key", window="1h")))).created)
            await fleet.travel("35m")
        assert (made, seen) == ([True, False, True], ["x", "x"])


async def test_one_runs_and_one_waits() -> None:
    app = App("shop")
    running: list[str] = []
    most = 0

    @app.handler(queue="q")
    async def work(job: Job[Item], client: Client) -> list[NewJob[Any]] | None:
        nonlocal most
        running.append(job.id)
        most = max(most, len(running))
        if job.data.text == "first":
            refs = [await client.enqueue(again(text)) for text in ("second", "third")]
            assert [ref.created for ref in refs] == [True, False]
            assert (await refs[0].record()).parked
        running.remove(job.id)
        return None

    def again(text: str) -> NewJob[Any]:
        return work.job(Item("a", text), unique=Unique("data.key", until="started", exclusive=True))

    async with Fleet(app) as fleet:
        await fleet.enqueue(again("first"))
        await fleet.run_until_idle()
        done = await fleet.jobs.list(queue="q")
        assert [job.outcome for job in done] == ["completed", "completed"]
        assert most == 1


async def test_groups_take_turns() -> None:
    seen: list[str] = []
    app, work = recorder(seen, queues=[Queue("q", concurrency=1, groups={"c": Group(weight=2)})])
    async with Fleet(app) as fleet:
        for tenant in "aaabbbccc":
            await fleet.enqueue(work.job(Item("k", tenant=tenant), group="{data.tenant}"))
        await fleet.run_until_idle()
        assert seen == list("abccabcab")


async def test_a_job_that_expired_is_not_run() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    async with Fleet(app) as fleet:
        await fleet.queues.pause("q")
        late = await fleet.enqueue(work.job(Item("k", "late"), expires="20s"))
        instant = await fleet.enqueue(
            work.job(Item("k", "instant"), expires=datetime(2027, 1, 1, 0, 0, 20, tzinfo=UTC))
        )
        timely = await fleet.enqueue(work.job(Item("k", "timely"), expires="21s"))
        await fleet.travel("20s")
        await fleet.queues.resume("q")
        await fleet.run_until_idle()
        assert [(await ref.record()).outcome for ref in (late, instant, timely)] == ["expired", "expired", "completed"]
        assert seen == ["timely"]


async def test_retention_of_its_own() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    async with Fleet(app) as fleet:
        gone = await fleet.enqueue(work.job(Item("k", "gone"), retention=Retention(completed="1m")))
        stays = await fleet.enqueue(work.job(Item("k", "stays")))
        await fleet.run_until_idle()
        await fleet.travel("2m")
        assert await fleet._stored.jobs.prune([]) == 1
        assert [record is None for record in await fleet._stored.jobs.get([gone.id, stays.id])] == [True, False]


async def test_the_trace_goes_with_the_job() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    provider = TracerProvider(shutdown_on_exit=False)
    async with Fleet(app) as fleet:
        with provider.get_tracer("t").start_as_current_span("request") as span:
            context = span.get_span_context()
            inside = await fleet.enqueue(work.job(Item("k"), group="g"))
        outside = await fleet.enqueue(work.job(Item("k")))
        await fleet.run_until_idle()
        expected = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
        assert (await inside.record()).trace == expected
        assert (await outside.record()).trace is None
        assert await fleet.jobs.logs(inside.id) == [f"g {expected}"]
        assert await fleet.jobs.logs(outside.id) == [" None"]
    assert not api.get_current_span().get_span_context().is_valid


async def test_what_a_run_time_schedule_s_job_says_holds_for_each_run() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    async with Fleet(app) as fleet:
        job = work.job(Item("k", tenant="t"), group="data.tenant", expires="5m", retention=Retention(failed="1h"))
        await fleet.schedules.add("s", job, every="1h", retry={ValueError: None})
        await fleet.travel("61m")
        (run,) = await fleet.jobs.list(queue="q")
        assert (run.group, run.expires_after_ms, run.keep.failed is not None, run.trace) == ("t", 300_000, True, None)
        assert run.run.rules == {"ValueError": None}
        for options, said in (
            ({"unique": "{data.key}"}, 'which overlap="skip" does already'),
            ({"expires": datetime(2030, 1, 1, tzinfo=UTC)}, "expires= at an instant, which no two runs can share"),
        ):
            with pytest.raises(UsageError, match=said):
                await fleet.schedules.add("t", work.job(Item("k"), **options), every="1h")
        await fleet.schedules.add("t", work.job(Item("k"), unique="{data.key}"), every="1h", overlap="allow")
        with pytest.raises(UsageError, match=r"is a function, which no job can carry: give own_backoff\(name\)"):
            await fleet.schedules.add("u", work.job(Item("k")), every="1h", backoff=lambda _attempt, _error: "1s")


async def test_a_lost_reply_is_asked_for_once_more_under_the_same_call() -> None:
    seen: list[str] = []
    app, work = recorder(seen)
    calls: list[str | None] = []
    async with Fleet(app) as fleet:
        there = fleet._stored.jobs
        told = there.enqueue
        lost = [True, False, True, True]

        async def losing(jobs: Sequence[JobRecord], *, call: str | None = None) -> list[Enqueued]:
            answer = await told(jobs, call=call)
            calls.append(call)
            if lost.pop(0):
                raise StoreUnavailable("memory://", "the reply was lost")
            return answer

        there.enqueue = losing  # type: ignore[method-assign]
        ref = await fleet.enqueue(work.job(Item("k", "once")))
        assert ref.created
        with pytest.raises(StoreUnavailable):
            await fleet.enqueue(work.job(Item("k", "twice lost")))
        there.enqueue = told  # type: ignore[method-assign]
        await fleet.run_until_idle()
        assert seen == ["once", "twice lost"]
    assert calls[0] == calls[1] != calls[2] == calls[3] is not None


async def test_an_old_queue_target_takes_every_option_of_a_job() -> None:
    seen: list[str] = []
    app, _ = recorder(seen)

    options: JobOptions = {"unique": "data.key", "group": "data.tenant", "expires": "1h", "delay": "1m"}

    @scheduled_job(name="make", queue_name="q", queue_job_name="work", queue_job_options=options)
    async def make() -> dict[str, str]:
        return {"key": "a", "tenant": "acme", "text": "made"}

    app.jobs.append(make)
    async with Fleet(app) as fleet:
        for _ in range(2):
            await fleet.schedules.trigger("make")
            await fleet.run_until_idle()
        (job,) = await fleet.jobs.list(queue="q")
        assert (job.unique_key, job.group, job.expires_after_ms) == ("q/work/a", "acme", 3_600_000)
    wrong: list[Any] = [{"group": "{tenant}"}, {"unique": "always"}, {"expires": "0s"}, {"retention": "1h"}]
    for each in wrong:
        with pytest.raises(ValueError, match=r"names no parameter|never be started|it is Retention"):
            scheduled_job(cron="* * * * *", queue_name="q", queue_job_options=each)
