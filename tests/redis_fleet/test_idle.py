"""What an idle fleet of one worker sends to the server: at most 30 commands a minute with one queue."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fleet.running import start, until
from tests.stores.redis.servers import Server
from workfleet.stores.redis import scripts
from workfleet.stores.redis.scripts import Script

PROGRAM = """
from workfleet import App, Job

app = App("idle")


@app.handler("work", queue="work")
async def work(job: Job[int]) -> int:
    return job.data
"""
_LUA = Path(scripts.__file__).with_name("lua")
_SECONDS = 60
_WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')


def scripts_by_hash() -> dict[str, str]:
    return {Script.load(path.stem).sha: path.stem for path in _LUA.glob("*.lua")}


def sent(server: Server, seconds: float, names: dict[str, str]) -> Counter[str]:
    """The commands that clients send meanwhile; what scripts run is not among them."""
    heard = b""
    with socket.create_connection(("127.0.0.1", server.port)) as watching:
        watching.sendall(b"MONITOR\r\n")
        watching.settimeout(0.5)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                heard += watching.recv(65_536)
            except TimeoutError:
                continue
    lines = [line for line in heard.splitlines() if b" lua]" not in line and b'"' in line]
    words = [[word.decode() for word in _WORD.findall(line)[:2]] for line in lines]
    return Counter(names.get(first[-1], first[0]) for first in words)


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("heartbeat", [True, False], ids=["as-shipped", "no-heartbeat"])
def test_an_idle_worker_sends_few_commands(own_server: Server, tmp_path: Path, heartbeat: bool) -> None:
    own_server.start()
    names = scripts_by_hash()
    (tmp_path / "idle.py").write_text(PROGRAM)
    said = {} if heartbeat else {"heartbeat_enabled": "false"}
    running = start(tmp_path, program=tmp_path / "idle.py", store=own_server.url, **said)
    until(lambda: "listening to" in running.log(), "the worker is ready")
    time.sleep(15)  # what a start asks once is over: the supervisor opens its own store some seconds later
    found = sent(own_server, _SECONDS, names)
    # Everything that its clients send: the text of a script that runs for the first time, pops and pings, too.
    assert found.total() <= (30 if heartbeat else 20), dict(found)
    assert found["pulse"] in (5, 6, 7), dict(found)
    assert found["cycle"] <= (8 if heartbeat else 2), dict(found)
    assert found["enqueue"] in ((1, 2, 3) if heartbeat else (0,))
    assert found["BZPOPMIN"] >= 1
    running.process.terminate()
    assert running.wait() == 0
