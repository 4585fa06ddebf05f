"""Schedules that outlive their processes, with real processes on a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import scheduled
from tests.fleet.scheduled import Site
from tests.stores.redis.servers import Server


@pytest.fixture
def site(own_server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    own_server.start()
    monkeypatch.setenv("TEST_TAKES_S", "0")
    return Site(tmp_path, own_server.url)


@pytest.mark.full
def test_what_code_defines_is_merged_at_start(site: Site) -> None:
    scheduled.merged_at_start(site)


@pytest.mark.full
def test_every_process_sees_what_is_changed_at_run_time(site: Site) -> None:
    scheduled.steered_at_run_time(site)


@pytest.mark.full
def test_a_change_is_seen_at_once(site: Site) -> None:
    scheduled.seen_at_once(site)


@pytest.mark.full
def test_runs_at_start_are_once_per_process_or_per_release(site: Site) -> None:
    scheduled.on_start(site)


@pytest.mark.full
def test_the_fleet_runs_no_more_at_once_than_it_may(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TAKES_S", "0.2")
    assert scheduled.at_most(site, scheduler__fleet_max_concurrent="1")[0] == 1
