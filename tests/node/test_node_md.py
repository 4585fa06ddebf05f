"""docs/node.md is true: its programs of Node and of Python work together, as they are written. So do the README's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fleet.running import STARTED, start
from tests.node.node import NodeRoom
from tests.stores.redis.servers import Server

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "node.md").read_text("utf-8")
README = (ROOT / "README.md").read_text("utf-8")
FILES = {
    name: block
    for block, name in re.findall(r"^```\w+\n((?://|#) (\w+\.\w+)\n.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)
}


@pytest.fixture
def folder(tmp_path: Path, packages: Path, server: Server) -> Path:
    """The document's files, for this server and with Node's packages."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("redis://localhost:6379/0", server.url), "utf-8")
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    return tmp_path


def said(folder: Path, server: Server, *command: str) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_"))}
    environ |= {"WORKER_STORE": server.url, "WORKER_QUEUE_PREFIX": "bull"}
    ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.full
async def test_what_it_shows(folder: Path, server: Server, node: NodeRoom) -> None:
    assert set(FILES) == {"add.mjs", "app.py", "thumb.py", "thumbs.mjs"}
    said(folder, server, "node", "add.mjs")
    running = start(folder, "--until-idle", program=folder / "app.py", store=server.url, queue_prefix="bull")
    STARTED.remove(running)
    assert running.wait() == 0, running.log()
    queue = await node.queue("photos")
    assert (await queue.job("1"))["returnvalue"] == "developed cat.jpg"

    worker = subprocess.Popen(["node", "thumbs.mjs"], cwd=folder)
    try:
        assert said(folder, server, sys.executable, "thumb.py") == "thumb of cat.jpg\n"
    finally:
        worker.kill()
        worker.wait()


@pytest.mark.full
async def test_what_the_readme_shows(folder: Path, server: Server, node: NodeRoom) -> None:
    program, script = (
        re.findall(rf"^```{kind}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)[0] for kind in ("python", "js")
    )
    assert "new Queue('emails')" in script
    here = f"new Queue('emails', {{ connection: {{ url: '{server.url}' }} }})"
    (folder / "readme.py").write_text(program, "utf-8")
    (folder / "readme.mjs").write_text(script.replace("new Queue('emails')", here), "utf-8")
    said(folder, server, "node", "readme.mjs")
    running = start(folder, "--until-idle", program=folder / "readme.py", store=server.url, queue_prefix="bull")
    STARTED.remove(running)
    assert running.wait() == 0, running.log()
    queue = await node.queue("emails")
    assert (await queue.job("1"))["returnvalue"] == "sent to 7"
