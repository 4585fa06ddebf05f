"""What code and operators say of queues: put together, checked, handed to the worker, and kept in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.app.working import composed
from workfleet import App, Client, ConfigError, Group, Job, JobType, Module, PayloadRejected, Queue, handler, queue
from workfleet.clock import SystemClock
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.queues.handlers import HandlerTable
from workfleet.stores.memory.store import MemoryStore
from workfleet.testing import Fleet

pytestmark = pytest.mark.usefixtures("project")

FULL = QueueLimits(
    concurrency=100,
    rate=Rate(100, 60_000),
    group=GroupLimits(1, 1, Rate(10, 1_000)),
    groups={"gold": GroupLimits(5)},
)


@queue(
    "emails",
    concurrency=20,
    weight=3,
    fleet_concurrency=100,
    rate_limit="100/1m",
    group=Group(concurrency=1, rate_limit="10/1s", weight=1),
    groups={"gold": Group(weight=5)},
    max_payload="16MB",
)
class Emails:
    @handler()
    async def send(self, job: Job[str]) -> str:
        return job.data

    @handler(JobType("fixed", str, str, queue="emails"))
    async def fixed(self, job: Job[str]) -> str:
        return job.data

    @handler(JobType("sized", str, str, queue="emails", max_payload="2MB"))
    async def sized(self, job: Job[str]) -> str:
        return job.data

    @handler(queue="elsewhere")
    async def other(self, job: Job[str]) -> None: ...


def shop(**more: Any) -> App:
    return App("shop", jobs=[Emails], **more)


async def table_of(app: App, settings: dict[str, Any] | None = None) -> tuple[HandlerTable, dict[str, QueueLimits]]:
    """A worker's table, and the limits that are in the store once it has started."""
    async with Fleet(app, settings=settings) as fleet:
        stored = await fleet._stored.queues.all()
        return fleet._running.table, {name: each.limits for name, each in stored.items()}


async def test_a_worker_knows_what_is_said_of_its_queues_and_keeps_it_in_the_store() -> None:
    table, stored = await table_of(shop(queues=["listened", Queue("billing", fleet_concurrency=2, weight=2)]))
    assert table.concurrency == {
        "emails": 20, "elsewhere": 10, "listened": 10, "billing": 10, "worker-default": 10, "shop-schedules": 10,
    }  # fmt: skip
    assert table.weights == {
        "emails": 3, "elsewhere": 1, "listened": 1, "billing": 2, "worker-default": 1, "shop-schedules": 1,
    }  # fmt: skip
    assert table.total is None
    assert table.limits["emails"] == stored["emails"] == FULL
    assert table.limits["billing"] == stored["billing"] == QueueLimits(concurrency=2)
    assert table.limits["elsewhere"] == QueueLimits()
    assert table.limits.keys() == table.concurrency.keys()


async def test_an_operator_overrides_what_code_says() -> None:
    said = {
        "concurrency": 4,
        "weight": 9,
        "fleet_concurrency": 10,
        "rate_limit": None,
        "group_concurrency": None,
        "group_rate_limit": "7/1h",
    }
    settings = {
        "max_jobs": 12,
        "queue_limits": {
            "e-mails": {"fleet_concurrency": 1},
            "emails": said,
            "shop-schedules": {"weight": 2, "concurrency": 1},
        },
    }
    table, stored = await table_of(shop(queues=["e-mails", "e_mails"]), settings)
    assert (table.concurrency["emails"], table.weights["emails"], table.total) == (4, 9, 12)
    # Names that are the same in the environment are two queues all the same.
    assert (table.limits["e-mails"], table.limits["e_mails"]) == (QueueLimits(concurrency=1), QueueLimits())
    assert (table.concurrency["shop-schedules"], table.weights["shop-schedules"]) == (1, 2)
    assert (
        table.limits["emails"]
        == stored["emails"]
        == QueueLimits(concurrency=10, group=GroupLimits(1, None, Rate(7, 3_600_000)), groups={"gold": GroupLimits(5)})
    )


async def test_limits_that_code_no_longer_has_vanish_at_the_next_start() -> None:
    store = MemoryStore("shop", SystemClock())
    await store.queues.set_limits({"emails": FULL, "foreign": FULL})

    class Kept(Fleet):
        async def _open_store(self, *_args: Any, **_named: Any) -> MemoryStore:
            self._stored = store
            return store

    @queue("emails")
    class Bare:
        @handler()
        async def send(self, job: Job[str]) -> None: ...

    async with Kept(App("shop", jobs=[Bare])):
        kept = await store.queues.all()
    assert (kept["emails"].limits, kept["foreign"].limits) == (QueueLimits(), FULL)


@queue("emails", concurrency=21, rate_limit="60/1m")
class Contradicts:
    @handler("again")
    async def send(self, job: Job[str]) -> None: ...


def test_contradictions_are_told_all_at_once_with_both_places() -> None:
    with pytest.raises(ConfigError) as refused:
        composed(App("x", jobs=[Emails, Contradicts], queues=[Queue("emails", weight=4)]))
    here = __name__
    assert [str(problem) for problem in refused.value.problems] == [
        f"queue 'emails': {here}.Emails says concurrency=20, {here}.Contradicts says 21: say it once",
        f"queue 'emails': {here}.Emails says rate_limit=Rate(limit=100, per_ms=60000), "
        f"{here}.Contradicts says Rate(limit=60, per_ms=60000): say it once",
        f"queue 'emails': {here}.Emails says weight=3, module 'x' says 4: say it once",
    ]


def test_the_same_said_twice_is_no_contradiction_and_different_things_add_up() -> None:
    mail = Module("mail", jobs=[Emails], queues=[Queue("emails", rate_limit=Rate(100, 60_000))])
    more = Module("more", queues=[Queue("elsewhere", weight=2), Queue("elsewhere", fleet_concurrency=3)])
    queues = composed(App("x", modules=[mail, more])).registry.queues.by_name
    assert queues["emails"].limits == FULL
    assert queues["elsewhere"] == Queue("elsewhere", weight=2, fleet_concurrency=3)


def test_an_override_of_a_queue_that_is_not_there_stops_the_start(project: Path) -> None:
    (project / "workfleet.yaml").write_text("queue_limits: {emial: {weight: 2}, shop-schedules: {weight: 2}}\n")
    with pytest.raises(ConfigError) as refused:
        composed(shop())
    (problem,) = refused.value.problems
    assert "there is no queue 'emial'; known: elsewhere, emails, shop-schedules" in str(problem)


# Sizes


def test_a_queue_s_limit_is_carried_by_the_jobs_of_its_handlers() -> None:
    assert Emails.send.job.payload_limit == 16_000_000
    assert Emails.fixed.job.payload_limit == 16_000_000
    assert Emails.sized.job.payload_limit == 2_000_000
    assert Emails.other.job.payload_limit is None


async def test_payloads_and_results_up_to_the_queue_s_limit() -> None:
    large = "x" * 3_000_000
    async with Fleet(shop(queues=[Queue("elsewhere", max_payload="4MB")])) as fleet:
        ref = await fleet.enqueue(Emails.send.job(large))
        await fleet.enqueue(Emails.other.job(large))
        await fleet.run_until_idle()
        assert await ref.result() == large
        with pytest.raises(PayloadRejected, match="the limit is 2,000,000"):
            await fleet.enqueue(Emails.sized.job(large))
        with pytest.raises(PayloadRejected, match="the limit is 4,000,000"):
            await fleet.enqueue(Emails.other.job("x" * 5_000_000))
        with pytest.raises(PayloadRejected, match="the limit is 1,048,576"):
            await fleet.enqueue(JobType("plain", str)(large))


async def test_a_result_and_a_progress_beyond_the_limit() -> None:
    app = App("shop", queues=[Queue("small", max_payload="1kB")])

    @app.handler(queue="small", attempts=1)
    async def returns(job: Job[int]) -> str:
        return "x" * job.data

    @app.handler(queue="small", attempts=1)
    async def reports(job: Job[int]) -> None:
        await job.progress("x" * job.data)

    async with Fleet(app) as fleet:
        for size in (998, 999):
            await fleet.enqueue(returns.job(size))
            await fleet.enqueue(reports.job(size))
        await fleet.run_until_idle()
        assert [settled.error for settled in fleet.failed] == [
            f"{what}: $: 1,001 bytes of JSON, the limit is 1,000: keep it elsewhere and pass where, or raise "
            'max_payload of its queue, up to "64MiB"'
            for what in ("result of returns", f"progress of job {fleet.failed[1].id}")
        ]


async def test_a_client_without_the_code_has_the_limits_of_its_settings(
    monkeypatch: pytest.MonkeyPatch, project: Path
) -> None:
    monkeypatch.setenv("WORKER_MAX_PAYLOAD", "2MB")
    monkeypatch.setenv("WORKER_QUEUE_LIMITS__BIG_ONES__MAX_PAYLOAD", "3MB")
    async with Client(f"sqlite:///{project}/shop.db", app="shop") as client:
        for name, limit in (("big-ones", 3_000_000), ("else", 2_000_000)):
            kind = JobType("n", str, queue=name)
            await client.enqueue(kind("x" * (limit - 2)))
            with pytest.raises(PayloadRejected, match=f"the limit is {limit:,}"):
                await client.enqueue(kind("x" * (limit - 1)))
