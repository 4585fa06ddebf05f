"""Runs of schedules whose process is killed: what they were is in the run ledger, written by who recovers them."""

from __future__ import annotations

from pathlib import Path

from tests.fleet.running import Running, gone, kill, start
from tests.fleet.running import until as true
from tests.fleet.stored import stored, until
from workfleet.ids import new_id
from workfleet.model.ledger import LedgerRow
from workfleet.ports.stores import Store
from workfleet.schedules.due import run_of

PROGRAM = Path(__file__).parent / "ledger_program.py"


def run(folder: Path) -> Running:
    running = start(folder, program=PROGRAM)
    true(lambda: "ready" in running.log(), "the worker is ready")
    return running


async def trigger(store: Store, name: str) -> None:
    (record,) = [each for each in await store.schedules.all() if each.name == name]
    await store.jobs.enqueue([run_of(record, new_id(await store.now_ms()), None)])


async def rows(store: Store, name: str, count: int) -> list[LedgerRow]:
    """The rows of a schedule once there are so many, oldest first."""

    async def look() -> list[LedgerRow] | None:
        found = await store.ledger.history(name)
        return found[::-1] if len(found) >= count else None

    return await until(look, f"{count} rows of {name}")


async def test_a_run_that_ends_its_worker_has_its_row_from_the_supervisor(tmp_path: Path) -> None:
    running = run(tmp_path)
    async with stored(tmp_path, "ledger") as store:
        await trigger(store, "deadly")
        crashed, completed = await rows(store, "deadly", 2)
    assert (crashed.outcome, crashed.attempt) == ("crashed", 1)
    assert crashed.error is not None
    assert "SIGKILL" in crashed.error
    assert (completed.outcome, completed.error, completed.job_id) == ("completed", None, crashed.job_id)
    assert crashed.worker
    assert completed.worker != crashed.worker
    assert crashed.started_ms is not None
    assert completed.started_ms is not None
    assert crashed.started_ms <= crashed.at_ms <= completed.at_ms
    running.end()


async def test_a_run_of_a_fleet_that_is_killed_as_a_whole_has_its_row_from_the_next_start(tmp_path: Path) -> None:
    first = run(tmp_path)
    async with stored(tmp_path, "ledger") as store:
        await trigger(store, "short")
        (short,) = await rows(store, "short", 1)
        await trigger(store, "long")
        true((tmp_path / "begun").exists, "the run has begun")
        family = first.family()
        for process in family:
            kill(process)
        true(lambda: gone(family), "all of it is dead")
        assert await store.ledger.history("long") == []
        (tmp_path / "end").touch()
        second = run(tmp_path)
        crashed, completed = await rows(store, "long", 2)
        # What was told before the kill is still there.
        assert await store.ledger.history("short") == [short]
    assert (crashed.outcome, crashed.worker) == ("crashed", short.worker)
    assert crashed.error == f"the process of worker {short.worker} is gone"
    assert completed.outcome == "completed"
    second.end()


async def test_listeners_are_told_of_runs_whose_worker_died(tmp_path: Path) -> None:
    running = run(tmp_path)
    async with stored(tmp_path, "ledger") as store:
        await trigger(store, "fatal")
        runs = await rows(store, "fatal", 3)
    assert [row.outcome for row in runs] == ["crashed"] * 3
    heard = tmp_path / "heard"
    true(lambda: heard.exists() and len(heard.read_text().splitlines()) == 3, "the listener has heard of each end")
    assert heard.read_text().splitlines() == [*["retry of fatal: crashed"] * 2, "failure of fatal: crashed"]
    running.end()
