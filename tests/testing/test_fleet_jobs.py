"""`Fleet` runs jobs as a worker does: injection, guards, retries, results, and what was enqueued."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from tests.testing.shop import WELCOME, Cleanup, Emails, FakeSmtp, Receipt, Sessions, Smtp, Welcome, make_app
from workfleet import (
    App,
    Client,
    Job,
    JobFailed,
    JobState,
    JobType,
    NotFound,
    PayloadRejected,
    QueueingDisabled,
    UsageError,
)
from workfleet.testing import Fleet


async def test_a_job_from_enqueue_to_result() -> None:
    smtp = FakeSmtp()
    async with Fleet(make_app(), replace={Smtp: smtp}) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(7)))
        assert ref.created
        await asyncio.sleep(0.01)
        assert smtp.sent == []  # nothing runs between the test's calls
        await fleet.run_until_idle()
        assert await ref.result() == Receipt("m7")
        assert smtp.sent == [7]
        assert [attempt.outcome for attempt in await fleet.attempts(ref)] == ["completed"]
        assert await fleet.jobs.logs(ref.id) == ["by localhost:25"]
        await fleet.enqueue(WELCOME(Welcome(8)))
        await asyncio.sleep(0.01)
        assert smtp.sent == [7]


async def test_what_lives_for_one_job_is_opened_and_closed_for_each() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        await fleet.enqueue_many(WELCOME(Welcome(n)) for n in range(3))
        await fleet.run_until_idle()
        made = (await fleet.get(Sessions)).made
        assert len(made) == 3
        assert [session.open for session in made] == [False] * 3
        assert await fleet.get(Emails) is await fleet.get(Emails)


async def test_retries_wait_their_whole_backoff_and_the_clock_jumps_over_it() -> None:
    smtp = FakeSmtp(failing=2)
    async with Fleet(make_app(), replace={Smtp: smtp}, now="2027-01-01T12:00Z") as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(7)))
        await fleet.run_until_idle()
        attempts = await fleet.attempts(ref)
        assert [attempt.outcome for attempt in attempts] == ["failed", "failed", "completed"]
        waits = [later.started_ms - earlier.ended_ms for earlier, later in pairwise(attempts)]
        assert waits == [1_000, 2_000]
        assert fleet.failed == []


async def test_a_job_that_fails_for_good_says_how() -> None:
    smtp = FakeSmtp(failing=9)
    async with Fleet(make_app(), replace={Smtp: smtp}) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(7)))
        gone = await fleet.enqueue(Emails.goodbye.job(Welcome(8)))
        await fleet.run_until_idle()
        assert [(end.id, end.outcome, end.error) for end in fleet.failed] == [
            (gone.id, "failed", "ConnectionError: the mail server is down"),
            (ref.id, "failed", "ConnectionError: the mail server is down"),
        ]
        with pytest.raises(JobFailed, match="the mail server is down"):
            await ref.result()
        assert (await ref.record()).attempts_made == 3


async def test_enqueued_is_what_was_enqueued_by_whom_ever_once() -> None:
    smtp = FakeSmtp()
    async with Fleet(make_app(), replace={Smtp: smtp}) as fleet:
        await fleet.enqueue(Emails.invite.job([1, 2], id="invitation"))
        again = await fleet.enqueue(Emails.invite.job([3], id="invitation"))
        assert not again.created
        client = await fleet.get(Client)
        await client.enqueue(WELCOME(Welcome(9), delay="1h", unique="{data.user_id}"))
        other = await fleet.enqueue(WELCOME(Welcome(9), unique="{data.user_id}"))
        assert not other.created
        await fleet.run_until_idle()
        assert fleet.enqueued == [
            Emails.invite.job([1, 2], id="invitation"),
            WELCOME(Welcome(9), delay="1h", unique="{data.user_id}"),
            WELCOME(Welcome(1)),
            WELCOME(Welcome(2)),
        ]
        assert sorted(smtp.sent) == [1, 2]
    assert len(fleet.enqueued) == 4  # still there to look at


async def test_the_result_of_a_job_that_is_not_done_is_an_error_that_says_what_to_do() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(7)))
        with pytest.raises(UsageError, match=r"first `await fleet\.run_until_idle\(\)`"):
            await ref.result()
        with pytest.raises(UsageError, match=r"run_until_idle"):
            await ref.result(timeout="1h")
        waiting = asyncio.create_task(ref.result())  # another task may wait for it
        await asyncio.sleep(0)
        await fleet.travel("1s")
        assert await waiting == Receipt("m7")
        assert await ref.result() == Receipt("m7")
        assert await fleet.ref(ref.id).result() == {"message_id": "m7"}


async def test_a_handler_may_wait_for_the_result_of_another_job() -> None:
    app = App("shop")

    @app.handler(queue="letters")
    async def letter(job: Job[int]) -> int:
        return job.data * 2

    @app.handler(queue="parcels")
    async def parcel(job: Job[int], client: Client) -> int:
        refs = await client.enqueue_many(letter.job(n) for n in range(job.data))
        return sum([await ref.result() for ref in refs])

    async with Fleet(app) as fleet:
        ref = await fleet.enqueue(parcel.job(4))
        await fleet.run_until_idle()
        assert await ref.result() == 12


async def test_every_job_of_a_queue_with_one_slot_runs() -> None:
    """One queue is full while the other is empty: the free slot is claimed for in the step that frees it."""
    app, ran = App("shop", queues=["other"]), list[int]()

    @app.handler(queue="emails")
    async def send(job: Job[int]) -> None:
        ran.append(job.data)

    async with Fleet(app, settings={"concurrency": 1}) as fleet:
        await fleet.enqueue_many(send.job(n) for n in range(25))
        await fleet.run_until_idle()
        assert ran == list(range(25))


async def test_synchronous_handlers_run_in_their_thread() -> None:
    app, threads = App("shop"), list[str]()

    @app.handler(queue="emails")
    def send(job: Job[int]) -> int:
        import threading
        import time

        time.sleep(0.03)
        threads.append(threading.current_thread().name)
        return job.data

    async with Fleet(app) as fleet:
        refs = await fleet.enqueue_many(send.job(n) for n in range(3))
        await fleet.run_until_idle()
        assert [await ref.result() for ref in refs] == [0, 1, 2]
    assert [name.startswith("workfleet-handler") for name in threads] == [True] * 3


async def test_patience_is_for_one_run_not_for_all_of_them() -> None:
    app = App("shop")

    @app.handler(queue="emails")
    async def send(job: Job[int]) -> None:
        await asyncio.sleep(0.03)

    async with Fleet(app, settings={"concurrency": 1}, patience="150ms") as fleet:
        refs = await fleet.enqueue_many(send.job(n) for n in range(8))
        await fleet.run_until_idle()
        assert [(await ref.record()).outcome for ref in refs] == ["completed"] * 8


async def test_a_job_that_nobody_handles_fails_in_the_end_and_names_the_handlers() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        ref = await fleet.enqueue(JobType("farewell", Welcome, queue="emails")(Welcome(1)))
        await fleet.run_until_idle()
        with pytest.raises(JobFailed, match=r"'farewell' on queue 'emails'. Known handlers: goodbye, invite, welcome"):
            await ref.result()
        assert [attempt.outcome for attempt in await fleet.attempts(ref)] == ["unknown_job"] * 11


async def test_a_queue_that_nobody_listens_to_keeps_its_jobs() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        ref = await fleet.enqueue(WELCOME(Welcome(1), queue="elsewhere"))
        late = await fleet.enqueue(WELCOME(Welcome(1), queue="elsewhere", delay="1h"))
        await fleet.run_until_idle()
        await fleet.travel("2h")
        assert (await ref.record()).state is JobState.WAITING
        assert (await late.record()).history == ()


async def test_errors_of_enqueue_are_the_clients_own() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}) as fleet:
        with pytest.raises(PayloadRejected):
            await fleet.enqueue(WELCOME(Receipt("no welcome")))  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            await fleet.ref("nobody").record()
        assert fleet.enqueued == []
    with pytest.raises(UsageError, match="not open"):
        await fleet.enqueue(WELCOME(Welcome(1)))
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, settings={"queue_enabled": False}) as fleet:
        with pytest.raises(QueueingDisabled):
            await fleet.enqueue(WELCOME(Welcome(1)))
        assert fleet.enqueued == []


async def test_guards_act_around_handlers() -> None:
    async with Fleet(make_app(), replace={Smtp: FakeSmtp()}, now="2027-03-27T12:00Z") as fleet:
        async with fleet.locks.lock("cleanup", ttl="2h"):
            await fleet.travel("1d")
        cleanup = await fleet.get(Cleanup)
        assert cleanup.slots == []
        assert [run.outcome for run in await fleet.runs("Cleanup.nightly")] == ["skipped"]
        await fleet.travel("1d")
        assert cleanup.slots == ["2027-03-29T00:30:00+00:00"]
