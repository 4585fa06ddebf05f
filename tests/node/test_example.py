"""examples/node: its script hands a photo to the Python worker of examples/media, which develops it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.fleet import running
from tests.fleet.running import Running
from tests.node.install import NoNode, node_modules
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="session")
def folder() -> Path:
    """The example, with its packages."""
    try:
        installed = node_modules(EXAMPLES / "node")
    except NoNode as reason:
        pytest.skip(f"without Node's packages: {reason}")
    shutil.copy(EXAMPLES / "node" / "enqueue.mjs", installed)
    return installed


@pytest.fixture
def worker(tmp_path: Path, server: Server) -> Iterator[Running]:
    photos = {"PHOTOS__INBOX": str(tmp_path / "inbox"), "PHOTOS__DATA": str(tmp_path / "data")}
    program = EXAMPLES / "media" / "app.py"
    started = running.start(tmp_path, program=program, store=server.url, queue_prefix="bull", **photos)
    running.STARTED.remove(started)
    running.until((tmp_path / "inbox").exists, "the inbox")
    yield started
    started.end()


async def test_the_script_hands_a_photo_to_the_python_worker(
    folder: Path, worker: Running, server: Server, tmp_path: Path
) -> None:
    Image.new("RGB", (30, 20), "red").save(tmp_path / "red.png")
    environ = {**os.environ, "REDIS_URL": server.url, "INBOX": str(tmp_path / "inbox")}
    command = ["node", "enqueue.mjs", str(tmp_path / "red.png")]
    said = await asyncio.to_thread(
        subprocess.run, command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr + worker.log()
    assert said.stdout.startswith("red.png is on its way:")
    store = await RedisStore.open(server.url, app="media", clock=SystemClock(), prefix="bull")
    try:
        async with asyncio.timeout(60):
            done = []
            while not done:
                done = await store.jobs.find(JobQuery(queue="photos", name="photo", states=(JobState.COMPLETED,)))
                await asyncio.sleep(0.05)
        assert [record.result for record in done] == ['"30 × 20, #ff0000"'.encode()]
    finally:
        await store.close()
    assert len(list((tmp_path / "data" / "thumbs").glob("*.jpg"))) == 3


def test_the_script_is_ten_lines() -> None:
    lines = (EXAMPLES / "node" / "enqueue.mjs").read_text().splitlines()
    assert len([line for line in lines if line and not line.startswith("//")]) <= 11
