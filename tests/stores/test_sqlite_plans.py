"""What workers do all the time never goes through all jobs, nor sorts them: every statement's plan says so."""

from __future__ import annotations

from collections.abc import AsyncIterator

import apsw.ext
import pytest_asyncio

from workfleet.model.jobs import JobRecord, JobState, Keep, KeepRule, UniqueRule
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.outcome import GIVE_BACK, Ended, RunPolicy, Settlement, decide
from workfleet.ports.jobs import ClaimRequest, PruneRule, TakeOver, Want
from workfleet.stores.sqlite.lane import Step
from workfleet.stores.sqlite.store import SqliteStore

Said = set[str]


@pytest_asyncio.fixture
async def said(sqlite: SqliteStore) -> AsyncIterator[Said]:
    """Every statement that the store's connections run from now on."""
    statements: Said = set()

    def note(_: object, sql: str, __: object) -> bool:
        statements.add(sql)
        return True

    def listen(step: Step) -> None:
        step.db.exec_trace = note

    await sqlite._lanes.write(listen)
    await sqlite._lanes.read(listen)
    yield statements


def job(job_id: str, **more: object) -> JobRecord:
    return JobRecord(id=job_id, queue="q", name="work", **more)  # type: ignore[arg-type]


def request(token: str) -> ClaimRequest:
    return ClaimRequest("w", token, 60_000, (Want("q", 3, share=1),))


async def prune(sqlite: SqliteStore) -> None:
    """By age and by count, of all jobs and of those with a rule of their own."""
    keep = KeepRule(age_ms=1_000, count=1)
    await sqlite.jobs.enqueue([job("k", keep=Keep(failed=keep)), job("l")])
    await sqlite.jobs.cancel(["k", "l"])
    await sqlite.jobs.prune([PruneRule(JobState.FAILED, age_ms=1_000, count=1)])
    await sqlite.jobs.prune([PruneRule(JobState.FAILED, count=0)])


async def walk(sqlite: SqliteStore) -> None:
    """A bit of everything that workers do."""
    once = UniqueRule(until="started", exclusive=True)
    await sqlite.queues.set_limits({"q": QueueLimits(50, Rate(50, 1_000), GroupLimits(2, 20, Rate(9, 1_000)))})
    await sqlite.jobs.enqueue([job("a"), job("b", group="x"), job("c", group="y", tags=("t",)), job("d", delay_ms=1)])
    await sqlite.jobs.enqueue([job("e", unique_key="k", unique=once)])
    await sqlite.jobs.enqueue([job("f", unique_key="w", unique=UniqueRule(window_ms=10_000, on_conflict="debounce"))])
    await sqlite.jobs.enqueue([job("g", unique_key="w", unique=UniqueRule(on_conflict="replace"))])
    records = await sqlite.jobs.claim(request("t1"))
    how = [Ended(kind="returned"), GIVE_BACK, Ended(kind="retry", after_ms=5)]
    ends = [
        Settlement(record.claim, decide(end, record, RunPolicy(), now_ms=0, draw=0))
        for record, end in zip(records, how, strict=False)
    ]
    assert len(ends) == 3
    settled = await sqlite.jobs.settle(ends, request("t2"))
    await sqlite.jobs.renew([record.claim for record in settled.claimed], 60_000)
    await sqlite.jobs.enqueue([job("h", unique_key="k", unique=once)])
    await sqlite.jobs.take_over(TakeOver("r", "t3", 60_000))
    await sqlite.jobs.take_over(TakeOver("r", "t4", 60_000, workers=("w",)))
    await sqlite.jobs.cancel(["h", "a"])
    await sqlite.jobs.retry(["h"])
    await sqlite.jobs.promote(["d"])
    await sqlite.jobs.delete(["a"])
    await prune(sqlite)


async def plans_of(sqlite: SqliteStore, statements: Said) -> dict[str, list[str]]:
    """The steps of each statement's plan."""

    def explain(step: Step) -> dict[str, list[str]]:
        step.db.exec_trace = None
        plans = {}
        for sql in statements:
            if sql.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE", "INSERT", "WITH")):
                places = (None,) * apsw.ext.query_info(step.db, sql).bindings_count
                plans[sql] = [str(row[3]) for row in step.db.execute(f"EXPLAIN QUERY PLAN {sql}", places)]
        return plans

    return await sqlite._lanes.write(explain)


async def whole_scans(sqlite: SqliteStore, statements: Said) -> list[str]:
    """Steps of plans that go through a whole table of jobs, or sort what they found there."""
    found = []
    for sql, steps in (await plans_of(sqlite, statements)).items():
        scans = any(each.startswith("SCAN") and each.split()[1] in _BIG for each in steps)
        if (scans or any("TEMP B-TREE" in each for each in steps)) and not any(few in sql for few in _FEW):
            found.append(f"{sql}: {steps}")
    return found


_BIG = ("wf_job", "wf_body", "wf_run", "wf_tag", "wf_log", "j", "b", "o", "r")
_FEW = ("wf_job_active", "wf_job_parked", "wf_claim")
"""What is active, or parked behind one key, is few: that may be gone through, and sorted."""


async def test_nothing_goes_through_all_jobs(sqlite: SqliteStore, said: Said) -> None:
    await walk(sqlite)
    assert len(said) > 40
    assert await whole_scans(sqlite, said) == []


async def test_the_check_would_find_one(sqlite: SqliteStore, said: Said) -> None:
    await sqlite._lanes.write(lambda step: step.rows("SELECT count(*) FROM wf_job WHERE priority > ?", 5))
    await sqlite._lanes.write(lambda step: step.rows("SELECT seq FROM wf_job WHERE app = ? ORDER BY due_ms", "x"))
    assert len(await whole_scans(sqlite, said)) == 2


async def test_pruning_goes_along_the_index_of_finished_jobs(sqlite: SqliteStore, said: Said) -> None:
    await prune(sqlite)
    assert await whole_scans(sqlite, said) == []
    along = "SEARCH j USING INDEX wf_job_finished (queue=? AND state=? AND kept=? AND housekeeping=? AND finished_ms<?)"
    assert (
        sum(along in plan for plan in (await plans_of(sqlite, said)).values()) == 4
    )  # too old and too many, of all and of their own
