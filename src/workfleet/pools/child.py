"""A child's life: `python -m workfleet.pools.child NAME PARENT SOCKET LIFELINE BOARD PIPE MEMORY MEMORY`.

Started by the parent only. Ties itself to its parent, builds what it serves, serves until it is told to stop. The first
frame says what to be.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from io import TextIOWrapper
from typing import Any, Final, NamedTuple

from workfleet.pools import board, wire
from workfleet.pools.board import Board
from workfleet.pools.child_calls import Calls
from workfleet.pools.child_channel import Channel, Closed
from workfleet.pools.child_engine import Engine
from workfleet.pools.child_failure import pack, trace_of
from workfleet.pools.child_limits import address_space
from workfleet.pools.child_target import Target, find, run_hooks
from workfleet.pools.child_trace import CallTrace
from workfleet.pools.segment import Segment
from workfleet.supervision.lifeline import die_with_parent, dump_on_signal, end_group, leave_signals_to_parent

_OOM_SCORE: Final = 500


class Boot(NamedTuple):
    """What a child must know to begin. `args` is pickled on its own: it may need the import path that stands here."""

    import_path: list[str]
    python_path: str | None
    factory: str
    args: bytes
    address_space: int | None = None
    trace: str | None = None
    """Where calls that bring a trace along find what they run in."""
    traced_as: str | None = None
    """The pool's name, where each call is a span."""


def main() -> int:
    name, *numbers = sys.argv[1:]
    parent, descriptor, lifeline, page, pipe, *shared = map(int, numbers)
    die_with_parent(lifeline, parent)
    leave_signals_to_parent()
    _be_first_for_the_oom_killer()
    faulthandler.enable()
    dump_on_signal()
    sys.argv = [name]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(line_buffering=True)  # a killed child flushes nothing
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    status = Board(page)
    os.close(page)
    for each in (pipe, *shared):
        os.set_inheritable(each, False)
    try:
        return _live(Channel(sock, pipe, *map(Segment, shared)), status)
    except Closed:
        end_group()
        return 1


def _be_first_for_the_oom_killer() -> None:
    """When the machine is out of memory, a child should go rather than the worker."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            file.write(str(max(int(file.read()), _OOM_SCORE)))
    except (OSError, ValueError):  # not Linux, or not allowed: the kernel's own choice stands
        pass


def _live(channel: Channel, status: Board) -> int:
    engine = Engine(status.beat)
    boot = Boot(*wire.decode(channel.next()[-1]))
    try:
        with address_space(boot.address_space):
            target = _build(boot, engine, status)
    except BaseException as error:  # noqa: BLE001 - the boundary around user code: it says why and ends
        sys.stderr.write(trace_of(error))
        channel.send(wire.UNFIT, 0, pack(error))
        return 1
    status.enter(board.READY)
    channel.send(wire.READY, 0, wire.encode(target.kinds))
    failed: Exception | None = None
    try:
        Calls(target, channel, status, engine, CallTrace(boot.trace, boot.traced_as)).serve()
        run_hooks(target, "shutdown", engine.settle)
    except Closed:
        raise
    except Exception as error:  # noqa: BLE001 - the boundary around user code: told on standard error and by the exit code
        failed = error
    try:
        engine.close()
    except Exception as error:  # noqa: BLE001 - as above, for what the factory left to be closed
        failed = failed or error
    if failed is not None:
        sys.stderr.write(trace_of(failed))
    return 0 if failed is None else 1


def _build(boot: Boot, engine: Engine, status: Board) -> Target:
    status.enter(board.IMPORTING)
    sys.path[:] = boot.import_path
    # Programs that user code starts get the environment that the parent had.
    if boot.python_path is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = boot.python_path
    factory = find(boot.factory)
    args: tuple[Any, ...] = wire.decode(boot.args)
    status.enter(board.BUILDING)
    target = Target(engine.enter(engine.settle(factory(*args))))
    status.enter(board.STARTING)
    run_hooks(target, "start", engine.settle)
    return target


if __name__ == "__main__":
    sys.exit(main())
