"""Pruning a file: what a step costs, however many jobs have finished, and what changes between looking and deleting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import apsw
import pytest

from workfleet.model.jobs import JobRecord, JobState, Keep, KeepRule
from workfleet.ports.jobs import JobQuery, PruneRule
from workfleet.stores.sqlite import forgetting, pruning
from workfleet.stores.sqlite.lane import Step
from workfleet.stores.sqlite.store import SqliteStore

_KEPT, _AT_ONCE = 500, 100
_FILL = """
WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
INSERT INTO wf_job (seq, app, id, queue, state, lifo, priority, housekeeping, created_ms, due_ms, finished_ms, keep)
SELECT i, 'shop', 'j' || i, 1, 5, 0, 0, 0, i, i, i / 3, ?3 FROM n
"""


async def fill(sqlite: SqliteStore, first: int, last: int, keep: str) -> None:
    """Jobs that have completed long ago, three at a time."""

    def operation(step: Step) -> None:
        step.change(_FILL, first, last, keep)
        step.change(
            "INSERT INTO wf_run (seq, outcome, attempts) SELECT seq, 'completed', 0 FROM wf_job WHERE seq >= ?", first
        )

    await sqlite._lanes.write(operation)


async def work_of_a_step(sqlite: SqliteStore, rules: list[PruneRule]) -> dict[str, Counter[str]]:
    """What SQLite counts while it prunes so many, for each of the two connections."""
    counted = {"write": Counter[str](), "read": Counter[str]()}
    lanes: dict[str, Callable[[Callable[[Step], None]], Awaitable[None]]] = {
        "write": sqlite._lanes.write,
        "read": sqlite._lanes.read,
    }

    def listen(into: Counter[str]) -> Callable[[Step], None]:
        def note(facts: dict[str, Any]) -> None:
            into.update({name.removeprefix("SQLITE_STMTSTATUS_"): n for name, n in facts["stmt_status"].items()})

        return lambda step: step.db.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)

    for kind, run in lanes.items():
        await run(listen(counted[kind]))
    assert await sqlite.jobs.prune(rules, _AT_ONCE) == _AT_ONCE
    for run in lanes.values():
        await run(lambda step: step.db.trace_v2(0, None))
    return counted


@pytest.mark.parametrize(
    ("rule", "keep"),
    [
        (PruneRule(JobState.COMPLETED, count=_KEPT), ""),
        (PruneRule(JobState.COMPLETED, age_ms=1_000), ""),
        (None, f"/{_KEPT}|"),
        (None, "1000/|"),
    ],
    ids=["count", "age", "own count", "own age"],
)
async def test_a_step_costs_the_same_however_many_have_finished(
    sqlite: SqliteStore, rule: PruneRule | None, keep: str
) -> None:
    rules = [rule] if rule else []
    await sqlite.jobs.enqueue([JobRecord(id="x", queue="q", name="work")])
    await fill(sqlite, 10, 2_000, keep)
    await work_of_a_step(sqlite, rules)  # the first also forgets what has expired
    few = await work_of_a_step(sqlite, rules)
    await fill(sqlite, 2_000, 50_000, keep)
    many = await work_of_a_step(sqlite, rules)
    for kind in ("write", "read"):
        assert many[kind]["SORT"] == few[kind]["SORT"] == 0
        assert few[kind]["VM_STEP"] > _AT_ONCE
        assert many[kind]["VM_STEP"] == pytest.approx(few[kind]["VM_STEP"], rel=0.02)
    # What others wait for is the deletion itself, and nothing that depends on how many are kept.
    assert many["write"]["VM_STEP"] < 200 * _AT_ONCE


async def test_the_oldest_go_first(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([JobRecord(id="x", queue="q", name="work")])
    await fill(sqlite, 10, 30, "")
    assert await sqlite.jobs.prune([PruneRule(JobState.COMPLETED, count=5)], 11) == 11
    assert await sqlite.jobs.prune([PruneRule(JobState.COMPLETED, count=5)], 11) == 4
    left = await sqlite.jobs.find(JobQuery(states=(JobState.COMPLETED,)))
    assert [record.id for record in left] == ["j29", "j28", "j27", "j26", "j25"]


async def test_a_job_that_was_retried_since_it_was_found_stays(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([JobRecord(id=name, queue="q", name="work") for name in "abc"])
    await sqlite.jobs.cancel(["a", "b", "c"])
    rule = PruneRule(JobState.FAILED, count=0)
    found = await sqlite._lanes.read(lambda step: pruning._doomed(step, "shop", [rule], 10))
    assert len(found) == 3
    await sqlite.jobs.retry(["b"])
    await sqlite.jobs.delete(["c"])
    assert await sqlite._lanes.write(lambda step: pruning._delete(step, found)) == 1
    assert [record.id for record in await sqlite.jobs.find(JobQuery())] == ["b"]


async def test_what_has_expired_goes_in_steps(sqlite: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_FOUND_AT_ONCE", 100)
    monkeypatch.setattr(forgetting, "_AT_ONCE", 40)

    def expire(step: Step) -> None:
        many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250)"
        step.change(f"{many} INSERT INTO wf_key SELECT 'shop', 'k' || i, x'', i FROM n")
        step.change(f"{many} INSERT INTO wf_hold SELECT 'shop', 'k' || i, 'x', i FROM n")
        step.change(f"{many} INSERT INTO wf_claim SELECT i, 'shop', 't' || i, 'w', i FROM n")
        step.change(f"{many} INSERT INTO wf_start SELECT 1, '', i, 1, i FROM n")

    def left(step: Step) -> list[int]:
        return [
            step.rows(f"SELECT count(*) FROM {table}")[0][0] for table in ("wf_key", "wf_hold", "wf_claim", "wf_start")
        ]

    await sqlite.jobs.enqueue([JobRecord(id="x", queue="q", name="work")])
    await sqlite.keys.put_if_absent("kept", b"", 60_000)
    await sqlite._lanes.write(expire)
    before = sqlite._lanes.writes
    assert await sqlite.jobs.prune([]) == 0
    assert await sqlite._lanes.read(left) == [1, 0, 0, 0]
    assert sqlite._lanes.writes - before == 4 * (3 + 3 + 2)


async def test_nothing_to_prune_writes_nothing(sqlite: SqliteStore) -> None:
    await sqlite.jobs.enqueue([JobRecord(id="x", queue="q", name="work", keep=Keep(completed=KeepRule(count=0)))])
    before = sqlite._lanes.writes
    assert await sqlite.jobs.prune([PruneRule(JobState.COMPLETED, age_ms=1, count=1)]) == 0
    assert sqlite._lanes.writes == before
