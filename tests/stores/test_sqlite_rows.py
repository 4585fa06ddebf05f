"""Rows that cannot be read are kept, marked and shown, and stand in nobody's way. Any text can be recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from workfleet.model.jobs import UNDECODABLE, Attempt, Claim, Failure, JobRecord, JobState
from workfleet.model.limits import QueueLimits
from workfleet.model.outcome import Ended, Outcome, RunPolicy, Settlement, decide
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Every, Manual
from workfleet.ports.jobs import ClaimRequest, JobQuery, PruneRule, Want
from workfleet.stores.sqlite.store import SqliteStore

Outside = Callable[[str], object]


def job(job_id: str, **said: object) -> JobRecord:
    return JobRecord(id=job_id, queue="q", name="work", **said)  # type: ignore[arg-type]


async def claim(sqlite: SqliteStore, token: str) -> list[JobRecord]:
    return await sqlite.jobs.claim(ClaimRequest("w", token, 60_000, (Want("q", 10),)))


@pytest.mark.parametrize("spec", ["'{\"run\": 7}'", "'{'", "x'ff00fe'"])
async def test_a_job_that_cannot_be_read_fails_and_stays(sqlite: SqliteStore, outside: Outside, spec: str) -> None:
    await sqlite.jobs.enqueue([job("a", tags=("t",)), job("bad", tags=("t",)), job("c", tags=("t",))])
    outside(f"UPDATE wf_body SET spec = CAST({spec} AS BLOB) WHERE seq = 2")
    shown = (await sqlite.jobs.find(JobQuery()))[1]
    assert (shown.id, shown.state, shown.outcome) == ("bad", JobState.WAITING, UNDECODABLE)
    assert [record.id for record in await claim(sqlite, "t1")] == ["a", "c"]
    (failed,) = await sqlite.jobs.get(["bad"])
    assert failed is not None
    assert failed.failure is not None
    assert (failed.state, failed.outcome, failed.failure.code) == (JobState.FAILED, UNDECODABLE, UNDECODABLE)
    assert "spec:" in failed.failure.message
    assert failed.finished_ms is not None
    assert await claim(sqlite, "t2") == []
    assert await sqlite.jobs.prune([PruneRule(JobState.FAILED, age_ms=-1_000_000, count=0)]) == 0
    assert outside(f"SELECT spec = CAST({spec} AS BLOB) FROM wf_body WHERE seq = 2") == 1
    # A version that can read it, or a repair, runs it.
    outside("UPDATE wf_body SET spec = NULL WHERE seq = 2")
    assert await sqlite.jobs.retry(["bad"]) == [True]
    assert [record.id for record in await claim(sqlite, "t3")] == ["bad"]


async def test_those_that_cannot_be_read_keep_no_place_of_a_claim(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.jobs.enqueue([job(f"bad{n:02}", tags=("t",)) for n in range(25)])
    await sqlite.jobs.enqueue([*(job(f"good{n}", lifo=n == 4) for n in range(5)), job("later", delay_ms=1)])
    await sqlite.jobs.enqueue([JobRecord(id=f"r{n}", queue="r", name="work") for n in range(4)])
    outside("UPDATE wf_body SET spec = CAST('{' AS BLOB) WHERE seq <= 25")
    asked = ClaimRequest("w", "t1", 60_000, (Want("q", 10, 3), Want("r", 3, 1)), total=6)
    given = await sqlite.jobs.claim(asked)
    assert [record.id for record in given] == ["good4", "r0", "good0", "good1", "good2", "good3"]
    assert [record.token for record in given] == ["t1"] * 6
    assert await sqlite.jobs.claim(asked) == given
    counts = await sqlite.jobs.counts()
    assert (counts["q"].failed, counts["q"].active, counts["r"].active) == (25, 5, 1)


async def test_they_keep_no_slot_of_a_limit(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.queues.set_limits({"q": QueueLimits(concurrency=2)})
    await sqlite.jobs.enqueue([job(f"{name}{n}", tags=(name,)) for name in ("bad", "good") for n in range(5)])
    outside("UPDATE wf_body SET spec = CAST('{' AS BLOB) WHERE seq <= 5")
    assert [record.id for record in await claim(sqlite, "t1")] == ["good0", "good1"]
    assert await claim(sqlite, "t2") == []


async def test_one_that_is_damaged_after_its_claim_is_not_given_again(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.jobs.enqueue([job("a", tags=("t",))])
    assert [record.id for record in await claim(sqlite, "t1")] == ["a"]
    outside("UPDATE wf_body SET spec = CAST('{' AS BLOB)")
    await sqlite.jobs.enqueue([job("b")])
    assert [record.id for record in await claim(sqlite, "t1")] == ["b"]


async def test_very_many_of_them_are_failed_in_several_claims(sqlite: SqliteStore, outside: Outside) -> None:
    """So that nobody waits for long; who claims them is woken, and goes on at once."""
    await sqlite.jobs.enqueue([*(job(f"bad{n}", tags=("t",)) for n in range(1_005)), job("good")])
    outside("UPDATE wf_body SET spec = CAST('{' AS BLOB) WHERE seq <= 1005")
    assert await claim(sqlite, "t1") == []
    assert (await sqlite.jobs.counts())["q"].failed == 1_000
    assert await sqlite.jobs.wait(["q"], 0)
    assert [record.id for record in await claim(sqlite, "t2")] == ["good"]
    assert not await sqlite.jobs.wait(["q"], 0)


async def test_a_past_that_cannot_be_read(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.jobs.enqueue([job("a"), job("b")])
    again = Ended(kind="retry", after_ms=0, failure=Failure("retry", "again"))
    await sqlite.jobs.settle(
        [
            Settlement(record.claim, decide(again, record, RunPolicy(), now_ms=0, draw=0))
            for record in await claim(sqlite, "t1")
        ]
    )
    outside("UPDATE wf_run SET history = 'x' WHERE seq = 1")
    outside("UPDATE wf_run SET failure = CAST('[]' AS BLOB) WHERE seq = 2")
    assert await claim(sqlite, "t2") == []
    a, b = await sqlite.jobs.get(["a", "b"])
    assert a is not None
    assert a.failure is not None
    assert "history:" in a.failure.message
    assert b is not None
    assert b.failure is not None
    assert "failure:" in b.failure.message
    assert [attempt.outcome for attempt in b.history] == ["retry"]


async def test_a_job_whose_body_is_gone(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.jobs.enqueue([job("a"), job("b")])
    outside("DELETE FROM wf_body WHERE seq = 1")
    assert [record.id for record in await claim(sqlite, "t1")] == ["b"]
    (lost,) = await sqlite.jobs.get(["a"])
    assert lost is not None
    assert lost.failure is not None
    assert (lost.state, lost.name) == (JobState.FAILED, "?")
    assert "missing" in lost.failure.message


async def test_fields_of_a_newer_version_are_kept(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.jobs.enqueue([job("a", tags=("t",))])
    outside("""UPDATE wf_body SET spec = CAST('{"tags":["t"],"group":"x"}' AS BLOB)""")
    (record,) = await claim(sqlite, "t1")
    assert record.tags == ("t",)
    await sqlite.jobs.settle(
        [Settlement(record.claim, decide(Ended(kind="returned"), record, RunPolicy(), now_ms=0, draw=0))]
    )
    assert outside("SELECT CAST(spec AS TEXT) FROM wf_body") == '{"tags":["t"],"group":"x"}'


async def test_a_schedule_that_cannot_be_read_is_shown_orphaned_until_code_defines_it(
    sqlite: SqliteStore, outside: Outside
) -> None:
    record = ScheduleRecord(name="s", timing=Every(60_000), fingerprint="f", job=job("t"), next_due_ms=5)
    await sqlite.schedules.merge([record])
    outside("""UPDATE wf_schedule SET definition = CAST('{"name":"s","timing":{"kind":"lunar"}}' AS BLOB)""")
    (shown,) = await sqlite.schedules.all()
    assert (shown.name, shown.orphaned, shown.timing, shown.fingerprint) == ("s", True, Manual(), "f")
    assert "cannot read" in shown.description
    await sqlite.schedules.merge([record])
    assert await sqlite.schedules.all() == [record]


async def test_recording_an_end_cannot_fail_for_its_text(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([job("a")])
    (record,) = await claim(sqlite, "t1")
    assert await sqlite.jobs.report(record.claim, lines=["lone \ud800 surrogate"])
    failure = Failure("raised", "lone \ud800", "T\udfff", "NUL \0")
    attempt = Attempt(1, "failed", 0, 0, "w", failure)
    outcome = Outcome(state=JobState.FAILED, code="failed", failure=failure, attempt=attempt)
    assert (await sqlite.jobs.settle([Settlement(Claim("a", "t1", "q"), outcome)])).applied == [True]
    (failed,) = await sqlite.jobs.get(["a"])
    clean = Failure("raised", "lone \\ud800", "T\\udfff", "NUL \0")
    assert failed is not None
    assert (failed.failure, failed.history[0].failure) == (clean, clean)
    assert await sqlite.jobs.logs("a") == ["lone \\ud800 surrogate"]


async def test_a_large_payload_is_written_once(sqlite: SqliteStore, path: Path) -> None:
    payload = b'"' + b"x" * 8_000_000 + b'"'
    await sqlite.jobs.enqueue([job("a", payload=payload)])
    log = path.with_name("store.db-wal")
    before = log.stat().st_size
    for token in ("t1", "t2", "t3"):
        (record,) = await claim(sqlite, token)
        await sqlite.jobs.renew([record.claim], 60_000)
        await sqlite.jobs.settle([Settlement(record.claim, Outcome(state=JobState.WAITING, code="given_back"))])
    assert record.payload == payload
    assert log.stat().st_size - before < 1_000_000


async def test_large_payloads_are_claimed_with_the_others(sqlite: SqliteStore) -> None:
    """They are read row by row: all of them in one text could be more than SQLite can make."""
    large = b'"' + b'\\"' * 100_000 + b'"'
    payloads = [b"1", large, b'"x"', large, b"null"]
    await sqlite.jobs.enqueue([job(f"j{n}", payload=payload) for n, payload in enumerate(payloads)])
    claimed = await claim(sqlite, "t1")
    assert [(record.id, record.payload) for record in claimed] == [(f"j{n}", p) for n, p in enumerate(payloads)]
    outcome = [
        Settlement(record.claim, decide(Ended(kind="returned", result=b"1"), record, RunPolicy(), now_ms=1, draw=0.5))
        for record in claimed
    ]
    assert (await sqlite.jobs.settle(outcome)).applied == [True] * 5
