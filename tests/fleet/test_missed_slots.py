"""What real processes make of an hour in which they were stopped, and of runs that overlap, on one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fleet.running import until
from tests.fleet.scheduled import Site, stop

MINUTE = 60_000


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("TEST_TAKES_S", "0")
    return Site(tmp_path, f"sqlite://{tmp_path}/store.db")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stopped_since(site: Site, first_ms: int) -> None:
    """As if nothing had fired since that slot: nobody has the file open now."""
    with closing(sqlite3.connect(site.folder / "store.db")) as db, db:
        db.execute("UPDATE wf_schedule SET next_due_ms = ?, fired = 0, missed_count = 0, account = NULL", [first_ms])


@pytest.mark.full
def test_an_hour_by_each_policy(site: Site) -> None:
    code = {"once": "once", "skip": "skip", "ten": "catch_up(10)", "all": "catch_up(100)"}
    site.define(**{name: {"every": "1m", "missed": missed} for name, missed in code.items()})
    run = site.run()
    site.ready(run)
    stop(run)
    # The start must not meet a full minute: that slot would be on time, and one more.
    until(lambda: _now_ms() % MINUTE < MINUTE // 2, "the first half of a minute")
    last = _now_ms() // MINUTE * MINUTE
    first = last - 59 * MINUTE
    _stopped_since(site, first)
    (site.folder / "notes").write_text("")
    run = site.run()
    site.ready(run, before=1)
    until(lambda: site.count("end all") >= 60, "all slots of an hour have run")
    stop(run)
    slots = {
        name: [note["slot_ms"] for note in site.notes() if note["what"] == f"begin {name}" and note["slot_ms"] <= last]
        for name in code
    }
    listed = site.listed()
    assert slots["all"] == list(range(first, last + 1, MINUTE))
    assert slots["ten"] == list(range(last - 9 * MINUTE, last + 1, MINUTE))
    # How late the last one is depends on the start: "skip" runs it within a minute of its time.
    assert slots["once"] == slots["skip"] == [last]
    assert {name: listed[name]["missed"] for name in code} == {"once": 59, "skip": 59, "ten": 50, "all": 0}
    assert {name: listed[name]["skipped"] for name in code} == dict.fromkeys(code, 0)
    # One by one: none begins before the one before it has ended.
    whats = [note["what"] for note in site.notes() if note["what"].endswith(" all")]
    assert whats == ["begin all", "end all"] * (len(whats) // 2)


def test_a_run_that_is_cancelled_ends_before_the_next_one_begins(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run takes a minute, and each second the newest slot has the one that runs cancelled."""
    monkeypatch.setenv("TEST_TAKES_S", "60")
    site.define(often={"every": "1s", "overlap": "cancel_running"})
    run = site.run()
    site.ready(run)
    until(lambda: site.count("begin often") >= 3, "the third run begins")
    run.process.kill()
    run.wait()
    assert site.count("end often") == 0
    runs = """
        SELECT j.started_ms, j.finished_ms, r.outcome FROM wf_job j LEFT JOIN wf_run r ON r.seq = j.seq
        WHERE j.unique_key = 'schedule often' AND j.started_ms IS NOT NULL ORDER BY j.started_ms
    """
    with closing(sqlite3.connect(site.folder / "store.db")) as db:
        found = db.execute(runs).fetchall()
    assert len(found) >= 3
    assert {outcome for _, _, outcome in found[:-1]} == {"cancelled"}
    assert all(before[1] <= after[0] for before, after in pairwise(found))


@pytest.mark.full
def test_one_waits_for_the_end_of_the_one_that_runs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TAKES_S", "2.5")
    site.define(often={"every": "1s", "overlap": "queue_one"})
    run = site.run()
    site.ready(run)
    until(lambda: site.count("end often") >= 3, "three runs have ended")
    stop(run)
    whats = [note["what"] for note in site.notes()]
    assert whats[:6] == ["begin often", "end often"] * 3
    listed = site.listed()["often"]
    assert listed["coalesced"] >= 2
    assert listed["missed"] == listed["skipped"] == 0
