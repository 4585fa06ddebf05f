"""Which process is which, and whether it lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

from tests.supervision.fakes import until
from workfleet.supervision.identity import boot_id, identity_of, is_alive, own_identity


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def test_a_process_is_alive_until_it_is_killed_even_before_it_is_waited_for(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    assert is_alive(identity)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # a zombie now
    assert not is_alive(identity)
    assert identity_of(child.pid) is None
    child.wait()
    assert not is_alive(identity)


def test_another_process_with_the_same_pid_is_another_process(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    assert not is_alive(msgspec.structs.replace(identity, started="1"))


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"boot_id": "another boot"}])
def test_what_cannot_be_seen_from_here_counts_as_alive(changed: dict[str, str]) -> None:
    gone = msgspec.structs.replace(own_identity(), pid=2**22 + 1)
    assert not is_alive(gone)
    assert is_alive(msgspec.structs.replace(gone, **changed))


def test_a_command_with_parentheses_and_spaces_is_read_right() -> None:
    code = "import ctypes, sys, time; ctypes.CDLL(None).prctl(15, b') R 1 (x'); print(flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    before = identity_of(process.pid)
    process.stdout.readline()
    assert identity_of(process.pid) == before
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="a pid namespace needs root")
def test_a_container_on_the_same_host_is_told_apart() -> None:
    """Same host name, same boot, but its pids mean nothing here."""
    code = "from workfleet.supervision.identity import boot_id; print(boot_id())"
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        pytest.skip(ran.stderr)
    assert ran.stdout.strip() != boot_id()
    assert ran.stdout.split("/")[0] == boot_id().split("/")[0]


async def test_a_stopped_process_is_alive(child: subprocess.Popen[bytes]) -> None:
    identity = identity_of(child.pid)
    assert identity is not None
    child.send_signal(signal.SIGSTOP)
    await until(lambda: os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT))
    assert is_alive(identity)
