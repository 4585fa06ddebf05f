"""The programs are not only accepted by type checkers: they run."""

from __future__ import annotations

from datetime import UTC, datetime

import api
import one
import options
from fleet import (
    SETTINGS,
    FakeSmtp,
    test_a_child_that_dies_costs_one_attempt,
    test_a_job_from_enqueue_to_result,
    test_a_night_across_the_clock_change,
    test_the_method_is_just_a_method,
)
from runtime import Reports
from shop.app import app
from shop.contracts import INVOICE, WELCOME, Welcome
from shop.mail import Emails, Smtp

from workfleet import App
from workfleet.testing import Fleet

__all__ = [
    "test_a_child_that_dies_costs_one_attempt",
    "test_a_job_from_enqueue_to_result",
    "test_a_night_across_the_clock_change",
    "test_the_method_is_just_a_method",
]


async def test_one_file_is_a_whole_application() -> None:
    async with Fleet(one.app, now="2027-01-01T01:50Z") as fleet:
        await fleet.travel("16m")
        assert [run.slot for run in await fleet.runs("nightly")] == [datetime(2027, 1, 1, 2, tzinfo=UTC)]
        assert [run.outcome for run in await fleet.runs("remind")] == ["completed"]
        assert fleet.enqueued == [one.welcome.job(one.Welcome(n)) for n in (1, 2, 3)]
        done = await fleet.jobs.list(queue="emails")
        assert sorted(job.result or b"" for job in done) == [b'"sent to 1"', b'"sent to 2"', b'"sent to 3"']


async def test_every_option_works_together() -> None:
    async with Fleet(options.app) as fleet:
        refs = await options.enqueue(fleet)
        await fleet.schedules.trigger("nightly")
        await fleet.run_until_idle()
        assert [await ref.result() for ref in refs] == [ref.id for ref in refs]
        assert [(await ref.record()).progress for ref in refs] == [
            b'{"trace":null,"group":"acme"}', b'{"trace":null,"group":"gold"}', b'{"trace":null,"group":""}'
        ]  # fmt: skip
        (run,) = await fleet.runs("nightly")
        assert run.outcome == "completed"


async def test_an_api_enqueues() -> None:
    smtp = FakeSmtp()
    async with Fleet(app, replace={Smtp: smtp}, settings=SETTINGS) as fleet:
        answer = await api.create(2, fleet)
        assert fleet.enqueued == [
            WELCOME(Welcome(2), delay="5m"),
            Emails.goodbye.job(Welcome(0)),
            Emails.goodbye.job(Welcome(1)),
            INVOICE({"number": 7, "lines": [1, 2]}),
        ]
        await fleet.travel("5m")
        assert sorted(smtp.sent) == [0, 1, 2]
        assert (await fleet.jobs.get(answer["job"])).outcome == "completed"


async def test_schedules_and_locks_at_run_time() -> None:
    async with Fleet(App("reports", jobs=[Reports]), now="2027-01-01T00:00Z") as fleet:
        reports = await fleet.get(Reports)
        await reports.subscribe(7, "0 6 * * *", "Europe/Berlin")
        await fleet.travel("1d")
        (run,) = await fleet.runs("report of 7")
        assert (run.slot, run.outcome) == (datetime(2027, 1, 1, 5, tzinfo=UTC), "completed")
        assert await reports.unsubscribe(7)
        assert not await reports.unsubscribe(7)

        assert await reports.close_month(7) == "closed"
        async with fleet.locks.lock("ledger 7") as lock:
            assert await reports.close_month(7) == "busy: test"
        ((tenant, fence),) = reports.written
        assert (tenant, fence < lock.fence) == (7, True)
