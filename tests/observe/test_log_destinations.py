"""Destinations of the settings: levels, formats, files that processes share, and what fails there."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.capture import CaptureFixture

from workfleet.errors import ConfigError, UsageError
from workfleet.events import LogFailed, LogRecovered, WorkerReady
from workfleet.observe.logs.options import Destination
from workfleet.observe.logs.rendering import LogLine
from workfleet.observe.logs.subscriber import LogSubscriber

from .logging_of import Seconds, documents, logging_of, messages

SHOP = logging.getLogger("shop")


def test_each_destination_has_its_own_level_and_format(tmp_path: Path, capfd: CaptureFixture[str]) -> None:
    audit, all_of_it = tmp_path / "audit.jsonl", tmp_path / "all.log"
    there = {
        "stderr": Destination(),
        "stdout": Destination(to="stdout", level="error", format="console"),
        "audit": Destination(to=audit, level="warning"),
        "all": Destination(to=str(all_of_it), level="debug", format="console"),
    }
    with logging_of(destinations=there, levels={"loud": "debug", "silent": "error"}) as stderr:
        for name in ("shop", "loud", "silent"):
            for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
                logging.getLogger(name).log(level, "%s %d", name, level)
    loud = [f"loud {level}" for level in (10, 20, 30, 40)]
    assert messages(stderr.getvalue()) == ["shop 20", "shop 30", "shop 40", *loud, "silent 40"]
    assert messages(audit) == ["shop 30", "shop 40", "loud 30", "loud 40", "silent 40"]
    assert [line[22:].split("  ")[0] for line in all_of_it.read_text().splitlines()] == [
        "shop 10", "shop 20", "shop 30", "shop 40", *loud, "silent 40",
    ]  # fmt: skip
    assert [line[22:].split("  ")[0] for line in capfd.readouterr().out.splitlines()] == [
        "shop 40", "loud 40", "silent 40",
    ]  # fmt: skip


def test_secrets_come_out_nowhere(tmp_path: Path) -> None:
    there = {"a": Destination(to=tmp_path / "a"), "b": Destination(to=tmp_path / "b", format="console")}
    with logging_of(destinations=there, redact_keys=("iban",)):
        SHOP.info("redis://:hunter2@host", extra={"deep": [{"token": "hunter2", "iban": "DE1"}]})
        try:
            raise ValueError("postgres://u:hunter2@h/db")
        except ValueError:
            SHOP.exception("failed")
    for name in "ab":
        text = (tmp_path / name).read_text()
        assert "hunter2" not in text
        assert "DE1" not in text
        assert text.count("***") == 5


def test_a_file_that_was_moved_or_deleted_is_opened_anew(tmp_path: Path) -> None:
    file, old = tmp_path / "a.log", tmp_path / "a.log.1"
    file.write_text('{"message": "there before"}\n')
    with logging_of(destinations={"a": Destination(to=file)}):
        SHOP.info("one")
        file.rename(old)
        SHOP.info("two")
        SHOP.info("three")
        file.unlink()
        SHOP.info("four")
    assert messages(old) == ["there before", "one"]
    assert messages(file) == ["four"]


WRITER = """
import logging, sys
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging
options = LogOptions(destinations={"a": Destination(to=sys.argv[1])})
configure_logging(options, user_code=False)
print("ready", flush=True)
sys.stdin.readline()
for number in range(300):
    logging.getLogger("w").info("%s %d %s", sys.argv[2], number, sys.argv[2] * (number % 7 * 3000))
"""


def test_lines_of_processes_that_share_a_file_are_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(file), name], stdin=-1, stdout=-1, text=True)
        for name in "abcd"
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.close()
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.close()
    found = [message.split(" ", 2) for message in messages(file)]
    for name in "abcd":
        assert [(int(number), said) for who, number, said in found if who == name] == [
            (number, name * (number % 7 * 3000)) for number in range(300)
        ]


def test_a_full_disk_is_told_once_elsewhere_and_over_when_there_is_room(tmp_path: Path) -> None:
    link, file = tmp_path / "a.log", tmp_path / "real"
    link.symlink_to("/dev/full")
    there = {"stderr": Destination(), "audit": Destination(to=link), "other": Destination(to=tmp_path / "other")}
    with logging_of(destinations=there) as stderr:
        for number in range(3):
            SHOP.info("lost %d", number)
        link.unlink()
        link.symlink_to(file)
        SHOP.info("kept")
    failed = "log destination audit fails, and has lost 1 lines: No space left on device"
    recovered = "log destination audit works again: 3 lines were lost"
    assert messages(stderr.getvalue()) == ["lost 0", failed, "lost 1", "lost 2", "kept", recovered]
    assert sorted(messages(tmp_path / "other")) == sorted(messages(stderr.getvalue()))
    assert messages(file) == ["kept", recovered]
    facts = {line["event"]: line for line in documents(stderr.getvalue()) if "event" in line}
    assert (facts[LogFailed.wire_name]["destination"], facts[LogFailed.wire_name]["level"]) == ("audit", "error")
    assert facts[LogRecovered.wire_name]["lost"] == 3


def test_a_destination_that_comes_and_goes_is_told_of_once_a_minute(tmp_path: Path) -> None:
    folder, clock = tmp_path / "there", Seconds()
    folder.mkdir()
    there = {"stderr": Destination(), "a": Destination(to=folder / "a.log")}

    def fail_and_recover() -> None:
        (folder / "a.log").unlink()
        folder.rmdir()
        SHOP.info("lost")
        folder.mkdir()
        SHOP.info("kept")

    with logging_of(destinations=there, monotonic=clock) as stderr:
        for wait in (0, 1, 58, 1):
            clock.now += wait
            fail_and_recover()
    said = [line for line in documents(stderr.getvalue()) if "event" in line]
    assert [(line["event"], line["lost"]) for line in said] == [
        ("log.failed", 1),
        ("log.recovered", 1),
        ("log.failed", 3),
        ("log.recovered", 3),
    ]


def test_where_everything_fails_standard_error_is_told(tmp_path: Path, capfd: CaptureFixture[str]) -> None:
    with logging_of(destinations={"a": Destination(to="/dev/full")}):
        SHOP.info("lost")
    (line,) = documents(capfd.readouterr().err)
    assert line["message"] == "log destination a fails, and has lost 1 lines: No space left on device"


BROKEN_PIPE = """
import logging, os, sys
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging
configure_logging(LogOptions(destinations={"stderr": Destination(), "a": Destination(to=sys.argv[1])}))
reading, writing = os.pipe()
os.dup2(writing, 2)
os.close(writing)
os.close(reading)
for number in range(3):
    logging.getLogger("shop").info("line %d", number)
"""


def test_a_standard_error_that_nobody_reads_any_more_harms_nobody(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    assert subprocess.run([sys.executable, "-c", BROKEN_PIPE, str(file)], check=False).returncode == 0
    failed = "log destination stderr fails, and has lost 1 lines: Broken pipe"
    assert sorted(messages(file)) == sorted([failed, "line 0", "line 1", "line 2"])


def test_a_line_that_was_cut_off_does_not_swallow_the_next_one(tmp_path: Path) -> None:
    program = """
import logging, resource, sys
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging
configure_logging(LogOptions(destinations={"a": Destination(to=sys.argv[1])}))
logging.getLogger("shop").info("one")
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, resource.RLIM_INFINITY))
logging.getLogger("shop").info("x" * 5_000)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
logging.getLogger("shop").info("two")
"""
    file = tmp_path / "a.log"
    done = subprocess.run([sys.executable, "-c", program, str(file)], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, cut, *others = file.read_text().splitlines()
    assert json.loads(first)["message"] == "one"
    assert len(first) + len(cut) + 1 == 1_000
    assert [json.loads(line)["message"] for line in others] == [
        "two",
        "log destination a works again: 1 lines were lost",
    ]


@pytest.mark.parametrize(("to", "why"), [("missing/a.log", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_opened_is_a_wrong_configuration(
    to: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = logging.getLogger().handlers[:]
    with pytest.raises(ConfigError) as caught, logging_of(destinations={"audit": Destination(to=to)}):
        pass
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("log.destinations.audit.to", to)
    assert problem.message == f"cannot be written to: {why}"
    assert logging.getLogger().handlers == before


def test_senseless_options_of_destinations_are_refused() -> None:
    with (
        pytest.raises(UsageError, match="'loud' is no log level"),
        logging_of(destinations={"a": Destination(level="loud")}),
    ):
        pass
    with (
        pytest.raises(UsageError, match="'xml' is no log format"),
        logging_of(destinations={"a": Destination(format="xml")}),  # type: ignore[arg-type]
    ):
        pass


def test_a_line_that_cannot_be_put_together_is_told_as_it_was_given() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    with logging_of() as stderr:
        SHOP.info("%d of %d", 1)
        SHOP.info("%d", Broken())
    first, second = messages(stderr.getvalue())
    assert first == "'%d of %d' with (1,) (no such line can be made: TypeError)"
    assert second.startswith("'%d' with <tuple: RuntimeError in __repr__> (no such line")


def test_closing_gives_back_what_was_there(tmp_path: Path) -> None:
    open_before = len(os.listdir("/proc/self/fd"))
    with logging_of(destinations={"a": Destination(to=tmp_path / "a")}):
        assert len(os.listdir("/proc/self/fd")) == open_before + 1
    assert len(os.listdir("/proc/self/fd")) == open_before


def test_what_is_kept_with_jobs_costs_no_line_of_the_product() -> None:
    kept: list[LogLine] = []
    with logging_of(keep=kept.append, level="critical", keep_from="debug") as stderr:
        assert not logging.getLogger("workfleet.job").isEnabledFor(logging.ERROR)
        SHOP.debug("said")
        LogSubscriber().route(WorkerReady)(WorkerReady(worker="w", queues="q"))
    assert stderr.getvalue() == ""
    assert [line.message for line in kept] == ["said"]
