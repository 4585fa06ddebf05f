"""Scenarios of durable schedules with real processes, for any store: a folder, its code, its runs and its commands."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.cli.conftest import Project, Ran
from tests.fleet.running import Running, start, until

PROGRAM = Path(__file__).with_name("scheduled_program.py")
SELDOM = "1d"
"""A poll that no test waits for: only the pulse, every 10 s at the latest, and notifications bring news."""


@dataclass
class Site:
    """A folder with the application in it, and the store that its processes share."""

    folder: Path
    store: str

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        # A copy, because commands import it in the test's own process, once for each folder.
        shutil.copy(PROGRAM, self.folder / "program.py")

    def define(self, **code: dict[str, Any]) -> None:
        """What the code defines, from the next start on."""
        (self.folder / "code.json").write_text(json.dumps(code))

    def run(self, *options: str, log: str = "", **settings: str) -> Running:
        """Start a fleet; `log` is a folder of its own for what it writes."""
        folder = self.folder / log
        folder.mkdir(exist_ok=True)
        for name in ("code.json", "notes"):
            (self.folder / name).touch()
            if log and not (folder / name).exists():
                (folder / name).symlink_to(self.folder / name)
        settings = {"store": self.store, "heartbeat_enabled": "false", "poll": "1s", **settings}
        return start(folder, *options, program=self.folder / "program.py", **settings)

    def ready(self, run: Running, workers: int = 1, before: int = 0) -> None:
        """Wait until so many workers are ready, beside those of earlier runs in its log."""
        until(lambda: run.log().count("ready, listening to") >= workers + before, "the workers are ready")

    def restart(self, run: Running, **settings: str) -> Running:
        """Let it end, and start anew."""
        stop(run)
        before = run.log().count("ready, listening to")
        again = self.run(**settings)
        self.ready(again, before=before)
        return again

    def command(self, *arguments: str) -> Ran:
        """A command, as an operator gives it."""
        ran = self.try_command(*arguments)
        assert ran.code == 0, ran.err
        return ran

    def try_command(self, *arguments: str) -> Ran:
        """A command, which may fail."""
        environ = {
            "WORKER_STORE": self.store,
            "WORKER_APP": str(self.folder / "program.py"),
            "TEST_FOLDER": str(self.folder),
        }
        return Project(self.folder, environ)("schedules", *arguments)

    def add_soon(self, name: str) -> None:
        """Add a one-shot that is due as soon as this machine is fast enough for."""
        for ahead_s in (1, 2, 4, 8):
            at = datetime.now(UTC) + timedelta(seconds=ahead_s)
            ran = self.try_command("add", name, "ping", f'"{name}"', "--at", at.isoformat())
            if ran.code == 0:
                return
            assert "its time has passed" in ran.err
        raise AssertionError("no command takes less than 8 s")

    def listed(self) -> dict[str, dict[str, Any]]:
        """What `schedules ls --json` says, by name."""
        return {each["name"]: each for each in self.command("ls", "--json").documents}

    def notes(self) -> list[dict[str, Any]]:
        """What the runs noted, in order."""
        return [json.loads(line) for line in (self.folder / "notes").read_text().splitlines()]

    def count(self, what: str) -> int:
        return Counter(note["what"] for note in self.notes())[what]

    def more(self, what: str, times: int = 1) -> None:
        """Wait until it has happened so many more times."""
        now = self.count(what)
        until(lambda: self.count(what) >= now + times, f"{what} happens {times} more times")


def stop(run: Running) -> None:
    run.process.terminate()
    assert run.wait() == 0, run.log()


def merged_at_start(site: Site) -> None:
    """New, changed, unchanged, gone and back again; what was added and paused at run time is kept through restarts."""
    far: dict[str, Any] = {"every": "30d"}
    site.define(kept=far, paused=far, changed={"every": "1s"}, gone={"every": "1s"})
    run = site.run()
    site.ready(run)
    site.command("pause", "paused")
    site.command("add", "extra", "ping", '"hello"', "--every", "30d", "--offset", "1h")
    until(lambda: all(site.listed()[name]["fired"] > 0 for name in ("changed", "gone")), "both have fired")
    stop(run)
    before = site.listed()

    site.define(kept=far, paused=far, changed={"every": "30d", "offset": "2h"}, new=far)
    run = site.run()
    site.ready(run, before=1)
    after = site.listed()
    assert set(after) == {"kept", "paused", "changed", "gone", "new", "extra"}
    for name in ("kept", "paused", "extra"):
        assert after[name] == before[name], name
    assert (before["paused"]["paused"], before["extra"]["from_code"]) == (True, False)
    assert after["changed"]["next_due"] == (
        datetime.fromisoformat(after["new"]["next_due"]) + timedelta(hours=2)
    ).isoformat().replace("+00:00", "Z")  # fmt: skip
    assert after["changed"]["fired"] == before["changed"]["fired"]
    assert (after["gone"]["orphaned"], after["gone"]["next_due"]) == (True, None)
    assert after["gone"]["fired"] == before["gone"]["fired"]
    assert [row.split()[0] for row in site.command("ls").out.splitlines() if "orphaned" in row] == ["gone"]

    site.command("resume", "paused")
    site.command("remove", "extra", "--yes")
    site.define(kept=far, paused=far, gone={"every": "1s"})
    stop(run)
    run = site.run()
    site.ready(run, before=2)
    back = site.listed()
    assert set(back) == {"kept", "paused", "changed", "gone", "new"}
    assert [name for name, each in back.items() if each["orphaned"]] == ["changed", "new"]
    assert (back["paused"]["paused"], back["kept"]["next_due"]) == (False, before["kept"]["next_due"])
    until(lambda: site.listed()["gone"]["fired"] > before["gone"]["fired"], "what came back fires again")
    stop(run)


def steered_at_run_time(site: Site) -> None:
    """Added, changed, paused, resumed and removed while two fleets run: each process sees it."""
    site.define(beat={"every": "1s"})
    runs = [site.run("--log-level", "debug", log=name, poll=SELDOM) for name in ("one", "two")]
    for run in runs:
        site.ready(run)
    assert site.command("add", "tick", "ping", '"tick"', "--every", "1s", "--overlap", "allow").out.startswith(
        "tick is"
    )
    for run in runs:
        until(lambda run=run: "schedule tick fired" in run.log(), "each process fires it")  # type: ignore[misc]

    site.command("add", "tick", "ping", '"tock"', "--every", "1s", "--overlap", "allow", "--replace")
    site.more("tock", 2)
    at_rest(site, "tick")
    site.command("pause", "tick")
    at_rest(site, "tock")
    site.command("resume", "tick")
    site.more("tock", 2)
    site.command("remove", "tick", "--yes")
    at_rest(site, "tock")
    assert set(site.listed()) == {"beat"}
    for run in runs:
        stop(run)


def at_rest(site: Site, what: str) -> None:
    """It happens no more, while slots of the other schedule pass. One may have been under way."""
    site.more("end beat", 2)
    before = site.count(what)
    site.more("end beat", 3)
    assert site.count(what) == before


def seen_at_once(site: Site) -> None:
    """A notification wakes whoever sleeps until the next slot, which is days away; the pulse comes every 10 s only."""
    site.define(far={"every": "30d"})
    run = site.run(poll=SELDOM)
    site.ready(run)
    for name in ("first", "second", "third"):
        site.add_soon(name)
        until(lambda name=name: site.count(name) == 1, "it runs")  # type: ignore[misc]
    # What only a pulse brings is late by up to its interval; one of three in a row comes soon after a pulse.
    late_ms = [note["at_ms"] - note["slot_ms"] for note in site.notes() if not note["what"].endswith("far")]
    assert len(late_ms) == 3
    assert max(late_ms) < 5_000, late_ms
    stop(run)


def on_start(site: Site) -> None:
    """Once per process, and once per release in the fleet."""
    site.define(
        process={"run_on_start": "process", "overlap": "allow"},
        release={"run_on_start": "release"},
        both={"run_on_start": True, "overlap": "allow", "every": "30d"},
    )
    for release, processes, expected in (("1", 2, (2, 1)), ("1", 1, (3, 1)), ("2", 2, (5, 2)), ("1", 1, (6, 2))):
        run = site.run("--until-idle", "--processes", str(processes), release=release)
        assert run.wait() == 0, run.log()
        assert (site.count("end process"), site.count("end release")) == expected, (release, processes)
        assert site.count("end both") == site.count("end process")


def at_most(site: Site, **settings: str) -> Counter[int]:
    """Work six runs off with two processes, all asked for at once. Returns the most at once of each process; 0 is the
    fleet's."""
    names = [f"s{number}" for number in range(6)]
    site.define(**{name: {"run_on_start": "release"} for name in names})
    run = site.run("--until-idle", "--processes", "2", release="1", **settings)
    assert run.wait() == 0, run.log()
    assert sorted(note["what"] for note in site.notes()) == sorted(
        f"{what} {name}" for what in ("begin", "end") for name in names
    )
    now, most = Counter[int](), Counter[int]()
    for note in site.notes():
        for pid in (0, note["pid"]):
            now[pid] += 1 if note["what"].startswith("begin") else -1
            most[pid] = max(most[pid], now[pid])
    return most
