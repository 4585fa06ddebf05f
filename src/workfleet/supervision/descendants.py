"""What a child started and did not end: found by a mark that it inherits, wherever it has gone, and ended.

A process that leaves its group, its session and its parent (a daemon) cannot be found by them any more; the environment
that it began with stays readable. Only one that was started with an emptied environment *and* orphaned escapes.
Knows nothing of pools; blocks for some milliseconds, so it is not for the loop's thread.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from workfleet.supervision import proc

VARIABLE: Final = "WORKFLEET_POOL_CHILD"
"""Holds the marks of the child and, where a pool's child has a pool itself, of those above it."""

_ROUNDS: Final = 5
_GONE_WITHIN: Final = 1.0
"""Seconds, for the next of them to be gone."""


def new_mark() -> str:
    """Of one child of this process; no other ever has it."""
    return f"{mark_of_children(os.getpid())}{os.urandom(8).hex()}"


def mark_of_children(pid: int) -> str:
    """What the marks of all children of a process begin with. Ids are only unique within a namespace."""
    return f":{_namespace()}-{pid}-"


def with_mark(mark: str) -> str:
    """What the variable is for a child with this mark."""
    return f"{os.environ.get(VARIABLE, '')}{mark}"


def end_marked(mark: str) -> int:
    """Kills every process with a mark that begins so and waits until it is gone. Returns how many there were.

    Who forks while it is being killed is found in the next round.
    """
    ended = 0
    for _ in range(_ROUNDS):
        found = list(_marked(mark))
        if not found:
            break
        ended += len(found)
        _end(found, mark)
    return ended


async def end_marked_aside(mark: str) -> int:
    """`end_marked` in a thread of its own: those of the executor may all be busy with user code.

    Not a daemon: where the loop is left in the middle, the interpreter waits for it at its exit.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[int] = loop.create_future()

    def tell(ended: int) -> None:
        if not done.done():
            done.set_result(ended)

    def run() -> None:
        ended = 0
        try:
            ended = end_marked(mark)
        finally:
            try:
                loop.call_soon_threadsafe(tell, ended)
            except RuntimeError:  # the loop was closed meanwhile: nobody waits any more
                pass

    threading.Thread(target=run, name="workfleet-descendants").start()
    return await done


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:  # another system, or one without namespaces
        return 0


def _marked(mark: str) -> Iterator[int]:
    if not proc.LINUX:
        yield from _marked_elsewhere(mark)
        return
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != own and _has(int(name), mark):
            yield int(name)


def _has(pid: int, mark: str) -> bool:
    """A zombie has no environment any more."""
    return mark.encode() in proc.read(f"/proc/{pid}/environ")


def _marked_elsewhere(mark: str) -> Iterator[int]:
    import psutil  # not on Linux: the supervisor starts without it

    for process in psutil.process_iter():
        try:
            if mark in process.environ().get(VARIABLE, "") and process.status() != psutil.STATUS_ZOMBIE:
                yield process.pid
        except (psutil.Error, OSError):  # gone, or somebody else's
            continue


def _end(pids: list[int], mark: str) -> None:
    if not proc.LINUX or not hasattr(os, "pidfd_open"):
        _end_elsewhere(pids)
        return
    with ExitStack() as opened:
        poll = select.poll()
        waiting = 0
        for pid in pids:
            try:
                fd = os.pidfd_open(pid)
            except OSError:  # gone, or a sandbox that forbids it
                kill(pid)
                continue
            opened.callback(os.close, fd)
            if _has(pid, mark):  # the descriptor is of that very process, and not of one that got its id since
                kill(pid)
                poll.register(fd, select.POLLIN)
                waiting += 1
        while waiting and (gone := poll.poll(_GONE_WITHIN * 1000)):
            for fd, _ in gone:
                poll.unregister(fd)
            waiting -= len(gone)


def _end_elsewhere(pids: list[int]) -> None:
    import psutil  # as above

    for pid in pids:
        kill(pid)
    psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=_GONE_WITHIN)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # gone, or it has become another user
        pass
