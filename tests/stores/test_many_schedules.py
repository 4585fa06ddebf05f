"""What many schedules ask of a file: others go on while they are merged, nothing goes through all of them, and programs
that know nothing of holds work on beside this one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import apsw.ext
import pytest

from workfleet.clock import SystemClock
from workfleet.model.handout import DueRequest, Hold
from workfleet.model.schedules import ScheduleRecord
from workfleet.stores.sqlite.lane import Step
from workfleet.stores.sqlite.schema import VERSION
from workfleet.stores.sqlite.scripts import FIRST, SECOND
from workfleet.stores.sqlite.store import SqliteStore
from workfleet.testing.contracts.harness import job
from workfleet.testing.contracts.schedules import NEXT, SLOT, fire, schedule

Outside = Callable[[str], object]


def many(count: int, **said: Any) -> list[ScheduleRecord]:
    return [schedule(f"s{number:05}", next_due_ms=SLOT + number, **said) for number in range(count)]


async def test_others_go_on_while_many_are_merged(sqlite: SqliteStore) -> None:
    await sqlite.schedules.put(schedule("runtime", from_code=False), replace=False)
    merging = asyncio.create_task(sqlite.schedules.merge(iter(many(20_000))))
    seen = set[int]()
    number = 0
    while not merging.done():
        number += 1
        await sqlite.jobs.enqueue([job(f"j{number}")])
        seen.add(await sqlite._lanes.read(_count))
    await merging
    # They came in batches, between which other steps were done.
    assert {1 + 2_000 * batch for batch in range(11)} >= seen
    assert len(seen) > 3
    assert await sqlite.schedules.merge(many(20_000)) == []


def _count(step: Step) -> int:
    (found,) = step.rows("SELECT count(*) FROM wf_schedule")
    return int(found[0])


async def test_an_unchanged_definition_is_not_written_again(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.schedules.merge(many(100))
    before = outside("PRAGMA data_version"), outside("SELECT value FROM wf_meta WHERE key = 'schedules of shop'")
    await sqlite.schedules.merge(many(100))
    assert before == (outside("PRAGMA data_version"), outside("SELECT value FROM wf_meta WHERE key LIKE 'schedules%'"))


async def test_nothing_goes_through_all_schedules(sqlite: SqliteStore) -> None:
    statements = set[str]()

    def listen(step: Step) -> None:
        step.db.exec_trace = lambda _, sql, __: statements.add(sql) or True

    await sqlite.schedules.merge(many(10))
    await sqlite._lanes.write(listen)
    await sqlite.schedules.merge(many(10))
    await sqlite.schedules.put(schedule("a", from_code=False), replace=True)
    await sqlite.schedules.set_paused("a", paused=True)
    handed = await sqlite.schedules.claim_due(DueRequest(5, 0, 1_000))
    assert len(handed.records) == 5
    await sqlite.schedules.hold([Hold("s00001", SLOT + 1, NEXT)])
    await sqlite.schedules.fire([fire("s00000", held_until_ms=NEXT + 5)])
    await sqlite.schedules.remove("a")

    def explain(step: Step) -> list[str]:
        step.db.exec_trace = None
        asked = [sql for sql in statements if sql.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE"))]
        plans = []
        for sql in asked:
            places = (None,) * apsw.ext.query_info(step.db, sql).bindings_count
            plans += [str(row[3]) for row in step.db.execute(f"EXPLAIN QUERY PLAN {sql}", places)]
        return plans

    plans = await sqlite._lanes.write(explain)
    of_schedules = [plan for plan in plans if "wf_schedule" in plan]
    assert len(of_schedules) >= 8
    assert [plan for plan in plans if plan.startswith("SCAN") and "json_each" not in plan] == []
    assert [plan for plan in of_schedules if plan.endswith("(app=?)")] == []
    assert [plan for plan in plans if "TEMP B-TREE" in plan] == []


@pytest.mark.parametrize("script", [FIRST, f"{FIRST}{SECOND}"])
async def test_schedules_of_an_older_file_are_handed_out(path: Path, outside: Outside, script: str) -> None:
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    for _ in db.execute(script):
        pass
    db.execute("INSERT INTO wf_meta VALUES ('schema', ?)", (1 + (script != FIRST),))
    for name, paused, due in (("a", 0, 50), ("b", 1, 50), ("c", 0, None), ("d", 0, 40)):
        row = "INSERT INTO wf_schedule (app, name, fingerprint, definition, enabled, from_code, paused, next_due_ms)"
        definition = f'{{"name":"{name}","timing":{{"kind":"manual"}},"fingerprint":"f","job":{_JOB}}}'.encode()
        db.execute(f"{row} VALUES ('shop', ?, 'f', ?, 1, 0, ?, ?)", (name, definition, paused, due))
    db.close()
    store = await SqliteStore.open(path, app="shop", clock=SystemClock(), create=False)
    handed = await store.schedules.claim_due(DueRequest(10, 0, 60_000))
    assert [record.name for record in handed.records] == ["d", "a"]
    assert outside("SELECT value FROM wf_meta WHERE key = 'schema'") == VERSION
    await store.close()


_JOB = '{"id":"","queue":"q","name":"work"}'


async def test_an_older_program_beside_this_one_ends_a_hold_by_firing(sqlite: SqliteStore, outside: Outside) -> None:
    await sqlite.schedules.merge([schedule("a", next_due_ms=5)])
    await sqlite.schedules.claim_due(DueRequest(10, 0, 900_000))
    # What version 2 does of a fire: it knows no hold.
    outside("UPDATE wf_schedule SET next_due_ms = 10 WHERE name = 'a'")
    handed = await sqlite.schedules.claim_due(DueRequest(10, 0, 900_000))
    assert [record.next_due_ms for record in handed.records] == [10]
