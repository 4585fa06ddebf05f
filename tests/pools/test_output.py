"""What a child prints arrives line by line, whatever it is, and the last of it is kept."""

from __future__ import annotations

import asyncio
import os

from workfleet.pools.output import KEPT, Output


async def printed(*pieces: bytes) -> tuple[list[tuple[str, str, int]], str]:
    lines: list[tuple[str, str, int]] = []
    reading, writing = os.pipe()
    output = Output(reading, "stderr", 7, lambda line, stream, pid: lines.append((line, stream, pid)))
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
    output = Output(reading, "stdout", 7, lambda line, stream, pid: lines.append(line))
    os.write(writing, b"last\nwords")
    output.close()
    assert lines == ["last", "words"]
    assert output.ended.done()
    os.close(reading)
    os.close(writing)
