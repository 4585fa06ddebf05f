"""Relays in processes of their own: killed at every step, and several on one table."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.outbox.database import APP, Database
from tests.outbox.rig import COUNT
from workfleet.clock import SystemClock
from workfleet.ports.jobs import JobQuery
from workfleet.stores.open import open_store

ROOT = Path(__file__).parents[2]


class Relaying:
    """A relay's process."""

    def __init__(self, database: Database, folder: Path, *, batch: int = 500, dies: str = "") -> None:
        command = [
            sys.executable,
            "-m",
            "tests.outbox.relaying",
            database.url,
            f"sqlite:///{folder / 'store.db'}",
            str(batch),
        ]
        self.process = subprocess.Popen(
            command + ([dies] if dies else []), cwd=ROOT, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
        )

    def serving(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "serving\n"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        said: dict[str, Any] = json.loads(self.process.communicate(timeout=30)[0])
        return said


def wait_until_empty(database: Database, patience_s: float = 60) -> None:
    deadline = time.monotonic() + patience_s
    while database.rows("SELECT 1 FROM workfleet_outbox LIMIT 1"):
        assert time.monotonic() < deadline, "the outbox is not empty"
        time.sleep(0.02)


async def stored_ids(folder: Path) -> list[str]:
    store = await open_store(f"sqlite:///{folder / 'store.db'}", app=APP, clock=SystemClock(), create=True)
    try:
        return [job.id for job in await store.jobs.find(JobQuery(limit=100_000))]
    finally:
        await store.close()


@pytest.mark.parametrize("dies", ["before-enqueue", "after-enqueue", "in-finish", "after-finish"])
async def test_killed_at_a_step_every_row_becomes_one_job(dies: str, database: Database, tmp_path: Path) -> None:
    ids = database.add([COUNT(number) for number in range(30)])
    dying = Relaying(database, tmp_path, batch=10, dies=dies)
    dying.process.communicate(timeout=30)
    assert dying.process.returncode == -signal.SIGKILL
    left, there = len(database.rows()), len(await stored_ids(tmp_path))
    assert (left, there) == {
        "before-enqueue": (30, 0), "after-enqueue": (30, 10), "in-finish": (30, 10), "after-finish": (20, 10),
    }[dies]  # fmt: skip
    other = Relaying(database, tmp_path, batch=10)
    other.serving()
    wait_until_empty(database)
    said = other.stop()
    # The repeated batch is the same call, so what it answers is what the dead one should have heard.
    assert said == {"moved": left, "created": left, "ordered": True}
    assert sorted(await stored_ids(tmp_path)) == sorted(ids)


async def test_killed_again_and_again_while_rows_arrive(database: Database, tmp_path: Path) -> None:
    draw = random.Random(7)
    ids: list[str] = []
    relays = [Relaying(database, tmp_path, batch=20) for _ in range(2)]
    for relay in relays:
        relay.serving()
    for kill in range(5):
        for _ in range(10):
            ids += database.add([COUNT(len(ids) + number) for number in range(20)])
        time.sleep(draw.uniform(0, 0.1))
        relays[kill % 2].kill()
        relays[kill % 2] = Relaying(database, tmp_path, batch=20)
        relays[kill % 2].serving()
    wait_until_empty(database)
    for relay in relays:
        assert relay.stop()["ordered"] is True
    found = await stored_ids(tmp_path)
    assert len(found) == len(ids) == 1000
    assert set(found) == set(ids)


@pytest.mark.full
async def test_two_relays_move_ten_thousand_rows_each_once(database: Database, tmp_path: Path) -> None:
    relays = [Relaying(database, tmp_path) for _ in range(2)]
    for relay in relays:
        relay.serving()
    started = time.monotonic()
    ids = database.add([COUNT(number) for number in range(10_000)])
    added = time.monotonic()
    wait_until_empty(database)
    ended = time.monotonic()
    said = [relay.stop() for relay in relays]
    print(f"\n{type(database).__name__}: written in {added - started:.2f} s, moved in {ended - added:.2f} s, {said}")
    assert sum(one["moved"] for one in said) == 10_000
    assert sum(one["created"] for one in said) == 10_000
    assert all(one["ordered"] for one in said)
    found = await stored_ids(tmp_path)
    assert len(found) == 10_000
    assert set(found) == set(ids)
