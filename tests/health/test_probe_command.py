"""`workfleet probe` as the command that a container runs, and what it costs."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workfleet.app.status import Status, SupervisorFacts, WorkerStatus, default_status_file, write_status
from workfleet.cli import probe
from workfleet.supervision.identity import boot_id


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The fresh status file of a ready fleet, in a project that is the current folder."""
    monkeypatch.delenv("WORKER_STATUS_FILE", raising=False)
    monkeypatch.chdir(tmp_path)
    path = default_status_file(tmp_path, "shop")
    path.parent.mkdir()
    document = Status(
        app="shop",
        host="h",
        supervisor=SupervisorFacts(1, "1", boot_id()),
        started_ms=1,
        written_ms=5,
        written_mono_ms=int(time.monotonic() * 1000),
        state="ready",
        ever_ready=True,
        workers=[WorkerStatus(index=0, id="w0", pid=7, state="ready", store_ok_age_ms=1_000)],
    )
    write_status(path, document)
    return path


def test_the_real_command_passes_and_fails(written: Path) -> None:
    command = [sys.executable, "-m", "workfleet", "probe", "ready"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "ready: ok\n", "")
    written.unlink()
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (1, "")
    ran = subprocess.run([*command, "x"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")


@pytest.mark.parametrize("content", ["", "{", '{"version": 1, "wri', "[1,]", "nul", '"\\n"', "\x00"])
def test_the_real_command_says_of_garbage_that_it_is_none_in_one_line(written: Path, content: str) -> None:
    """In a process that has not imported `json`, whose scanner then fails otherwise."""
    written.write_text(content)
    command = [sys.executable, "-m", "workfleet", "probe", "live"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr, ran.stdout.count("\n")) == (1, "", 1)
    assert ran.stdout.startswith(f"live: {written} cannot be read (")


def test_it_imports_nothing_that_costs(written: Path) -> None:
    program = """
import sys
before = set(sys.modules)
sys.argv = ["workfleet", "probe", "live"]
from workfleet.cli.entry import main
try:
    main()
except SystemExit:
    print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
    heavy = ("argparse", "asyncio", "json", "pathlib", "subprocess", "tempfile")
    print([name for name in heavy if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["live: ok", "workfleet", "[]"]


@pytest.mark.parametrize(
    "document",
    ['{"a":[1,2.5,null,true,"\\u00e9é"],"b":{"c":-1}}', ' {"a": 1} ', "[]", "3", '"x"', "1e3"],
)
def test_documents_are_read_as_json_reads_them(document: str) -> None:
    assert probe.decoded(document.encode()) == json.loads(document)


@pytest.mark.parametrize("document", ["", "{", "[1,]", '{"a":1}x', "'a'", '"\n"', "nul"])
def test_what_is_no_json_is_refused(document: str) -> None:
    with pytest.raises(ValueError, match="char"):
        probe.decoded(document.encode())


def test_it_costs_at_most_four_bare_interpreters(written: Path) -> None:
    probing = "import sys; sys.argv = ['workfleet', 'probe', 'ready']; from workfleet.cli.entry import main; main()"
    # The least of several, of processor time: other work on the machine only ever adds to it.
    bare = min(cpu_seconds([sys.executable, "-c", "pass"]) for _ in range(8))
    probed = min(cpu_seconds([sys.executable, "-c", probing]) for _ in range(8))
    assert probed < 4 * bare


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
