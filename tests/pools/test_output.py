"""What a child prints arrives line by line, whatever it is, and the last of it is kept."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time

import pytest

from tests.pools.conftest import MakePool
from tests.pools.support import wait_until
from tests.pools.users import User
from tests.pools.workers import Basic
from workfleet.errors import ChildDied
from workfleet.events import ChildPrinted
from workfleet.observe.logs.subscriber import LogSubscriber
from workfleet.pools.options import ChildSpec
from workfleet.pools.output import KEPT, LINES_A_SECOND, Budget, Output, Stream


async def printed(*pieces: bytes) -> tuple[list[tuple[str, str, int]], str]:
    lines: list[tuple[str, str, int]] = []
    reading, writing = os.pipe()
    output = Output(reading, "stderr", 7, lambda line, stream, pid: lines.append((line, stream, pid)), Budget())
    for piece in pieces:
        os.write(writing, piece)
        await asyncio.sleep(0.01)
    os.close(writing)
    await asyncio.wait_for(output.ended, 5)
    os.close(reading)
    return lines, output.tail()


async def test_lines_are_cut_where_they_end() -> None:
    lines, tail = await printed(b"one\ntw", b"o\r\n\nthr", b"ee")
    assert lines == [(line, "stderr", 7) for line in ("one", "two", "", "three")]
    assert tail == "one\ntwo\r\n\nthree"


async def test_bytes_that_are_no_text() -> None:
    lines, _ = await printed(b"\xff\xfe \x00 caf\xc3\xa9\n")
    assert [line for line, *_ in lines] == ["\ufffd\ufffd \x00 caf\u00e9"]


async def test_a_line_without_end_is_handed_on_in_parts_and_the_tail_is_bounded() -> None:
    lines, tail = await printed(*[b"x" * 50_000] * 20)
    assert "".join(line for line, *_ in lines) == "x" * 1_000_000
    assert len(lines) >= 20
    assert tail == "x" * KEPT


async def test_closing_reads_what_is_there_though_somebody_holds_the_other_end() -> None:
    lines: list[str] = []
    reading, writing = os.pipe()
    output = Output(reading, "stdout", 7, lambda line, stream, pid: lines.append(line), Budget())
    os.write(writing, b"last\nwords")
    output.close()
    assert lines == ["last", "words"]
    assert output.ended.done()
    os.close(reading)
    os.close(writing)


class Said:
    """A pipe with a budget, and what is handed on of it."""

    def __init__(self, lines: int, seconds: float) -> None:
        self.lines: list[str] = []
        self.reading, self.writing = os.pipe()
        self.output = Output(
            self.reading, "stdout", 7, lambda line, stream, pid: self.lines.append(line), Budget(lines, seconds)
        )

    async def end(self) -> None:
        os.close(self.writing)
        await asyncio.wait_for(self.output.ended, 5)
        os.close(self.reading)


async def test_lines_beyond_the_budget_are_counted_and_their_number_is_told() -> None:
    said = Said(3, 60.0)
    os.write(said.writing, b"1\n2\n3\n4\n5\nsix is beg")
    await wait_until(lambda: len(said.lines) == 3)
    os.write(said.writing, b"un\n7\nlast words")
    await said.end()
    assert said.lines == ["1", "2", "3", "… 5 lines left out: more than 3 a second"]
    assert said.output.tail() == "1\n2\n3\n4\n5\nsix is begun\n7\nlast words"


async def test_a_new_second_has_a_new_budget() -> None:
    said = Said(2, 0.1)
    os.write(said.writing, b"1\n2\n3\n4\n")
    await wait_until(lambda: len(said.lines) == 3)
    os.write(said.writing, b"5\n")
    await wait_until(lambda: len(said.lines) == 4)
    await said.end()
    assert said.lines == ["1", "2", "… 2 lines left out: more than 2 a second", "5"]


async def test_the_rest_of_a_line_that_was_left_out_is_no_line_of_its_own() -> None:
    said = Said(1, 0.1)
    os.write(said.writing, b"1\nbegun ")
    await wait_until(lambda: said.lines == ["1"])
    os.write(said.writing, b"2\n3 beg")
    await wait_until(lambda: len(said.lines) == 2)
    os.write(said.writing, b"un\n4\n")
    await wait_until(lambda: len(said.lines) == 3)
    await said.end()
    assert said.lines == ["1", "… 2 lines left out: more than 1 a second", "4"]


async def test_both_streams_share_the_budget() -> None:
    lines: list[tuple[str, str]] = []
    budget = Budget(3, 60.0)
    pipes = [os.pipe(), os.pipe()]

    def hear(line: str, stream: Stream, pid: int) -> None:
        lines.append((stream, line))

    outputs = [
        Output(pipes[0][0], "stdout", 7, hear, budget),
        Output(pipes[1][0], "stderr", 7, hear, budget),
    ]
    for _, writing in pipes:
        os.write(writing, b"a\nb\n")
        await asyncio.sleep(0.02)
        os.close(writing)
    await asyncio.wait_for(asyncio.gather(*(output.ended for output in outputs)), 5)
    for reading, _ in pipes:
        os.close(reading)
    assert lines[:3] == [("stdout", "a"), ("stdout", "b"), ("stderr", "a")]
    assert lines[3:] == [("stderr", "… 1 lines left out: more than 3 a second")]


def test_a_line_in_the_log_says_whose_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "workfleet.child")
    LogSubscriber().route(ChildPrinted)(ChildPrinted(pool="images", pid=4711, stream="stderr", line="images are ready"))
    (record,) = caplog.records
    assert record.getMessage() == "images[4711]: images are ready"
    facts = record.__dict__["workfleet"]
    assert facts == {"pool": "images", "pid": 4711, "stream": "stderr", "line": "images are ready"}


def counted(lines: list[str]) -> int:
    """All lines that a child printed, by what was handed on of them."""
    said = [re.match(r"… ([\d,]+) lines left out", line) for line in lines]
    return sum(int(match[1].replace(",", "")) if match else 1 for match in said)


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.full)])
async def test_a_method_that_prints_very_much_holds_up_nobody(make_pool: MakePool, count: int) -> None:
    made = make_pool(ChildSpec.of(Basic), size=2)
    await made.pool.wait_ready()
    printing = asyncio.create_task(made.pool.call("chatter", (count,)))
    longest, last = 0.0, time.monotonic()
    while not printing.done():
        await asyncio.sleep(0.001)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    await printing
    lines = [line for _, line in made.lines]
    await wait_until(lambda: counted([line for _, line in made.lines]) == count, 20)
    assert lines[:2] == ["line 0", "line 1"]
    assert len(made.lines) < count / 4
    assert longest < 0.5, f"the loop stood still for {longest:.2f} s"


async def test_the_last_words_of_a_child_that_printed_too_much_are_right(make_pool: MakePool) -> None:
    made = make_pool(ChildSpec.of(User))
    with pytest.raises(ChildDied) as caught:
        await made.pool.call("chatter_and_die", (3 * LINES_A_SECOND,))
    assert caught.value.last_words.endswith("famous last words\n")
    assert counted([line for _, line in made.lines]) == 3 * LINES_A_SECOND + 1
