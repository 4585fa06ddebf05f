"""What a job's code logs is kept with the job: in every store, within bounds, and never at the cost of the job."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import structlog

from tests.stores.redis.servers import Server
from workfleet import App, Job, NewJob, Pool, Retry, Snooze, process, public
from workfleet.app.log_calls import call_fields, keep_line
from workfleet.errors import StoreUnavailable
from workfleet.events import JobLogged, JobSettled, StoreTrouble
from workfleet.model.jobs import Claim
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.setup import configure_logging

from .working import Worker

PLAIN = logging.getLogger("shop")
app = App("shop")
SNOOZED: list[str] = []


@app.handler("say", queue="q", attempts=1)
async def say(job: Job[list[str]]) -> None:
    for line in job.data:
        PLAIN.info(line)
    job.log("said by job.log")
    structlog.get_logger("shop").warning("password", password="hunter2")


@app.handler("tells", queue="q")
async def tells(job: Job[str]) -> None:
    job.log(job.data)


@app.handler("silent", queue="q")
async def silent(job: Job[None]) -> None: ...


@app.handler("again", queue="q", attempts=4, backoff="1ms")
async def again(job: Job[None]) -> None:
    for number in range(4):
        PLAIN.info("attempt %d line %d", job.attempt, number)
    if job.attempt < 4:
        raise Retry(after="1ms")


@app.handler("snoozes", queue="q")
async def snoozes(job: Job[int]) -> None:
    PLAIN.info("snoozed %s", "x" * 500)
    SNOOZED.append(job.id)
    if len(SNOOZED) < job.data:
        raise Snooze(after="1ms")


@process("threads", size=1, isolation="thread")
class InThread:
    @public
    def make(self, text: str) -> None:
        PLAIN.info(text)


@process("inlines", isolation="inline")
class Inline:
    @public
    async def make(self, text: str) -> None:
        PLAIN.info(text)


@app.handler("calls", queue="q")
async def calls(job: Job[None], threads: Pool[InThread], inlines: Pool[Inline]) -> None:
    await threads.make("in a thread")
    await inlines.make("inline")


app.jobs += [InThread, Inline]


@pytest.fixture(autouse=True)
def logs() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    options = LogOptions(format="json", keep="info")
    setup = configure_logging(options, stream=stream, keep=keep_line, context=call_fields)
    yield stream
    setup.close()
    structlog.reset_defaults()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("s")
    if request.param == "redis":
        server = Server(folder)
        server.start()
        yield server.url
        server.stop()
    else:
        yield "memory://" if request.param == "memory" else f"sqlite:///{folder}/shop.db"


async def kept(worker: Worker, job: str) -> list[str]:
    """Without their times."""
    found = await worker.store.jobs.logs(job)
    return [line.split(" ", 1)[1] if line[:2] == "20" else line for line in found]


async def ended(worker: Worker, new: NewJob[Any]) -> str:
    """The id of a job that has finished."""
    ref = await worker.client.enqueue(new)
    await ref.result(timeout="30s")
    return ref.id


async def test_every_store_keeps_lines_in_their_order(store: str) -> None:
    async with Worker(app, store=store) as worker:
        job = await ended(worker, say.job(["one", "two\nand a half"]))
        assert await kept(worker, job) == [
            "info     shop: one",
            "info     shop: two\nand a half",
            "said by job.log",
            "warning  shop: password password=***",
        ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "to redis://:***@h with password=*** and iban=DE1"),
        ({"log.redact_keys": ["iban"]}, "to redis://:***@h with password=*** and iban=***"),
        ({"log.redact": False}, "to redis://:p@w@h with password=hunter2 and iban=DE1"),
    ],
)
async def test_what_is_said_by_job_log_is_kept_without_secrets(store: str, options: dict[str, Any], said: str) -> None:
    async with Worker(app, store=store, **options) as worker:
        job = await ended(worker, tells.job("to redis://:p@w@h with password=hunter2 and iban=DE1"))
        assert await kept(worker, job) == [said]
        assert [event.line for event in worker.told(JobLogged) if event.id == job] == [said]


async def test_a_secret_in_a_line_that_is_too_long_is_hidden_before_it_is_cut() -> None:
    async with Worker(app) as worker:
        job = await ended(worker, tells.job("x" * 9_985 + " redis://:hunter2@h"))
        assert await kept(worker, job) == ["x" * 9_985 + " redis://:***@h"[:15]]


async def test_the_bound_is_of_the_job_with_all_its_runs(store: str) -> None:
    async with Worker(app, store=store, **{"log.jobs.lines": 6}) as worker:
        job = await ended(worker, again.job(None))
        first = [f"info     shop: attempt {run} line {line}" for run, line in ((1, 0), (1, 1), (1, 2), (1, 3), (2, 0))]
        assert await kept(worker, job) == [
            *first,
            "info     shop: attempt 2 line 1",
            "… more than 6 lines or 262,144 bytes: the rest is in the log only",
        ]


async def test_a_job_that_snoozes_for_ever_does_not_grow(store: str) -> None:
    SNOOZED.clear()
    async with Worker(app, store=store, **{"log.jobs.size": "2KiB"}) as worker:
        job = await ended(worker, snoozes.job(12))
        assert len(SNOOZED) == 12
        found = await kept(worker, job)
        assert 3 <= len(found) <= 4
        assert sum(map(len, found)) <= 2_600


async def test_one_run_says_that_it_has_said_more(logs: io.StringIO) -> None:
    async with Worker(app, **{"log.jobs.lines": 2}) as worker:
        job = await ended(worker, say.job([str(number) for number in range(5)]))
        assert await kept(worker, job) == [
            "info     shop: 0",
            "info     shop: 1",
            "… more than 2 lines or 262,144 bytes: the rest is in the log only",
            "said by job.log",
        ]
    assert [line["message"] for line in map(json.loads, logs.getvalue().splitlines())][:5] == list("01234")


async def test_a_run_that_says_nothing_asks_nothing_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    async with Worker(app) as worker:

        async def report(claim: Claim, **said: object) -> bool:
            asked.append(claim.job_id)
            return True

        async def logs(job_id: str) -> list[str]:
            asked.append(job_id)
            return []

        monkeypatch.setattr(worker.store.jobs, "report", report)
        monkeypatch.setattr(worker.store.jobs, "logs", logs)
        quiet = await ended(worker, silent.job(None))
        said = await ended(worker, say.job(["one"]))
        assert said in asked  # or this test could not fail
        assert quiet not in asked


@pytest.mark.parametrize("error", [StoreUnavailable("memory://", "it is away"), RuntimeError("no room for logs")])
async def test_a_store_that_keeps_no_lines_fails_no_job(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Worker(app) as worker:

        async def report(claim: Claim, *, lines: Sequence[str] = (), **said: object) -> bool:
            raise error

        monkeypatch.setattr(worker.store.jobs, "report", report)
        job = await ended(worker, say.job(["one"]))
        assert [event.outcome for event in worker.told(JobSettled) if event.id == job] == ["completed"]
        # One that is away says so where it is asked for more than lines.
        troubles = {(event.what, event.error) for event in worker.told(StoreTrouble)}
        told = {("keeping a job's log lines", "RuntimeError: no room for logs")}
        assert troubles == (set() if isinstance(error, StoreUnavailable) else told)


async def test_calls_of_pools_without_processes_are_the_runs_own(logs: io.StringIO) -> None:
    async with Worker(app) as worker:
        job = await ended(worker, calls.job(None))
        assert await kept(worker, job) == ["info     shop: in a thread", "info     shop: inline"]
    said = [(line["message"], line["job_id"]) for line in map(json.loads, logs.getvalue().splitlines())]
    assert said == [("in a thread", job), ("inline", job)]


async def test_lines_said_outside_of_runs_are_kept_nowhere() -> None:
    async with Worker(app) as worker:
        job = await ended(worker, silent.job(None))
        PLAIN.info("outside")
        assert await kept(worker, job) == []
