"""`workfleet probe` and `status` beside a real fleet: before, while and after it runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.fleet.running import PROGRAM, start, until


def probe(folder: Path, which: str) -> int:
    command = [sys.executable, "-m", "workfleet", "probe", which]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=30, check=False).returncode


def test_probes_tell_whether_the_fleet_lives_and_works(tmp_path: Path) -> None:
    (tmp_path / "workfleet.yaml").touch()
    assert [probe(tmp_path, which) for which in ("live", "ready", "startup")] == [1, 1, 1]
    run = start(tmp_path)
    until(lambda: probe(tmp_path, "ready") == 0, "the fleet is ready")
    assert [probe(tmp_path, which) for which in ("live", "ready", "startup")] == [0, 0, 0]

    status = subprocess.run(
        [sys.executable, "-m", "workfleet", "status", str(PROGRAM)],
        cwd=tmp_path,
        env={"TEST_FOLDER": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert status.returncode == 0, status.stderr
    assert "killed" in status.stdout

    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0
    assert [probe(tmp_path, which) for which in ("live", "ready")] == [1, 1]
