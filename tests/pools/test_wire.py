"""The frames arrive whole and in order, however the bytes are cut."""

from __future__ import annotations

import asyncio
import os
import random
import socket

import pytest

from workfleet.pools import parcel, segment, wire
from workfleet.pools.link import Link
from workfleet.pools.segment import Segment

BODIES = [b"", b"x", b"y" * 100, b"z" * 65_000, b"w" * 65_536, b"v" * 300_000, b"", b"u" * 65_515]


def cut(reader: wire.FrameReader, data: bytes, sizes: list[int]) -> list[tuple[int, int, int, bytes]]:
    found = []
    position = 0
    for size in sizes:
        end = min(position + size, len(data))
        while position < end:
            room = reader.room()
            count = min(len(room), end - position)
            assert count > 0
            room[:count] = data[position : position + count]
            position += count
            found += [(kind, call, number, bytes(body)) for kind, call, number, body in reader.take(count)]
    assert position == len(data)
    return found


@pytest.mark.parametrize("step", [1, 7, 21, 4096, 65_536, 1_000_000])
def test_every_cut_gives_the_same_frames(step: int) -> None:
    bodies = [body for body in BODIES if step > 1 or len(body) < 1_000]
    data = b"".join(b"".join(wire.frame(wire.CALL, i, body, i * 10)) for i, body in enumerate(bodies))
    found = cut(wire.FrameReader(), data, [step] * (len(data) // step + 1))
    assert found == [(wire.CALL, i, i * 10, body) for i, body in enumerate(bodies)]


def test_random_cuts_of_many_frames() -> None:
    dice = random.Random(7)
    bodies = [dice.randbytes(dice.choice([0, 3, 200, 30_000, 70_000])) for _ in range(200)]
    data = b"".join(b"".join(wire.frame(wire.RESULT, i, body)) for i, body in enumerate(bodies))
    sizes: list[int] = []
    while sum(sizes) < len(data):
        sizes.append(dice.choice([1, 20, 22, 1000, 50_000]))
    found = cut(wire.FrameReader(), data, sizes)
    assert [body for *_, body in found] == bodies
    assert [call for _, call, *_ in found] == list(range(200))


def test_a_large_body_stays_valid_when_more_arrives() -> None:
    reader = wire.FrameReader()
    large = b"a" * 200_000
    data = b"".join(wire.frame(wire.ITEM, 1, large))
    kept = []
    position = 0
    while position < len(data):
        room = reader.room()
        count = min(len(room), len(data) - position)
        room[:count] = data[position : position + count]
        position += count
        kept += [wire.kept(body) for *_, body in reader.take(count)]
    assert len(reader.room()) == 65_536  # the large buffer is not kept
    reader.room()[:] = b"b" * 65_536
    assert [bytes(body) for body in kept] == [large]


def test_lasting_bodies_stay_valid_when_more_arrives() -> None:
    bodies = [bytes([number]) * 1_000 for number in range(200)]
    data = b"".join(b"".join(wire.frame(wire.CALL, number, body)) for number, body in enumerate(bodies))
    for lasting in (True, False):
        reader, kept, position = wire.FrameReader(lasting=lasting), [], 0
        while position < len(data):
            room = reader.room()
            count = min(len(room), len(data) - position)
            room[:count] = data[position : position + count]
            position += count
            kept += [body for *_, body in reader.take(count)]
        assert ([bytes(body) for body in kept] == bodies) is lasting  # type: ignore[arg-type] # none is a parcel


def test_a_large_body_is_a_piece_of_its_own() -> None:
    body = b"a" * 100_000
    assert wire.frame(wire.CALL, 1, body)[1] is body
    assert len(wire.frame(wire.CALL, 1, b"small")) == 1


class Heard:
    """Notes what a link or reader hands on."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, int, int, object]] = []

    def __call__(self, frames: list[wire.Frame]) -> None:
        self.frames += [(kind, call_id, number, wire.decode(body)) for kind, call_id, number, body in frames]


async def test_what_follows_from_what_was_heard_leaves_before_the_loop_goes_on() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = Link(lambda frames: link.send(wire.frame(wire.CALL, 2, b"next")))
    await link.open(ours)
    heard = wire.frame(wire.RESULT, 1, b"done")[0]
    link.get_buffer(-1)[: len(heard)] = heard
    link.buffer_updated(len(heard))
    assert theirs.recv(1_000) == wire.frame(wire.CALL, 2, b"next")[0]
    link.close()
    await link.closed
    theirs.close()


async def test_what_the_socket_has_no_room_for_leaves_later_in_its_order() -> None:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    link = Link(lambda frames: None)
    await link.open(ours)
    sent = b""
    for number in range(100):
        pieces = wire.frame(wire.CALL, number, bytes([number]) * 50_000)
        sent += pieces[0]
        link.send(pieces)
        await asyncio.sleep(0)
    received = b""
    while len(received) < len(sent):
        received += await asyncio.get_running_loop().sock_recv(theirs, 1 << 20)
    assert received == sent
    link.close()
    await link.closed
    theirs.close()


async def test_what_was_said_quietly_is_heard_at_the_latest_when_the_pipe_is_closed() -> None:
    heard = Heard()
    end, theirs = os.pipe()
    os.set_blocking(end, False)
    link = Link(heard, None, end)
    link.catch_up()
    assert heard.frames == []
    for number in range(3):
        os.write(theirs, wire.frame(wire.RESULT, number, wire.encode(number), number=7)[0])
        if number == 0:
            link.catch_up()
            assert heard.frames == [(wire.RESULT, 0, 7, 0)]
    os.close(theirs)
    link.close_pipe()
    assert heard.frames == [(wire.RESULT, number, 7, number) for number in range(3)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(end)
    link.catch_up()  # nothing to be heard any more


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("step", [100, 70_000, 10_000_000])
def test_parcels_among_frames_arrive_whole_at_every_cut(step: int, shares: bool) -> None:
    memory = Segment(segment.create("workfleet-test"))
    values = [1, b"a" * parcel.LARGE, "small", [bytearray(b"b" * parcel.LARGE), b"c" * 300_000], 2]
    data = b""
    for number, value in enumerate(values):
        packed = parcel.pack(value)
        start = memory.put(number, packed.parts) if shares and isinstance(packed, parcel.Parcel) else None
        data += b"".join(wire.frame(wire.RESULT, number, packed, number, start=start))
    assert (len(data) < 2_000) is shares
    reader, heard, position = wire.FrameReader(memory if shares else None), Heard(), 0
    while position < len(data):
        room = reader.room()
        count = min(len(room), len(data) - position, step)
        room[:count] = data[position : position + count]
        position += count
        heard(reader.take(count))
    assert heard.frames == [(wire.RESULT, number, number, value) for number, value in enumerate(values)]
    assert reader.shared == (2 if shares else 0)
    memory.close()
