"""`workfleet bench`: it measures the store that is meant, touches nothing of the user's, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from workfleet.cli import measuring
from workfleet.cli.measuring import APP, Figures
from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.jobs import JobRecord
from workfleet.ports.clock import Clock
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store
from workfleet.settings.store import default_store, sqlite_url
from workfleet.stores.open import open_store

from .conftest import Project

T = TypeVar("T")


def within(project: Project, app: str, use: Callable[[Store], Coroutine[Any, Any, T]]) -> T:
    """Use the project's store as an application of that name."""

    async def run() -> T:
        url = default_store(project.folder, "shop")
        store = await open_store(url, app=app, clock=SystemClock(), create=False)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def jobs_of(store: Store) -> list[JobRecord]:
    return await store.jobs.find(JobQuery(limit=10_000))


@pytest.fixture
def shop(project: Project) -> Project:
    """A project with a store, and two jobs in it that nobody runs."""
    project.make_store("shop")
    for job_id in ("one", "two"):
        assert project("enqueue", "greetings", "greet", '{"name": "Ada"}', "--id", job_id).code == 0
    return project


def test_it_measures_the_project_s_store_and_touches_nothing(shop: Project) -> None:
    before, files = within(shop, "shop", jobs_of), sorted(os.listdir(shop.folder / ".workfleet"))
    ran = shop("bench", "--jobs", "1500", "--json")
    assert (ran.code, ran.err) == (0, "")
    (document,) = ran.documents
    assert (document["store"], document["jobs"]) == (default_store(shop.folder, "shop"), 1500)
    assert set(document) == {"store", "jobs", "enqueue_many", "enqueue", "work", "latency"}
    for name in ("enqueue_many", "enqueue", "work"):
        assert document[name]["jobs_per_s"] > 0
    for name in ("enqueue_many", "enqueue", "work", "latency"):
        assert 0 < document[name]["p50_ms"] <= document[name]["p99_ms"]
    assert within(shop, "shop", jobs_of) == before
    assert within(shop, APP, jobs_of) == []
    assert within(shop, APP, lambda store: store.locks.held()) == []
    assert sorted(os.listdir(shop.folder / ".workfleet")) == files


def test_the_table(shop: Project) -> None:
    ran = shop("bench", "--jobs", "100")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[:3] == [f"store  {default_store(shop.folder, 'shop')}", "jobs   100", ""]
    assert lines[3].split() == ["MEASURED", "JOBS/S", "P50", "P99", "WHAT", "IT", "IS"]
    assert [line.split()[0] for line in lines[4:]] == ["enqueue_many", "enqueue", "work", "latency"]


def test_what_a_killed_run_left_behind_is_deleted_before(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    enqueue = measuring._enqueue

    async def noted(store: Store, clock: Clock, jobs: int, batch: int) -> Figures:
        seen.append(len(await jobs_of(store)))
        return await enqueue(store, clock, jobs, batch)

    monkeypatch.setattr(measuring, "_enqueue", noted)

    async def leave(store: Store) -> None:
        await store.jobs.enqueue([JobRecord(id=f"left-{n}", queue="bench", name="noop") for n in range(3)])
        held = await store.jobs.claim(ClaimRequest("workfleet-bench", "token", 60_000, (Want("bench", 1),)))
        assert len(held) == 1

    within(shop, APP, leave)
    assert shop("bench", "--jobs", "100").code == 0
    assert seen == [0, 100], "the jobs of the killed run were measured"
    assert within(shop, APP, jobs_of) == []


def test_a_measurement_that_fails_leaves_nothing_behind(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(store: Store, *_rest: object) -> None:
        assert await store.jobs.claim(ClaimRequest("workfleet-bench", "token", 60_000, (Want("bench", 5),)))
        raise StoreUnavailable("of the test", "it has gone")

    monkeypatch.setattr(measuring, "_work", fail)
    ran = shop("bench", "--jobs", "100")
    assert (ran.code, ran.out, ran.err) == (3, "", "Error: store of the test: it has gone\n")
    assert within(shop, APP, jobs_of) == []
    assert within(shop, APP, lambda store: store.locks.held()) == []


def test_two_at_a_time_are_refused(shop: Project) -> None:
    within(shop, APP, lambda store: store.locks.acquire("bench", "somebody", 60_000))
    ran = shop("bench", "--jobs", "100")
    assert (ran.code, ran.out) == (2, "")
    assert "being measured by another `workfleet bench`" in ran.err


def test_a_file_that_does_not_exist_is_not_made(
    bare: Project, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / f"{'new' * 20}.db"  # so long that the store's sockets are in the temporary folder
    temporary = tmp_path_factory.mktemp("t")  # short: without sockets, whoever waits looks every 10 s only
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    ran = bare("bench", "--store", sqlite_url(path), "--jobs", "100")
    assert ran.code == 0
    assert ran.err == f"{path} does not exist yet: a file beside it is measured, and deleted after\n"
    assert ran.out.startswith(f"store  {sqlite_url(path)}\n")
    assert os.listdir(tmp_path / "data") == os.listdir(temporary) == []


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--store", "sqlite:///nowhere/at/all/x.db"), 3, "it does not exist yet, and neither does its folder"),
        (("--jobs", "99"), 2, "99 is not in the range"),
        ((), 2, "which application? Name it"),
        (("--store", "nosuch://x"), 78, "no store has that scheme"),
    ],
)
def test_what_cannot_be_measured_is_told_in_a_line(
    bare: Project, arguments: tuple[str, ...], code: int, told: str
) -> None:
    ran = bare("bench", *arguments)
    assert (ran.code, ran.out) == (code, "")
    assert told in ran.err
    assert "Traceback" not in ran.err


def test_the_memory_store_is_measured_too(bare: Project) -> None:
    ran = bare("bench", "--store", "memory://", "--jobs", "100", "--json")
    assert ran.code == 0
    assert ran.documents[0]["work"]["jobs_per_s"] > 0
