"""`testing.job` makes the job that a handler gets when a test calls it directly."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.testing.shop import Emails, FakeSmtp, MailSettings, Receipt, Session, Welcome
from workfleet import App, Job, UsageError
from workfleet.testing import Fleet, job, said


async def test_a_handler_is_called_as_the_method_that_it_is() -> None:
    smtp = FakeSmtp()
    emails = Emails(smtp, MailSettings())
    made = job(Welcome(7), attempt=2)
    assert await emails.welcome(made, Session()) == Receipt("m7")
    assert said(made).lines == ["by localhost:25"]
    assert smtp.sent == [7]


async def test_everything_that_a_job_has_can_be_given() -> None:
    slot = datetime(2027, 1, 1, tzinfo=UTC)
    plain, full = job(None), job([1], id="7", name="n", queue="q", max_attempts=5, schedule="s", slot=slot, tags=["a"],
                                 metadata={"k": "v"}, deadline=slot, cancelled=True)  # fmt: skip
    assert (plain.data, plain.id, plain.attempt, plain.max_attempts, plain.slot) == (None, "test", 1, 3, None)
    assert (full.data, full.id, full.name, full.queue, full.max_attempts) == ([1], "7", "n", "q", 5)
    assert (full.schedule, full.slot, full.deadline, full.tags, full.metadata) == ("s", slot, slot, ("a",), {"k": "v"})
    assert (plain.cancelled, full.cancelled) == (False, True)
    await plain.progress({"done": 1})
    await plain.progress(2)
    assert said(plain).progress_values == [{"done": 1}, 2]


async def test_a_job_of_a_fleet_is_not_such_a_job() -> None:
    app, got = App("shop"), list[Job[int]]()

    @app.handler(queue="emails")
    async def keep(job: Job[int]) -> None:
        got.append(job)

    async with Fleet(app) as fleet:
        await fleet.enqueue(keep.job(1))
        await fleet.run_until_idle()
    with pytest.raises(UsageError, match=r"was not made by workfleet\.testing\.job"):
        said(got[0])
