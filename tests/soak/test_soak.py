"""The soak's verdict over made-up counts, and a short soak with real processes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest

from tests.soak.outages import How, Outages
from tests.soak.soak import soak, sqlite
from tests.soak.verdict import Effect, judge
from workfleet.model.jobs import JobRecord, JobState


def record(job_id: str, state: JobState, finished_ms: int | None = None, outcome: str | None = None) -> JobRecord:
    return JobRecord(id=job_id, queue="q", name="work", state=state, finished_ms=finished_ms, outcome=outcome)


def effects_of(*job_ids: str, ms: int = 10) -> list[Effect]:
    return [Effect(ms, what, job_id) for job_id in job_ids for what in ("begin", "end")]


KEPT: Mapping[str, JobRecord] = {
    "a": record("a", JobState.COMPLETED, 10, "completed"),
    "b": record("b", JobState.COMPLETED, 20, "completed"),
    "c": record("c", JobState.FAILED, 30, "crashed"),
}


def test_kept_promises_are_counted() -> None:
    verdict = judge(["a", "b", "c"], KEPT, [*effects_of("a", "b", "b"), Effect(30, "begin", "c")], 1)
    assert (verdict.acknowledged, verdict.completed, verdict.crash_limit, verdict.lost) == (3, 2, 1, 0)
    assert (verdict.runs_beyond_one, verdict.in_flight_at_kills) == (1, 1)
    assert verdict.problems == ()


@pytest.mark.parametrize(
    ("missing", "records", "effects"),
    [
        ("not in the store", {name: KEPT[name] for name in "bc"}, effects_of("a", "b")),
        ("still waiting", {**KEPT, "a": record("a", JobState.WAITING)}, effects_of("a", "b")),
        ("still active", {**KEPT, "a": record("a", JobState.ACTIVE)}, effects_of("a", "b")),
        ("completed without an end", KEPT, [*effects_of("b"), Effect(5, "begin", "a")]),
    ],
)
def test_a_lost_job_is_seen(missing: str, records: Mapping[str, JobRecord], effects: list[Effect]) -> None:
    verdict = judge(["a", "b", "c"], records, effects, 0)
    assert verdict.lost == 1, missing
    assert verdict.problems == ("lost: a",)


def test_more_runs_than_jobs_in_flight_are_seen() -> None:
    verdict = judge(["a", "b", "c"], KEPT, effects_of("a", "b", "b", "b"), 1)
    assert verdict.problems == ("2 runs beyond one a job, 1 jobs in flight",)


def test_a_side_effect_after_the_settlement_is_seen() -> None:
    verdict = judge(["a", "b", "c"], KEPT, [*effects_of("a", "b"), Effect(31, "begin", "c")], 0)
    assert (verdict.effects_after_settle, verdict.problems) == (1, ("side effects after the settlement: c",))


def test_another_failure_is_seen() -> None:
    records = {**KEPT, "b": record("b", JobState.FAILED, 20, "failed")}
    verdict = judge(["a", "b", "c"], records, effects_of("a", "b"), 0)
    assert (verdict.failed_otherwise, verdict.problems) == (1, ("failed for another reason: b",))


@pytest.mark.full
@pytest.mark.timeout(240)
async def test_twenty_seconds_of_kills(tmp_path: Path) -> None:
    result = await soak(tmp_path, sqlite(tmp_path), workers=4, seconds=20, jobs=3_000, seed=1)
    assert result.problems == (), result.table()
    assert result.verdict.acknowledged == 3_000
    assert result.verdict.completed + result.verdict.crash_limit == 3_000
    assert result.worker_kills + result.supervisor_kills >= 17, "a victim may end by itself before it is killed"
    assert result.supervisor_kills >= 1
    assert result.verdict.in_flight_at_kills > 0, "no kill hit a running job: the soak shows nothing"


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
async def test_twenty_seconds_of_kills_while_the_server_comes_and_goes(tmp_path: Path, how: How) -> None:
    outages = Outages(tmp_path, how, Random(1), every_s=5)
    outages.start()
    try:
        result = await soak(tmp_path, outages.url, workers=2, seconds=20, jobs=6_000, seed=1, outages=outages)
    finally:
        outages.stop()
    assert result.problems == (), result.table()
    assert result.verdict.acknowledged == 6_000
    assert result.verdict.completed + result.verdict.crash_limit == 6_000
    assert result.server_stops == outages.stops >= 3
    assert ["times", "the", "server", "ended", str(outages.stops)] in [
        line.split() for line in result.table().splitlines()
    ]
    assert result.worker_kills >= 1
    assert result.verdict.in_flight_at_kills > 0, "no kill hit a running job: the soak shows nothing"
