"""A fleet in which something is ill: the health report and `probe` name it, and liveness does not fall for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.running import Running, start, until
from tests.stores.redis.servers import Server
from workfleet.app.status import fallback_status_files

PROGRAM = Path(__file__).parent / "health_program.py"
USUAL = {"health__interval": "200ms", "health__store_interval": "1s", "heartbeat_enabled": "false"}


class Shop:
    """A run of the program, and what the commands say of it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "workfleet.yaml").touch()
        self.folder, self._monkeypatch = folder, monkeypatch
        self.run: Running | None = None
        self.said_to_all: dict[str, str] = {}
        """Variables that the commands have as well."""
        self.store(f"sqlite:///{folder / 'store.db'}")

    def store(self, url: str, cache: str | None = None) -> None:
        self._monkeypatch.setenv("TEST_STORE", url)
        if cache is not None:
            self._monkeypatch.setenv("TEST_CACHE", cache)

    def start(self, **settings: str) -> None:
        # The loop of a busy machine is late at its start: it is told of where it is what a test is about.
        settings = {"health__event_loop": "false", **USUAL, **settings}
        self.run = start(self.folder, program=PROGRAM, **settings)
        until(lambda: self.probe("ready")["ok"], "the fleet is ready")
        assert self.probe("ready")["reason"] == ""

    def ask(self, *command: str) -> subprocess.CompletedProcess[str]:
        environ = {key: value for key, value in os.environ.items() if not key.startswith(("WORKER_", "REDIS_", "DB_"))}
        return subprocess.run(
            [sys.executable, "-m", "workfleet", *command],
            cwd=self.folder, env=environ | self.said_to_all,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def probe(self, which: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.ask("probe", which, "--json", "-v").stdout)
        return document

    def is_alive(self) -> bool:
        return bool(self.probe("live")["ok"])

    def ill(self) -> dict[str, str]:
        """What the health report of the only worker says is ill, and how."""
        (worker,) = self.probe("ready")["workers"]
        reports = worker["details"].get("health", {}).get("indicators", [])
        return {each["name"]: each["status"] for each in reports if each["status"] != "healthy"}

    def enqueue(self, name: str, payload: str = "null") -> None:
        done = self.ask("enqueue", "work", name, payload, "--app", str(PROGRAM))
        assert done.returncode == 0, done.stderr

    def said(self) -> str:
        """What `probe ready` says in words."""
        return self.ask("probe", "ready").stdout.strip()


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("r"), "--appendonly", "yes")
    made.start()
    yield made
    made.stop()


@pytest.mark.full
@pytest.mark.timeout(240)
def test_the_stores_redis_stops(shop: Shop, server: Server) -> None:
    shop.store(server.url)
    shop.start(poll="1s")
    assert shop.said() == "ready: ok"
    server.stop()
    until(lambda: "store" in shop.ill(), "the report names the store")
    assert shop.ill() == {"store": "unhealthy"}
    assert shop.said().startswith("ready: ok, but worker 0: store unhealthy (")
    until(lambda: not shop.probe("ready")["ok"], "half a minute without the store is too long")
    assert shop.said().startswith("ready: worker 0: store not reached for 3")
    assert shop.is_alive()
    server.start()
    until(lambda: shop.said() == "ready: ok", "the fleet is ready again by itself")
    assert shop.is_alive()


@pytest.mark.full
@pytest.mark.timeout(240)
def test_a_redis_of_the_application_stops(shop: Shop, server: Server) -> None:
    shop.store(f"sqlite:///{shop.folder / 'store.db'}", cache=server.url)
    shop.start()
    server.stop()
    until(lambda: not shop.probe("ready")["ok"], "the worker is not ready")
    assert shop.said().startswith("ready: worker 0: redis: client cache")
    assert shop.ill() == {"redis": "unhealthy"}
    assert shop.is_alive()
    status = shop.ask("status", str(PROGRAM)).stdout
    assert "redis: client cache" in status
    (row,) = [line for line in status.splitlines() if line.startswith("redis ")]
    assert row.split()[:4] == ["redis", "0", "unhealthy", "yes"]
    doctor = shop.ask("doctor", str(PROGRAM))
    assert (doctor.returncode, "PROBLEM  health: worker 0 says: redis is unhealthy: client cache" in doctor.stdout) == (
        1, True,
    )  # fmt: skip
    server.start()
    until(lambda: shop.said() == "ready: ok", "the worker is ready again")


@pytest.mark.full
@pytest.mark.timeout(240)
def test_a_handler_blocks_the_loop(shop: Shop) -> None:
    shop.start(health__event_loop="true", health__thresholds__event_loop_unhealthy="5s")
    shop.enqueue("block", "38")
    until(lambda: "blocked" in shop.said(), "the probe names the loop")
    assert shop.said().startswith("ready: ok, but worker 0: event-loop blocked: nothing is heard of it for ")
    until(lambda: not shop.probe("ready")["ok"], "half a minute is too long")
    assert shop.said().startswith("ready: worker 0: event-loop blocked: nothing is heard of it for ")
    assert shop.is_alive()
    until(lambda: shop.probe("ready")["ok"] and "event-loop" in shop.ill(), "it goes on, and says that it was late")
    assert shop.ill()["event-loop"] == "unhealthy"
    assert "event-loop unhealthy (the event loop is " in shop.said()
    assert shop.is_alive()


@pytest.mark.timeout(240)
def test_the_children_of_a_pool_keep_dying(shop: Shop) -> None:
    fast = {"initial": "10ms", "max": "20ms"}
    settings = {f"pools__doomed__restart_policy__backoff__{name}": value for name, value in fast.items()}
    shop.start(pools__doomed__restart_policy__max_restarts="0", pools__doomed__restart_policy__delay="10ms", **settings)
    for _ in range(4):
        shop.enqueue("die")
    until(lambda: not shop.probe("ready")["ok"], "the worker is not ready")
    until(lambda: shop.ill() == {"pools": "unhealthy"}, "the report names the pools")
    assert shop.said().startswith("ready: worker 0: pool doomed has failed: ")
    assert shop.said().count("doomed") == 1
    assert shop.is_alive()


@pytest.mark.full
@pytest.mark.timeout(240)
def test_a_schedule_does_not_fire(shop: Shop) -> None:
    thresholds = {
        "health__thresholds__schedules_degraded": "2s",
        "health__thresholds__schedules_unhealthy": "4s",
    }
    shop.start(scheduler_enabled="false", **thresholds)
    until(lambda: shop.ill() == {"schedules": "unhealthy"}, "the report names the schedules")
    assert shop.said().startswith("ready: ok, but worker 0: schedules unhealthy (report is overdue by ")
    assert shop.is_alive()
    assert shop.run is not None
    shop.run.process.terminate()
    assert shop.run.wait() == 0
    shop.start(health__critical='["schedules"]', **thresholds)
    assert shop.ill() == {}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system can only be mounted by root")
    yield folder
    for fallback in fallback_status_files(folder / "status.json"):
        fallback.unlink(missing_ok=True)
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("temporary", ["elsewhere", "on it"])
def test_a_disk_is_full(shop: Shop, small: Path, monkeypatch: pytest.MonkeyPatch, temporary: str) -> None:
    monkeypatch.setenv("TMPDIR", str(small if temporary == "on it" else shop.folder))
    status = small / "status.json"
    shop.said_to_all = {"WORKER_STATUS_FILE": str(status)}
    shop.start(status_file=str(status), health__critical='["disk"]')
    with pytest.raises(OSError, match="No space left"):
        (small / "much").write_bytes(bytes(4_000_000))
    until(lambda: not shop.probe("ready")["ok"], "the worker is not ready")
    assert shop.said() == f"ready: worker 0: disk: 100% of the disk of {small} is used, 0 MiB are free"
    assert shop.ill() == {"disk": "unhealthy"}
    live = shop.probe("live")
    assert (live["ok"], live["age_ms"] < 5_000, live["status_file"] == str(status)) == (True, True, False)
    assert sorted(path.name for path in small.rglob("*") if path.is_file()) == ["much", "status.json"]
    (small / "much").unlink()
    until(lambda: shop.said() == "ready: ok", "the worker is ready again")
