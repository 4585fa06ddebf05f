"""The board of claims: what is read is whole, whatever the writer was doing or where it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.supervision.fakes import SteppingClock
from workfleet.clock import SystemClock
from workfleet.model.jobs import Claim
from workfleet.supervision.board import Board, BoardEntry

PROGRAM = Path(__file__).parent / "programs" / "scribble.py"


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def board(clock: SteppingClock) -> Iterator[Board]:
    made = Board.create(slots=4, clock=clock)
    yield made
    made.close()


def test_what_is_noted_is_read_through_another_mapping(board: Board, clock: SteppingClock) -> None:
    first = board.put(Claim("job-1", "a" * 32, "q"), timeout_ms=5_000, label="mail.send")
    second = board.put_lock("ledger:müller", "worker:token", ttl_ms=60_000)
    reader = Board.attach(os.dup(board.fd), clock=clock)
    assert reader.slots == 4
    assert reader.entries() == [
        BoardEntry(first, 1, "job", "job-1", "a" * 32, 1_000_000, 1_005_000, 0, "q", "mail.send"),
        BoardEntry(second, 2, "lock", "ledger:müller", "worker:token", 1_000_000, 0, 60_000),
    ]
    assert reader.entries()[0].claim == Claim("job-1", "a" * 32, "q")
    assert [entry.shown for entry in reader.entries()] == ["mail.send (job-1)", "ledger:müller"]
    board.clear(first)
    assert [entry.name for entry in reader.entries()] == ["ledger:müller"]
    reader.close()


def test_a_claim_counts_from_when_it_was_asked_for(board: Board) -> None:
    board.put(Claim("a", "t", "q"), since_ms=990_000)
    assert [entry.noted_ms for entry in board.entries()] == [990_000]


def test_a_deadline_does_not_move_when_the_wall_clock_is_set(board: Board, clock: SteppingClock) -> None:
    slot = board.put(Claim("a", "t", "q"), timeout_ms=5_000)
    clock.wall_ms -= 86_400_000 * 365
    assert board.entries()[0].deadline_ms == 1_005_000
    board.ended(slot)
    assert board.entries()[0].deadline_ms == 0
    assert board.entries()[0].name == "a"


def test_a_full_board_says_so_and_a_cleared_slot_is_used_again(board: Board) -> None:
    slots = [board.put(Claim(f"job-{n}", "t", "q")) for n in range(5)]
    assert slots == [0, 1, 2, 3, -1]
    board.clear(-1)
    board.clear(2)
    board.clear(2)  # a second time frees nothing, or two claims would share a slot
    assert board.put(Claim("again", "t", "q")) == 2
    assert board.put(Claim("too many", "t", "q")) == -1
    assert [entry.name for entry in board.entries()] == ["job-0", "job-1", "again", "job-3"]


def test_what_does_not_fit_a_slot_is_refused(board: Board) -> None:
    assert board.put(Claim("ü" * 127, "a" * 32, "q")) == 0
    assert board.put(Claim("x" * 500, "a" * 32, "q")) == -1
    assert board.put(Claim("\ud800 is kept", "t", "q")) == 1
    assert [entry.name for entry in board.entries()] == ["ü" * 127, "\ud800 is kept"]
    assert board.put(Claim("y" * 400, "t", "q"), label="ö" * 500) == 2
    assert board.entries()[2].name == "y" * 400
    label = board.entries()[2].label
    assert label == "ö" * len(label)  # cut, and no half of a letter
    assert 0 < len(label) < 50


def test_progress_is_the_last_beat(board: Board, clock: SteppingClock) -> None:
    assert board.progress_ms() == 0
    clock.seconds = 1_234.5
    board.beat()
    assert board.progress_ms() == 1_234_500


def test_a_closed_board_is_empty() -> None:
    board = Board.create(slots=1, clock=SystemClock())
    board.put(Claim("a", "t", "q"))
    board.beat()
    board.close()
    board.close()
    assert board.entries() == []
    assert board.progress_ms() == 0


def test_another_descriptor_is_no_board(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb+") as file:
        file.write(bytes(64))
        file.flush()
        with pytest.raises(ValueError, match="is no board"):
            Board.attach(file.fileno(), clock=SystemClock())


names = st.text(max_size=60)


@settings(max_examples=300, deadline=None)
@given(old=names, new=names, cleared=st.booleans(), arrived=st.data())
def test_a_note_that_is_half_written_is_never_read(old: str, new: str, cleared: bool, arrived: st.DataObject) -> None:
    """Any mixture of an old and a new note, as another processor could see it, is the old one, the new one, or none."""
    board = Board.create(slots=1, clock=SteppingClock())
    slot = board.put(Claim(old, "old", "q"))
    before, old_image = board.entries(), os.pread(board.fd, 512, 64)
    board.clear(slot)
    if not cleared:
        board.put(Claim(new, "new", "q"))
    after, new_image = board.entries(), os.pread(board.fd, 512, 64)
    cuts = arrived.draw(st.lists(st.integers(0, 140), max_size=4).map(sorted))
    image, at = bytearray(old_image), 0
    for number, cut in enumerate([*cuts, 512]):
        if number % 2:
            image[at:cut] = new_image[at:cut]
        at = cut
    os.pwrite(board.fd, image, 64)
    assert board.entries() in ([], before, after)
    board.close()


def test_a_writer_killed_at_any_instruction_leaves_no_half_note() -> None:
    """The writer notes claims whose token is derived from their id: a torn one would not match."""
    for _ in range(5):
        board = Board.create(slots=8, clock=SystemClock())
        writer = subprocess.Popen([sys.executable, str(PROGRAM), str(board.fd)], pass_fds=(board.fd,))
        try:
            end, read = time.monotonic() + 10, 0
            while read < 500 and time.monotonic() < end:
                read += _check(board.entries())
        finally:
            writer.kill()
            writer.wait()
        _check(board.entries())
        board.close()
        assert read >= 500


def _check(entries: list[BoardEntry]) -> int:
    for entry in entries:
        assert entry.owner == f"{int(entry.name.removeprefix('job-')) ** 5}", entry
    return len(entries)
