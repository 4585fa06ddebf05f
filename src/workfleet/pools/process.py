"""One child as the operating system sees it: started, spoken to, killed with all that it started, and reaped.

A new interpreter, never a fork of this process, whose threads a fork would leave in any state. Knows frames, but not
what they mean, and decides nothing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from workfleet.pools import board, exits, segment
from workfleet.pools.board import Board
from workfleet.pools.link import Link, OnFrames
from workfleet.pools.output import Budget, OnOutput, Output
from workfleet.pools.segment import Segment
from workfleet.supervision import descendants, proc

_LAST_WORDS_WITHIN: Final = 0.5
"""How long, after its end, a child's descriptors may stay open in processes that left its group."""
_EXIT_AFTER_CLOSE: Final = 1.0
"""How long a child that has closed its socket may take to end."""
_PACKAGE_ROOT: Final = str(Path(__file__).parents[2])


class Exit(NamedTuple):
    """`code` as in `subprocess`, `how` in words, the last that it wrote to standard error, and what it held in memory
    at most, in bytes; None when that was too little to be told from what this process holds itself."""

    code: int
    how: str
    last_words: str
    peak_bytes: int | None = None


class Child(Protocol):
    """What a pool needs of a child; another thing may stand in for a process."""

    pid: int
    arguments: Segment | None
    """Memory through which large arguments go, where it shares some. Closed by who puts them in."""
    ended: asyncio.Future[Exit]
    """Done when it is gone and everything that it said has been handed on."""

    def send(self, pieces: list[bytes]) -> None: ...
    def catch_up(self) -> None:
        """Hands on what it has said without waking this process."""
        ...

    def kill(self) -> None:
        """Ends it and everything that it started, at once."""
        ...

    def begun(self) -> int:
        """The last call whose method it has entered."""
        ...

    def phase(self) -> str:
        """What it was last seen doing before it was ready."""
        ...

    def halt(self) -> None:
        """It begins no other call: those that it was sent ahead come back as `UNBEGUN`."""
        ...

    def beats(self) -> int:
        """A number that changes while the loop of an async call runs."""
        ...

    def dump(self) -> None:
        """Has it write the stacks of its threads to standard error."""
        ...

    def look(self) -> None:
        """Sees whether it has ended without anybody telling."""
        ...


class Spawn(Protocol):
    """Starts a child that tells `on_frames` what it says."""

    async def __call__(self, label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child: ...


async def spawn(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
    """Starts a new interpreter. It waits for its `BOOT` frame."""
    child = ChildProcess(label, on_frames, on_output)
    try:
        await child.open()
    except BaseException:  # also when it is cancelled: nobody would know of it
        give_up(child)
        raise
    return child


def give_up(child: Child) -> None:
    """Ends a child that nobody has begun to use. Who uses one closes its arguments, which are read after its end."""
    child.kill()
    if child.arguments is not None:
        child.arguments.close()


class ChildProcess:
    """A real one. Make it on the loop's thread: Linux ends a child with the thread that started it."""

    def __init__(self, label: str, on_frames: OnFrames, on_output: OnOutput | None) -> None:
        with ExitStack() as on_failure, ExitStack() as always:
            self._socket, theirs = socket.socketpair()
            on_failure.callback(self._socket.close)
            always.callback(theirs.close)
            lifeline, self._lifeline = os.pipe()
            on_failure.callback(os.close, self._lifeline)
            always.callback(os.close, lifeline)
            page = board.create()
            always.callback(os.close, page)
            self._board = Board(page)
            on_failure.callback(self._board.close)
            self._peak = 0
            self._mark = descendants.new_mark()
            arguments, results = segment.create("workfleet-arguments"), segment.create("workfleet-results")
            self.arguments: Segment | None = Segment(arguments)
            on_failure.callback(self.arguments.close)
            self._results = Segment(results)
            on_failure.callback(self._results.close)
            ours, pipe = os.pipe()
            on_failure.callback(os.close, ours)
            always.callback(os.close, pipe)
            for end in (ours, pipe):
                os.set_blocking(end, False)
            self._process = _start(label, self._mark, theirs.fileno(), lifeline, page, pipe, arguments, results)
            self._inherited_peak = exits.own_peak_bytes()
            on_failure.pop_all()
        self.pid = self._process.pid
        loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] = loop.create_future()
        self._doubting: asyncio.TimerHandle | None = None
        self._last: tuple[int, str] | None = None
        self._link = Link(on_frames, self._results, ours)
        self.send = self._link.send  # no method of its own in between: every call passes here
        self._pipes = [pipe for pipe in (self._process.stdout, self._process.stderr) if pipe is not None]
        stdout, stderr = self._pipes
        lines = Budget()
        self._stdout = Output(stdout.fileno(), "stdout", self.pid, on_output, lines)
        self._stderr = Output(stderr.fileno(), "stderr", self.pid, on_output, lines)
        self.ended: asyncio.Future[Exit] = loop.create_task(self._end())

    async def open(self) -> None:
        await self._link.open(self._socket)
        self._link.closed.add_done_callback(self._doubt)

    def catch_up(self) -> None:
        self._link.catch_up()

    def begun(self) -> int:
        return self._last[0] if self._last else self._board.begun()

    def phase(self) -> str:
        return self._last[1] if self._last else self._board.phase()

    def kill(self) -> None:
        if self._process.returncode is None:  # not reaped: the id is still its own
            self._peak = max(self._peak, proc.peak_bytes(self.pid) or 0)
            below = proc.descendants(self.pid)  # while their parents live; those that left the group are not in it
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has ended before it could lead a group
                pass
            except PermissionError:  # macOS says so of a group of zombies
                pass
            for pid in below:
                descendants.kill(pid)

    def halt(self) -> None:
        if not self._last:
            self._board.halt()

    def beats(self) -> int:
        return 0 if self._last else self._board.beats()

    def dump(self) -> None:
        if self._process.returncode is None:
            try:
                os.kill(self.pid, signal.SIGUSR2)
            except ProcessLookupError:  # it has just ended
                pass

    def look(self) -> None:
        if self._process.returncode is None and exits.has_ended(self.pid):
            self._notice()

    def _notice(self) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    def _doubt(self, closed: asyncio.Future[None]) -> None:
        """It closed its socket. If it does not end by itself now, it is of no use any more."""
        if not self.ended.done():
            self._doubting = asyncio.get_running_loop().call_later(_EXIT_AFTER_CLOSE, self.kill)

    async def _end(self) -> Exit:
        stop_watching = exits.watch(self.pid, self._notice)
        try:
            await self._gone
        finally:  # also when the loop is torn down: nothing may stay behind
            stop_watching()
            self.kill()
            peak = exits.reap(self._process) or 0
            os.close(self._lifeline)
            await descendants.end_marked_aside(self._mark)
        said = {self._link.closed, self._stdout.ended, self._stderr.ended}
        await asyncio.wait(said, timeout=_LAST_WORDS_WITHIN)
        self._link.close_pipe()
        self._link.close()
        self._results.close()
        self._stdout.close()
        self._stderr.close()
        for pipe in self._pipes:
            pipe.close()
        self._last = self._board.begun(), self._board.phase()
        self._board.close()
        if self._doubting is not None:
            self._doubting.cancel()
        code, peak = self._process.returncode, peak if peak > self._inherited_peak else self._peak
        return Exit(code, exits.in_words(code), self._stderr.tail(), peak or None)


def _start(label: str, mark: str, *descriptors: int) -> subprocess.Popen[bytes]:
    """The interpreter with its own session: terminal and group signals of this process do not reach it."""
    flags = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    return subprocess.Popen(
        [sys.executable, *flags, "-m", "workfleet.pools.child", label, *map(str, (os.getpid(), *descriptors))],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        pass_fds=descriptors,
        start_new_session=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [_PACKAGE_ROOT, os.environ.get("PYTHONPATH")])),
            descendants.VARIABLE: descendants.with_mark(mark),
        },
    )
