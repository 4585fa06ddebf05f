"""`Client` and `SyncClient`: enqueue from anywhere, without an app, also across forks."""

import asyncio
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.app.working import Worker, until, write
from workfleet import (
    App,
    Client,
    ConfigError,
    Job,
    JobFailed,
    JobState,
    JobType,
    NotFound,
    PayloadRejected,
    QueueingDisabled,
    ResultTimeout,
    StoreUnavailable,
    SyncClient,
    UsageError,
)
from workfleet.clock import SystemClock
from workfleet.ports.jobs import JobQuery
from workfleet.stores.open import open_store

pytestmark = pytest.mark.usefixtures("project")


class Welcome(Struct):
    user: int


class Receipt(Struct):
    message_id: str


WELCOME = JobType("welcome", Welcome, Receipt, queue="emails")


def shop() -> App:
    app = App("shop")

    @app.handler(WELCOME, attempts=1)
    async def welcome(job: Job[Welcome]) -> Receipt:
        if job.data.user < 0:
            raise ValueError("no such user")
        return Receipt(f"m{job.data.user}")

    return app


async def test_a_client_enqueues_and_waits_for_typed_results(project: Path) -> None:
    url = f"sqlite:///{project}/jobs.db"
    async with Worker(shop(), store=url), Client(url, app="shop") as client:
        ref = await client.enqueue(WELCOME(Welcome(7)))
        refs = await client.enqueue_many(WELCOME(Welcome(number)) for number in range(2_500))
        assert await ref.result(timeout="10s") == Receipt("m7")
        assert await refs[-1].result(timeout="30s") == Receipt("m2499")
        assert len({each.id for each in refs}) == 2_500
        assert (await client.ref(ref.id).record()).state is JobState.COMPLETED
        failing = await client.enqueue(WELCOME(Welcome(-1)))
        with pytest.raises(JobFailed) as failed:
            await failing.result(timeout="10s")
        assert (failed.value.failure_code, failed.value.failure_message) == ("raised", "no such user")
        assert str(failed.value) == f"job {failing.id} failed (raised): ValueError: no such user"
        assert failed.value.failure_type == "ValueError"
        assert (await client.queues.list())["emails"].failed == 1
        await client.jobs.retry(failing.id)
        with pytest.raises(JobFailed):
            await failing.result(timeout="10s")
        with pytest.raises(UsageError, match="is completed: only a failed job can be retried"):
            await client.jobs.retry(ref.id)
        with pytest.raises(NotFound):
            await client.jobs.get("nobody")
        with pytest.raises(NotFound):
            await client.ref("nobody").result(timeout="1s")


async def test_waiting_in_vain_lets_the_job_go_on(project: Path) -> None:
    async with Client(f"sqlite:///{project}/jobs.db", app="shop") as client:
        ref = await client.enqueue(WELCOME(Welcome(1)))
        with pytest.raises(ResultTimeout, match="is not finished after 50ms; it goes on"):
            await ref.result(timeout="50ms")
        assert (await ref.record()).state is JobState.WAITING


def test_a_client_wants_the_name_of_the_application_not_the_application() -> None:
    with pytest.raises(UsageError, match=r"^Client: app=\S+: it is text, such as 'shop'$"):
        Client(app=App("shop"))  # type: ignore[arg-type]


async def test_the_settings_say_which_store(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"which application's store is meant\?.*has no store yet"):
        async with Client():
            pass
    with pytest.raises(StoreUnavailable, match="`workfleet run` makes it"):
        async with Client(app="shop"):
            pass
    assert not (project / ".workfleet").exists()
    async with Client(f"sqlite://{project}/.workfleet/shop.db", app="shop") as client:
        first = await client.enqueue(WELCOME(Welcome(1)))
    assert (project / ".workfleet" / "shop.db").is_file()
    async with Client() as client:  # the only one that there is
        assert (await client.ref(first.id).record()).name == "welcome"
    async with Client(f"sqlite://{project}/.workfleet/blog.db", app="blog"):
        pass
    with pytest.raises(ConfigError, match="has blog, shop"):
        async with Client():
            pass
    monkeypatch.setenv("WORKER_APP_NAME", "shop")
    async with Client() as client:
        assert (await client.ref(first.id).record()).name == "welcome"
    monkeypatch.setenv("WORKER_STORE", f"sqlite:///{project}/other.db")
    async with Client() as client:
        with pytest.raises(NotFound):
            await client.ref(first.id).record()


async def test_a_store_that_cannot_be_opened_is_told(project: Path) -> None:
    (project / "folder.db").mkdir()
    with pytest.raises(StoreUnavailable):
        async with Client(f"sqlite:///{project}/folder.db", app="shop"):
            pass


async def test_one_key_makes_one_job_and_gives_its_id_to_all(project: Path) -> None:
    async with Client(f"sqlite:///{project}/jobs.db", app="shop") as client:
        refs = await asyncio.gather(*(client.enqueue(WELCOME(Welcome(1), unique="{data.user}")) for _ in range(50)))
        assert len({ref.id for ref in refs}) == 1
        assert [ref.created for ref in refs].count(True) == 1
        other = await client.enqueue(WELCOME(Welcome(2), unique="{data.user}"))
        assert other.created
        same_id = [await client.enqueue(WELCOME(Welcome(3), id="mine")) for _ in range(2)]
        assert [ref.created for ref in same_id] == [True, False]


async def test_every_enqueue_option_has_its_effect(project: Path) -> None:
    at = datetime.now(UTC) + timedelta(days=1)
    async with Client(f"sqlite:///{project}/jobs.db", app="shop") as client:
        ref = await client.enqueue(
            WELCOME(
                Welcome(1), queue="other", id="an-id", at=at, priority=5, unique="u{data.user}",
                tags=["a", "b"], metadata={"k": "v"}, attempts=9, backoff="3s", timeout="4s",
            )
        )  # fmt: skip
        record = await ref.record()
        delayed = await (await client.enqueue(WELCOME(Welcome(2), delay="1h", lifo=True))).record()
        with pytest.raises(UsageError, match="lifo=True with a priority"):
            await client.enqueue(WELCOME(Welcome(3), lifo=True, priority=1))
    assert (record.queue, record.id, record.priority, record.unique_key) == (
        "other", "an-id", 5, "other/welcome/u1"
    )  # fmt: skip
    assert (record.tags, record.metadata, record.run.attempts, record.run.timeout_ms) == (
        ("a", "b"),
        {"k": "v"},
        9,
        4_000,
    )
    assert record.due_ms == (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert delayed.due_ms - delayed.created_ms == 3_600_000
    assert (record.lifo, delayed.lifo) == (False, True)
    assert (record.state, delayed.state) == (JobState.DELAYED, JobState.DELAYED)


async def test_a_client_must_be_open() -> None:
    with pytest.raises(UsageError, match="the client is not open"):
        await Client().enqueue(WELCOME(Welcome(1)))


async def test_without_queueing(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    monkeypatch.setenv("WORKER_QUEUE_ENABLED", "false")
    async with Client(f"sqlite:///{project}/jobs.db", app="shop") as client:
        with pytest.raises(QueueingDisabled, match="job 'welcome' cannot be put on queue 'emails'"):
            await client.enqueue(WELCOME(Welcome(1)))
        with pytest.raises(PayloadRejected):
            await client.enqueue(WELCOME({"user": "x"}))  # type: ignore[arg-type]


# Synchronous code


def test_a_sync_client_opens_on_first_use_and_again_after_close(project: Path) -> None:
    jobs = SyncClient(f"sqlite:///{project}/jobs.db", app="shop")
    threads = threading.active_count()
    first = jobs.enqueue(WELCOME(Welcome(1)))
    record = jobs.run(lambda client: client.jobs.get(first.id))
    assert (record.name, record.payload) == ("welcome", b'{"user":1}')
    jobs.close()
    assert threading.active_count() == threads
    jobs.close()
    assert jobs.run(lambda client: client.jobs.get(first.id)).id == first.id
    jobs.close()


def test_many_threads_share_one(project: Path) -> None:
    jobs = SyncClient(f"sqlite:///{project}/jobs.db", app="shop")
    refs: list[Any] = []

    def enqueue(user: int) -> None:
        refs.append(jobs.enqueue(WELCOME(Welcome(user))))

    threads = [threading.Thread(target=enqueue, args=(user,)) for user in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ref.id for ref in refs}) == 20
    jobs.close()


async def test_inside_a_running_loop_it_says_what_to_use(project: Path) -> None:
    jobs = SyncClient(f"sqlite:///{project}/jobs.db", app="shop")
    with pytest.raises(UsageError, match="would block this event loop: use `Client` and await it"):
        jobs.enqueue(WELCOME(Welcome(1)))


def test_a_failure_to_open_leaves_no_thread_and_can_be_tried_again(project: Path) -> None:
    (project / "jobs.db").mkdir()
    jobs = SyncClient(f"sqlite:///{project}/jobs.db", app="shop")
    threads = threading.active_count()
    with pytest.raises(StoreUnavailable):
        jobs.enqueue(WELCOME(Welcome(1)))
    assert threading.active_count() == threads
    (project / "jobs.db").rmdir()
    assert jobs.enqueue(WELCOME(Welcome(1))).created
    jobs.close()


FORKS = """
import os, sys, threading
from workfleet import JobType, SyncClient

WELCOME = JobType("welcome", int, queue="emails")
jobs = SyncClient("sqlite:///" + sys.argv[1], app="shop")
untouched = SyncClient("sqlite:///" + sys.argv[1], app="shop")
jobs.enqueue(WELCOME(1, id="before"))

busy = threading.Thread(target=lambda: [jobs.enqueue(WELCOME(2)) for _ in range(50)])
busy.start()
children = []
for number in range(4):
    child = os.fork()
    if not child:
        for part in range(25):
            jobs.enqueue(WELCOME(3, id=f"child-{number}-{part}"))
        untouched.enqueue(WELCOME(3, id=f"child-{number}-other"))
        jobs.close()
        os._exit(0)
    children.append(child)
    jobs.enqueue(WELCOME(4, id=f"parent-{number}"))
busy.join()
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
jobs.enqueue(WELCOME(5, id="after"))
jobs.close()
print(codes)
"""


async def test_across_forks(project: Path) -> None:
    write(project, {"forks": FORKS})
    path = project / "jobs.db"
    ran = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-W", "ignore", "forks.py", str(path)],
        cwd=project, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("[0, 0, 0, 0]\n", "")
    store = await open_store(f"sqlite:///{path}", app="shop", clock=SystemClock(), create=False)
    jobs = await store.jobs.find(JobQuery(limit=1_000))
    await store.close()
    ids = {job.id for job in jobs}
    assert {"before", "after"} < ids
    assert {f"child-{number}-{part}" for number in range(4) for part in range(25)} < ids
    assert {f"child-{number}-other" for number in range(4)} < ids
    assert {f"parent-{number}" for number in range(4)} < ids
    assert len(ids) == 2 + 50 + 4 * 26 + 4


async def test_a_job_enqueued_elsewhere_is_heard_of_at_once(project: Path) -> None:
    """Another connection's enqueue wakes a worker whose poll is far away."""
    url = f"sqlite:///{project}/jobs.db"
    async with Worker(shop(), store=url, poll="1h") as worker:
        await until(lambda: worker.runtime.exchange.active == 0)
        async with Client(url, app="shop") as client:
            ref = await client.enqueue(WELCOME(Welcome(1)))
            assert await ref.result(timeout="10s") == Receipt("m1")
