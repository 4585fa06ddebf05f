"""docs/outbox.md is one project: it is written to a folder and run as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "outbox.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```$", DOCUMENT, flags=re.DOTALL | re.MULTILINE)

WRITE = """
import asyncio, sys
import django
from django.conf import settings
from sqlalchemy.ext.asyncio import create_async_engine

path = sys.argv[1]
settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}})
django.setup()
import api, signup, views

async def invite():
    engine = create_async_engine(f"sqlite+aiosqlite:///{path}")
    ids = await api.invite(engine, [3, 4])
    await engine.dispose()
    return ids

print(signup.signup(path, 1), views.register(2), *asyncio.run(invite()))
"""


def run(folder: Path, *command: str) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_", "DB_"))}
    environ |= {"WORKER_OUTBOX__DATABASE": f"sqlite:///{folder / 'shop.db'}", "WORKER_HEARTBEAT_ENABLED": "false"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.full
def test_the_project_writes_and_works_it_off(tmp_path: Path) -> None:
    assert [name for name, _ in BLOCKS] == ["shop", "signup", "views", "api", "test_signup"]
    for name, text in BLOCKS:
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / ".git").mkdir()
    ini = "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\nfilterwarnings = error\n"
    (tmp_path / "pytest.ini").write_text(ini)
    assert "1 passed" in run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_signup.py")
    delayed, *ids = run(tmp_path, "-c", WRITE, str(tmp_path / "shop.db")).split()
    run(tmp_path, "-m", "workfleet", "run", "shop.py", "--until-idle")
    shown = run(tmp_path, "-m", "workfleet", "jobs", "show", ids[-1], "--app", "shop.py")
    assert "completed" in shown
    assert "sent to 4" in shown
    assert "delayed" in run(tmp_path, "-m", "workfleet", "jobs", "show", delayed, "--app", "shop.py")
