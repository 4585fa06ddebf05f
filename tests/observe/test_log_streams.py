"""Streams whose reader stands still: nobody waits for him, and he gets what there is room for when he goes on."""

from __future__ import annotations

import json
import logging
import os
import pty
import select
import socket
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from workfleet.observe.logs import streamed
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging

from .logging_of import documents, logging_of, messages

SHOP = logging.getLogger("shop")
LONG = "x" * 200
KINDS = ("pipe", "socket", "terminal", "blocking socket")


class Stream:
    """A stream and its reader."""

    def __init__(self, kind: str) -> None:
        self.reading, writing = self._pair(kind)
        self.writing: TextIO = os.fdopen(writing, "w")
        self._rest = b""

    @staticmethod
    def _pair(kind: str) -> tuple[int, int]:
        if kind == "pipe":
            return os.pipe()
        if kind == "terminal":
            ours, theirs = pty.openpty()
            tty.setraw(theirs)
            return ours, theirs
        one, other = socket.socketpair()
        one.setblocking(True)
        other.setblocking(True)
        return one.detach(), other.detach()

    def line(self) -> str:
        """The next one that has been written, within half a minute."""
        while b"\n" not in self._rest:
            assert select.select([self.reading], [], [], 30)[0], "waited in vain for a line"
            read = os.read(self.reading, 65_536)
            assert read, "it has ended"
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def said(self) -> str:
        return str(json.loads(self.line())["message"])

    def close(self) -> None:
        self.writing.close()
        os.close(self.reading)


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> Iterator[Stream]:
    kind = getattr(request, "param", "pipe")
    made = Stream(kind)
    if kind == "blocking socket":
        socket.setdefaulttimeout(60)
    yield made
    socket.setdefaulttimeout(None)
    made.close()


@contextmanager
def logging_to(stream: Stream, other: Path | None = None, close_s: float = 30.0) -> Iterator[None]:
    there = {"stderr": Destination()} | ({} if other is None else {"other": Destination(to=other)})
    options = LogOptions(format="json", destinations=there)
    setup = configure_logging(options, stream=stream.writing, user_code=False)
    try:
        yield
    finally:
        setup.close(close_s)


@pytest.mark.parametrize("stream", KINDS[:3], indirect=True)
def test_a_line_is_with_the_reader_when_it_has_been_said(stream: Stream) -> None:
    """What a process has said that dies at once is not lost."""
    os.set_blocking(stream.reading, False)
    with logging_to(stream):
        for number in range(3):
            SHOP.info("line %d", number)
            assert json.loads(os.read(stream.reading, 65_536))["message"] == f"line {number}"
    assert os.get_blocking(stream.writing.fileno()), "other processes share that flag"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stream", KINDS, indirect=True)
def test_nobody_waits_for_a_reader_and_he_gets_all_in_order(stream: Stream) -> None:
    lines = [f"line {number} {LONG}" for number in range(4_000)]
    with logging_to(stream):
        for line in lines:
            SHOP.info(line)
        assert [stream.said() for _ in lines] == lines
        SHOP.info("and on")
        assert stream.said() == "and on"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stream", KINDS, indirect=True)
def test_what_there_is_no_room_for_is_dropped_and_counted_where_it_is_missing(
    stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, many = tmp_path / "other", 2_000
    monkeypatch.setattr(streamed, "MOST_BYTES", 1_000_000)
    with logging_to(stream, other):
        for number in range(many):
            SHOP.info("%d %s", number, LONG * 5)
        waiting = [line for line in documents(other) if "event" in line]
        read = 0
        while (line := stream.said()).startswith(f"{read} "):
            read += 1
    assert [(line["event"], line["waiting"]) for line in waiting] == [("log.dropped", waiting[0]["waiting"])]
    assert 800 < waiting[0]["waiting"] <= read < many
    # The line that tells that they are dropped is one of them.
    assert line == f"log destination stderr works again: {many - read + 1} lines were lost"
    assert messages(other)[-1] == line


@pytest.mark.timeout(60)
def test_ctrl_s_stops_a_terminal_and_nobody_else() -> None:
    stream = Stream("terminal")
    with logging_to(stream):
        termios.tcflow(stream.writing.fileno(), termios.TCOOFF)
        for number in range(3):
            SHOP.info("line %d", number)
        assert not select.select([stream.reading], [], [], 0)[0]
        termios.tcflow(stream.writing.fileno(), termios.TCOON)
        assert [stream.said() for _ in range(3)] == ["line 0", "line 1", "line 2"]
    stream.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("stream", ["pipe", "blocking socket"], indirect=True)
def test_at_the_end_a_reader_has_only_so_much_time(stream: Stream, tmp_path: Path) -> None:
    other, many = tmp_path / "other", 3_000
    with logging_to(stream, other, close_s=0.2):
        for number in range(many):
            SHOP.info("%d %s", number, LONG)
    assert select.select([stream.reading], [], [], 0)[0]
    (told,) = [line for line in documents(other) if "event" in line]
    assert told["message"].startswith("log destination stderr fails, and has lost ")
    assert told["message"].endswith("its reader had not taken them 0.1 s after the end")
    read = 0
    while select.select([stream.reading], [], [], 0.5)[0]:
        read += os.read(stream.reading, 65_536).count(b"\n")
    # Of a line that is cut off, or that a thread that cannot be stopped still writes, nobody knows whether it is read.
    assert read in (many - told["lost"], many - told["lost"] + 1)


@pytest.mark.timeout(60)
def test_a_reader_that_goes_away_while_lines_wait_is_told_once(tmp_path: Path) -> None:
    stream, other = Stream("pipe"), tmp_path / "other"
    with logging_to(stream, other):
        for number in range(2_000):
            SHOP.info("%d %s", number, LONG)
        read = [stream.said() for _ in range(10)]
        os.close(stream.reading)
    assert len(read) == 10
    assert [line["message"] for line in documents(other) if "event" in line] == [
        "log destination stderr fails, and has lost 1 lines: Broken pipe"
    ]
    stream.writing.close()


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_a_file_holds_up_nobody_either(tmp_path: Path) -> None:
    pipe, other = tmp_path / "pipe", tmp_path / "other"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    many = 2_000
    with logging_of(destinations={"pipe": Destination(to=pipe), "other": Destination(to=other)}):
        begun = time.monotonic()
        for number in range(many):
            SHOP.info("%d %s", number, LONG)
        assert time.monotonic() - begun < 20, "each line waited for the reader"
        read = b""
        while select.select([reading], [], [], 0)[0]:
            read += os.read(reading, 65_536)
        SHOP.info("and on")
        read += os.read(reading, 65_536)
    os.close(reading)
    failed, recovered = [line for line in documents(other) if "event" in line]
    assert failed["message"] == "log destination pipe fails, and has lost 1 lines: nobody reads it"
    whole = [line for line in read.decode().splitlines() if line.startswith("{") and line.endswith("}")]
    assert recovered["lost"] == many + 2 - len(whole)  # "and on", and that it works again


PRINTS = """
import logging, sys
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging
print("before")
configure_logging(LogOptions(destinations={"out": Destination(to="stdout")}), user_code=False)
print("one")
logging.getLogger("shop").info("two")
print("three")
logging.getLogger("shop").info("four")
"""


def test_what_others_print_to_it_stays_in_its_order() -> None:
    done = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    said = [json.loads(line)["message"] if line.startswith("{") else line for line in lines]
    assert said == ["before", "one", "two", "three", "four"]


PRINTER = """
import logging, os, sys, threading
from workfleet.observe.logs.options import Destination, LogOptions
from workfleet.observe.logs.setup import configure_logging
configure_logging(LogOptions(), user_code=False)
threading.Thread(target=print, args=("x" * 200_000,), kwargs={"file": sys.stderr}, daemon=True).start()
while not os.path.exists(sys.argv[1]):
    pass
logging.getLogger("shop").info("said")
print("on", flush=True)
os._exit(0)
"""


@pytest.mark.timeout(60)
def test_a_thread_of_the_user_that_prints_holds_up_itself_only(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = [sys.executable, "-c", PRINTER, str(go)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 30)[0]
        go.touch()
        assert process.stdout.readline() == b"on\n"
        process.stderr.read()


FORKS = """
import logging, os
from workfleet.observe.logs.options import LogOptions
from workfleet.observe.logs.setup import configure_logging
configure_logging(LogOptions(), user_code=False)
SHOP = logging.getLogger("shop")
for number in range(300):
    SHOP.info("%d %s", number, "x" * 1_000)
child = os.fork()
if child == 0:
    SHOP.info("in the child")
    logging.getLogger().handlers[0].close_all(30)
    os._exit(0)
print("forked", flush=True)
os.waitpid(child, 0)
SHOP.info("in the parent")
logging.getLogger().handlers[0].close_all(30)
"""


@pytest.mark.timeout(60)
def test_a_forked_process_writes_its_own_lines_and_none_of_its_parents() -> None:
    with subprocess.Popen([sys.executable, "-W", "ignore", "-c", FORKS], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "forked\n"
        said = messages(process.stderr.read())
    assert process.returncode == 0
    own = ["in the child", "in the parent"]
    assert [line.split()[0] for line in said if line not in own] == [str(number) for number in range(300)]
    assert [line for line in said if line in own] == own
