"""`workfleet probe`: what passes, what does not and why, and what it costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.health.probed import NOW_MONO_MS, Ask, status, worker, write
from workfleet.app.status import (
    Status,
    SupervisorFacts,
    default_status_file,
)

ELSEWHERE = "the status file is from before this machine was started, or of another one (h)"
BLOCKED = "event-loop blocked: nothing is heard of it for"
OLD = "the status file is 15.0 s old: the supervisor makes no progress"


def health(*said: tuple[str, str, str]) -> dict[str, Any]:
    """What a worker tells of its health, as far as the probe looks at it."""
    return {"health": {"indicators": [{"name": name, "status": how, "reason": why} for name, how, why in said]}}


@pytest.mark.parametrize(
    ("document", "live", "ready", "startup"),
    [
        (status(), "ok", "ok", "ok"),
        (status(written_mono_ms=NOW_MONO_MS - 14_999), "ok", "ok", "ok"),
        (status(written_mono_ms=NOW_MONO_MS - 15_000), OLD, OLD, OLD),
        (status(written_mono_ms=NOW_MONO_MS + 1), ELSEWHERE, ELSEWHERE, ELSEWHERE),
        (status(supervisor=SupervisorFacts(1, "1", "other/1")), ELSEWHERE, ELSEWHERE, ELSEWHERE),
        (status(supervisor=SupervisorFacts(1, "1", "b/of another container")), "ok", "ok", "ok"),
        (
            status(state="starting", ever_ready=False),
            "ok",
            "the fleet is starting",
            "the fleet is not ready yet (starting)",
        ),
        (status(state="draining"), "ok", "the fleet is draining", "ok"),
        (status(state="stopped", reason="drained"), *["the fleet has stopped: drained"] * 2, "ok"),
        # Why it stopped is told as long as nobody starts another one, and in one line.
        (
            status(state="stopped", reason="2 problems:\n  - a\n  - b", written_mono_ms=NOW_MONO_MS - 900_000),
            *["the fleet has stopped: 2 problems: - a - b"] * 3,
        ),
        (
            status(worker(), worker(index=1, pid=8, state="stuck")),
            *["worker 1 (process 8) is stuck and could not be replaced"] * 2,
            "ok",
        ),
        (status(worker(state="waiting"), worker(index=1)), "ok", "ok", "ok"),
        (status(worker(state="waiting", pid=None)), "ok", "worker 0: waiting", "ok"),
        (status(worker(store_ok_age_ms=28_999)), "ok", "ok", "ok"),
        (
            status(worker(store_ok_age_ms=29_000, store_error="refused")),
            "ok",
            "worker 0: store not reached for 30 s: refused",
            "ok",
        ),
        (
            status(worker(store_ok_age_ms=None), worker(index=1, unready=("pool images has failed", "full"))),
            "ok",
            "worker 0: store not reached yet: no error told; worker 1: pool images has failed, full",
            "ok",
        ),
        (status(worker(unready=("x",)), worker(index=1)), "ok", "ok", "ok"),
        (status(worker(beat_age_ms=3_999)), "ok", "ok", "ok"),
        (status(worker(beat_age_ms=4_000)), "ok", f"ok, but worker 0: {BLOCKED} 5 s", "ok"),
        (status(worker(beat_age_ms=29_000, unready=("old",))), "ok", f"worker 0: {BLOCKED} 30 s", "ok"),
        (status(worker(beat_age_ms=20_000, store_ok_age_ms=29_000)), "ok", f"worker 0: {BLOCKED} 21 s", "ok"),
        (status(worker(beat_age_ms=29_000), worker(index=1)), "ok", f"ok, but worker 0: {BLOCKED} 30 s", "ok"),
        (
            status(worker(details=health(("disk", "degraded", "half full"), ("fine", "healthy", ""))), worker(index=1)),
            "ok",
            "ok, but worker 0: disk degraded (half full)",
            "ok",
        ),
        (status(worker(instruction="quiet")), "ok", "ok, but worker 0: it was told to quiet", "ok"),
        (
            status(worker(unready=("gate: shut",), details=health(("disk", "degraded", "")))),
            "ok",
            "worker 0: gate: shut",
            "ok",
        ),
        (
            status(worker(details=health(*((f"i{n}", "unhealthy", "") for n in range(7))))),
            "ok",
            "ok, but " + "; ".join(f"worker 0: i{n} unhealthy" for n in range(5)) + "; and 2 more",
            "ok",
        ),
        (status(worker(state="draining", details=health(("disk", "degraded", ""))), worker(index=1)), "ok", "ok", "ok"),
        (status(worker(details={"health": {"indicators": "?"}})), "ok", "ok", "ok"),
        (status(version=2), *["the status file is of a newer version (2): update the probe"] * 3),
    ],
)
def test_judgements(place: Path, ask: Ask, document: Status, live: str, ready: str, startup: str) -> None:
    write(place, document)
    for check, expected in (("live", live), ("ready", ready), ("startup", startup)):
        passes = expected == "ok" or expected.startswith("ok, but ")
        assert ask(check) == (0 if passes else 1, f"{check}: {expected}")


def test_no_workers_are_live_and_not_ready(place: Path, ask: Ask) -> None:
    write(place, msgspec.structs.replace(status(), workers=[]))
    assert ask("live") == (0, "live: ok")
    assert ask("ready") == (1, "ready: there is no worker")


def test_the_age_is_an_option(place: Path, ask: Ask) -> None:
    write(place, status())
    assert ask("live", "--max-age", "1001ms") == (0, "live: ok")
    assert ask("live", "--max-age=1s")[0] == 1
    write(place, status(written_mono_ms=NOW_MONO_MS - 100_000))
    assert [ask("live", "--max-age", age)[0] for age in ("1.5m", "2m", "1h")] == [1, 0, 0]


# Where it looks


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "cannot be read (Expecting value"),
        (b"{", "cannot be read (Expecting property name"),
        (b"[1]", "cannot be read (no status file)"),
        (b"[" * 100_000, "cannot be read ("),
        (b"\xff\xfe", "cannot be read ("),
        (b'{"written_ms": 1}', "is not a status file (KeyError: 'version')"),
        (b'{"written_ms": 1, "version": "1"}', "is not a status file (ValueError: '1' is no integer)"),
        (
            b'{"written_ms": 1, "version": 1, "written_mono_ms": 9999000, "state": "ready", "workers": 3}',
            "is not a status file (ValueError: its workers are no list of objects)",
        ),
    ],
)
@pytest.mark.parametrize("form", [(), ("-v",), ("--json",), ("--json", "-v")])
def test_garbage_is_not_ok(place: Path, ask: Ask, content: bytes, reason: str, form: tuple[str, ...]) -> None:
    path = default_status_file(place, "shop")
    path.write_bytes(content)
    code, said = ask("live", *form)
    told = json.loads(said)["reason"] if "--json" in form else said
    assert code == 1
    assert f"{path} {reason}" in told


def test_a_file_that_may_not_be_read(place: Path, ask: Ask) -> None:
    path = default_status_file(place, "shop")
    path.mkdir()
    assert ask("live") == (1, f"live: {path} cannot be read ([Errno 21] Is a directory: '{path}')")


# What it says


def test_json(place: Path, ask: Ask) -> None:
    path = write(place, status(state="draining"))
    code, said = ask("ready", "--json")
    document = {
        "check": "ready",
        "ok": False,
        "reason": "the fleet is draining",
        "notes": [],
        "app": "shop",
        "state": "draining",
        "age_ms": 1000,
        "status_file": str(path),
    }
    assert (code, json.loads(said)) == (1, document)
    workers = json.loads(ask("ready", "--json", "-v")[1])["workers"]
    assert [each["id"] for each in workers] == ["w0"]
    write(place, status(worker(details=health(("disk", "degraded", "half full")))))
    shown = json.loads(ask("ready", "--json")[1])
    assert (shown["ok"], shown["notes"]) == (True, ["worker 0: disk degraded (half full)"])
    assert json.loads(ask("live", "--json")[1])["notes"] == []


def test_verbose(place: Path, ask: Ask) -> None:
    path = write(place, status())
    assert ask("live", "-v")[1].splitlines() == [
        "live: ok",
        f"  app shop, {path}, 1000 ms old",
        "  worker 0: ready, process 7, up 0.0 s, active 0, completed 0, failed 0, restarts 0",
        "    heard of not yet, store reached 1.0 s before, event loop late by 0 ms",
    ]
    ill = worker(
        pid=None, state="waiting", beat_age_ms=6_500, uptime_ms=61_000, active=2, instruction="quiet",
        running=("mail.send (7)",), unready=("gate: shut", "pool images\nhas failed"), store_error="store x: refused",
        last_exit="was killed by SIGKILL", details=health(("disk", "degraded", "half full")),
    )  # fmt: skip
    write(place, status(ill))
    assert ask("ready", "-v")[1].splitlines()[2:] == [
        "  worker 0: waiting, no process, up 61.0 s, active 2, completed 0, failed 0, restarts 0",
        "    heard of 6.5 s before, store reached 1.0 s before, event loop late by 0 ms",
        "    told to: quiet",
        "    runs: mail.send (7)",
        "    not ready: gate: shut",
        "    not ready: pool images has failed",
        "    store: store x: refused",
        "    before: was killed by SIGKILL",
        "    disk degraded (half full)",
    ]


def test_a_blocked_worker_says_what_it_runs(place: Path, ask: Ask) -> None:
    silent = worker(beat_age_ms=11_000, running=("mail.send (7)", "b (8)"))
    write(place, status(silent, worker(index=1)))
    said = "event-loop blocked: nothing is heard of it for 12 s, while it runs mail.send (7), b (8)"
    assert ask("ready") == (0, f"ready: ok, but worker 0: {said}")


def test_what_a_store_says_is_said_once_however_many_workers_say_it(place: Path, ask: Ask) -> None:
    error = "store redis://db:6379: refused. Is it up?"
    gone = [worker(index=index, store_ok_age_ms=40_000, store_error=error) for index in range(3)]
    write(place, status(*gone))
    assert ask("ready") == (
        1,
        f"ready: worker 0: store not reached for 41 s: {error}; worker 1: store not reached for 41 s; "
        "worker 2: store not reached for 41 s",
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say which check: live, ready or startup"),
        (["alive"], "'alive' is not understood. Try: workfleet probe --help"),
        (["live", "ready"], "'ready' is not understood. Try: workfleet probe --help"),
        (["live", "--app"], "--app needs a value"),
        (["live", "--wide"], "'--wide' is not understood. Try: workfleet probe --help"),
        (["live", "--max-age", "15"], "--max-age: '15' is no duration such as 15s, 500ms or 2m"),
        (["live", "--max-age=-1s"], "--max-age: '-1s' is no duration such as 15s, 500ms or 2m"),
    ],
)
def test_wrong_usage(ask: Ask, arguments: list[str], said: str) -> None:
    assert ask(*arguments) == (2, f"workfleet probe: {said}")


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_file_is_not_waited_for(kind: str, tmp_path: Path, ask: Ask) -> None:
    path = tmp_path / "status.json"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path = Path("/dev/zero")
    code, said = ask("live", "--status-file", str(path))
    assert code == 1
    assert said.startswith(f"live: {path} cannot be read (")


def test_help(ask: Ask) -> None:
    code, said = ask("--help")
    assert code == 0
    assert said.startswith("Usage: workfleet probe live|ready|startup")
