"""What listings make of schedules that are late, paused, or that this version cannot read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from workfleet.clock import SystemClock
from workfleet.model.handout import Hold
from workfleet.model.jobs import JobRecord
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import CronTiming, Every, Manual, Timing
from workfleet.ports.stores import Store
from workfleet.settings.store import default_store
from workfleet.stores.open import open_store

from .conftest import Project, make_project

HOUR_MS = 3_600_000


def record(name: str, timing: Timing, due_ms: int | None) -> ScheduleRecord:
    job = JobRecord(id="", queue="shop-schedules", name=name)
    return ScheduleRecord(name=name, timing=timing, fingerprint=name, job=job, from_code=False, next_due_ms=due_ms)


def in_store(folder: Path, use: Callable[[Store], Awaitable[None]]) -> None:
    async def main() -> None:
        store = await open_store(default_store(folder, "shop"), app="shop", clock=SystemClock(), create=True)
        try:
            await use(store)
        finally:
            await store.close()

    asyncio.run(main())


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A store with a late schedule, a late one that is paused, one that waits for the end of its run, one in an unknown
    language, one for the hand, and a punctual one."""
    project = make_project(tmp_path_factory.mktemp("odd"))

    async def fill(store: Store) -> None:
        now = await store.now_ms()
        # Slots that are whole hours from now, whatever the minute: two hours ago, one hour ago, now, in an hour.
        hourly = Every(HOUR_MS, offset_ms=now % HOUR_MS)
        for each in (
            record("late", hourly, now - 2 * HOUR_MS),
            record("paused", Every(HOUR_MS), now - 2 * HOUR_MS),
            record("behind", hourly, now - 2 * HOUR_MS),
            record("newer", CronTiming("at tea time"), now + HOUR_MS),
            record("by-hand", Manual(), None),
            record("punctual", Every(HOUR_MS), now + HOUR_MS // 2),
        ):
            assert await store.schedules.put(each, replace=False)
        assert await store.schedules.set_paused("paused", paused=True)
        await store.schedules.hold([Hold("behind", now - 2 * HOUR_MS, now + HOUR_MS)])

    in_store(project.folder, fill)
    return project


def test_status_tells_only_what_is_overdue(odd: Project) -> None:
    ran = odd("status")
    assert ran.code == 1
    assert "schedules  6, overdue: late by 2h\n" in ran.out
    (document,) = odd("status", "--json").documents
    assert document["schedules"] == 6
    ((only),) = document["overdue"]
    assert only["schedule"] == "late"
    assert 2 * HOUR_MS <= only["late_ms"] < 3 * HOUR_MS


def test_doctor_tells_only_what_is_overdue(odd: Project) -> None:
    (found,) = [each for each in odd("doctor", "--json").documents if each["check"] == "schedules"]
    assert (found["level"], found["said"]) == ("warning", "overdue: late by 2h")


def test_ls_shows_every_schedule_with_its_state(odd: Project) -> None:
    code, out, err = odd("schedules", "ls")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line for line in out.splitlines()[1:]}
    assert list(rows) == ["behind", "by-hand", "late", "newer", "paused", "punctual"]
    assert "cron at tea time (UTC)" in rows["newer"]
    assert "when triggered" in rows["by-hand"]
    states = [line.split("0  ")[-1].split()[0] for line in rows.values()]
    assert states == ["on", "on", "overdue", "on", "paused", "on"]
    assert rows["paused"].split()[3] == "0", "a paused schedule has no next fire"


def test_next_merges_what_it_can_read_and_tells_of_the_rest(odd: Project) -> None:
    code, out, err = odd("schedules", "next", "-n", "7")
    assert code == 0
    assert err.startswith("schedule newer: cron expression 'at tea time': ")
    assert [line.split()[-1] for line in out.splitlines()[1:]] == [*["behind", "late"] * 3, "punctual"]
