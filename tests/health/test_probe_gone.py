"""`workfleet probe` of a fleet whose supervisor has ended without a word: it fails at once, not after 15 s."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from tests.health.probed import status, write
from workfleet.app.presence import why_gone
from workfleet.app.status import Status, SupervisorFacts
from workfleet.cli import probe
from workfleet.supervision.identity import identity_of, is_alive
from workfleet.supervision.seen import boot

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is killed."""
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as running:
        yield running
        running.kill()


def named(pid: int) -> Status:
    """A document of a second ago by that process."""
    identity = identity_of(pid)
    assert identity is not None
    facts = SupervisorFacts(identity.pid, identity.started, identity.boot_id)
    now = probe._monotonic_ms()
    return status(host=identity.host, supervisor=facts, written_mono_ms=now - 1_000)


def ask(project: Path, check: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = probe.main([check, "--status-file", str(project / ".workfleet" / "shop.status.json")])
    return code, capsys.readouterr().out.strip()


@pytest.mark.parametrize("check", ["live", "ready", "startup"])
def test_killed(
    check: str, tmp_path: Path, process: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, named(process.pid))
    assert ask(tmp_path, check, capsys) == (0, f"{check}: ok")
    process.send_signal(signal.SIGKILL)
    gone = (1, f"{check}: the supervisor (process {process.pid}) is gone without a word")
    # As a zombie that nobody has waited for, and then as a pid that nobody has.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert ask(tmp_path, check, capsys) == gone
    process.wait()
    assert ask(tmp_path, check, capsys) == gone


def test_another_process_has_its_pid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = named(os.getpid())
    write(tmp_path, structs.replace(there, supervisor=structs.replace(there.supervisor, started="1")))
    assert ask(tmp_path, "live", capsys)[0] == 1


def test_what_cannot_be_seen_is_not_judged(process: subprocess.Popen[bytes]) -> None:
    there = named(process.pid)
    process.kill()
    process.wait()
    facts, here = there.supervisor, boot()
    unseen = [
        structs.replace(there, host="another"),
        structs.replace(there, supervisor=structs.replace(facts, boot_id=f"{here}/1")),
        structs.replace(there, supervisor=structs.replace(facts, boot_id="another")),
    ]
    assert [why_gone(_plain(document), here) for document in unseen] == ["", "", ""]
    assert why_gone(_plain(there), "") == ""
    assert why_gone(_plain(there) | {"supervisor": "?"}, here) == ""
    assert why_gone(_plain(there), here) != ""


def test_who_has_stopped_says_so_himself(
    tmp_path: Path, process: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    there = structs.replace(named(process.pid), state="stopped", reason="drained")
    process.kill()
    process.wait()
    write(tmp_path, there)
    assert ask(tmp_path, "live", capsys) == (1, "live: the fleet has stopped: drained")
    assert ask(tmp_path, "startup", capsys) == (0, "startup: ok")


def test_it_agrees_with_the_rest_of_the_product(process: subprocess.Popen[bytes]) -> None:
    mine, identity = named(process.pid), identity_of(process.pid)
    assert identity is not None
    assert (mine.host, mine.supervisor.boot_id.partition("/")[0]) == (socket.gethostname(), boot())
    assert (is_alive(identity), why_gone(_plain(mine), boot())) == (True, "")
    process.kill()
    process.wait()
    assert (is_alive(identity), bool(why_gone(_plain(mine), boot()))) == (False, True)


def _plain(document: Status) -> dict[str, object]:
    plain: dict[str, object] = json.loads(msgspec.json.encode(document))
    return plain
