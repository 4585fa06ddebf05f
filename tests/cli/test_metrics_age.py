"""`metrics query` says so when what it shows ends earlier than it should."""

from __future__ import annotations

import asyncio

import pytest

from workfleet.clock import SystemClock
from workfleet.model.fleet import WorkerRecord
from workfleet.ports.stores import Store
from workfleet.settings.store import default_store
from workfleet.stores.open import open_store
from workfleet.supervision.identity import own_identity
from workfleet.testing.clock import TestClock

from .conftest import Project, Ran, make_project, wait_for

THREADS = "workfleet_process_threads"
SOON = {"WORKER_METRICS__FLUSH_INTERVAL": "100ms", "WORKER_METRICS__COLLECTION__INTERVAL": "100ms"}
"""So that what has ended a moment ago is old."""
WARNING = "though 1 worker lives: what is shown ends there. The event metrics.unavailable in the log"


async def stays(project: Project) -> None:
    """A worker that has lived for half a minute."""
    clock = TestClock(SystemClock().now_ms() - 30_000)
    store = await open_store(default_store(project.folder, "shop"), app="shop", clock=clock, create=True)
    await store.fleet.register(WorkerRecord(id="here", identity=own_identity()))
    await store.close()


async def goes(store: Store) -> None:
    await store.fleet.forget("here")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose workers have ended, but for one that was there before and has written nothing."""
    project = make_project(tmp_path_factory.mktemp("ended"))
    project.make_store("shop")
    assert project("enqueue", "greetings", "greet", '{"name": "Ada"}').code == 0
    ran = project("run", "--until-idle")
    assert ran.code == 0, ran.err
    asyncio.run(stays(project))
    return project


def test_nothing_written_for_two_intervals_while_a_worker_lives_is_told(ended: Project) -> None:
    def asked() -> Ran:
        return ended("metrics", "query", THREADS, "--json", **SOON)

    told = wait_for(lambda: ran if (ran := asked()).err else None, "the newest row is two intervals old")
    assert (told.code, told.err.count("\n"), WARNING in told.err) == (0, 1, True), told.err
    assert told.err.startswith("nothing was written for ")
    assert told.documents, "what there is is shown all the same"
    assert ended("metrics", "query", THREADS, WORKER_METRICS__FLUSH_INTERVAL="1h").err == "", "new enough"
    past = ended("metrics", "query", THREADS, "--until", "2999-01-01T00:00Z", **SOON)
    assert past.err == "", "whoever says when it ends expects nothing newer"
    off = ended("metrics", "query", THREADS, WORKER_METRICS__COLLECTION__ENABLED="false", **SOON)
    assert off.err == "", "nothing is measured"


def test_what_the_store_says_may_stay_what_it_is_for_minutes(ended: Project) -> None:
    asked = ("metrics", "query", THREADS)
    every_second = {
        **SOON,
        "WORKER_METRICS__COLLECTION__INTERVAL": "1s",
        "WORKER_METRICS__COLLECTION__STORE_INTERVAL": "1s",
    }
    wait_for(lambda: ended(*asked, **every_second).err, "the newest row is two seconds old")
    only_store = {f"WORKER_METRICS__COLLECTION__{name}": "false" for name in ("PROCESS", "SYSTEM")}
    assert ended(*asked, **every_second, **only_store).err == "", "gauges are written when they change"


def test_where_no_worker_lives_old_figures_are_all_there_can_be(ended: Project) -> None:
    ended.in_store(goes)
    assert ended("metrics", "query", THREADS, **SOON).err == ""
