"""Schedules that outlive their processes, with real processes on one SQLite file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import scheduled
from tests.fleet.running import until
from tests.fleet.scheduled import Site, stop
from workfleet.stores.sqlite.bell import folder_for


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TEST_TAKES_S", "0")
    return Site(tmp_path, f"sqlite://{tmp_path}/store.db")


@pytest.mark.full
def test_what_code_defines_is_merged_at_start(site: Site) -> None:
    scheduled.merged_at_start(site)


@pytest.mark.full
def test_every_process_sees_what_is_changed_at_run_time(site: Site) -> None:
    scheduled.steered_at_run_time(site)


def test_a_change_is_seen_at_once(site: Site) -> None:
    scheduled.seen_at_once(site)


@pytest.mark.full
def test_a_change_whose_notification_is_lost_is_seen_within_a_poll(site: Site) -> None:
    site.define(far={"every": "30d"})
    run = site.run(poll="1s")
    site.ready(run)
    bells = folder_for(site.folder / "store.db")
    until(lambda: list(bells.glob("*.sock")), "the worker listens")
    for bell in bells.glob("*.sock"):
        bell.unlink()
    site.command("add", "tick", "ping", '"tick"', "--every", "1s")
    until(lambda: site.count("tick") >= 2, "the new schedule fires")
    stop(run)


@pytest.mark.full
def test_runs_at_start_are_once_per_process_or_per_release(site: Site) -> None:
    scheduled.on_start(site)


@pytest.mark.full
def test_the_fleet_runs_no_more_at_once_than_it_may(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TAKES_S", "0.2")
    assert scheduled.at_most(site, scheduler__fleet_max_concurrent="1")[0] == 1


@pytest.mark.full
def test_a_process_runs_no_more_at_once_than_it_may(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TAKES_S", "0.2")
    most = scheduled.at_most(site, scheduler__max_concurrent="1")
    assert [most[pid] for pid in most if pid] in ([1], [1, 1])
