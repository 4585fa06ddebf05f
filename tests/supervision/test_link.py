"""The conversation between supervisor and worker."""

from __future__ import annotations

import asyncio
import os
import socket

import msgspec
import pytest

from tests.supervision.fakes import until
from workfleet.model.jobs import Claim
from workfleet.supervision.control import (
    ORDER_VARIABLE,
    Beat,
    Bye,
    Drain,
    FromSupervisor,
    FromWorker,
    Hello,
    Lost,
    Ready,
    Refused,
    WorkerOrder,
    read_order,
)
from workfleet.supervision.link import SupervisorEnd, WorkerEnd

HELLO = Hello(
    worker_id="w",
    pid=1,
    app="shop",
    store="sqlite:///x",
    lease_ms=30_000,
    max_crashes=3,
    stuck_after_ms=600_000,
    shutdown_timeout_ms=25_000,
    status_file=None,
)


def beat(completed: int = 0, **details: object) -> Beat:
    return Beat(
        active=1, completed=completed, failed=0, loop_lag_ms=1, store_ok_ms=5, store_error=None, details=dict(details)
    )


class Ends:
    def __init__(self) -> None:
        self.from_worker: list[FromWorker] = []
        self.from_supervisor: list[FromSupervisor] = []
        self.orphaned = 0
        ours, theirs = socket.socketpair()
        self.raw_fd = os.dup(theirs.fileno())
        self.supervisor = SupervisorEnd(ours, self.from_worker.append)
        self.worker = WorkerEnd(theirs.detach(), self.from_supervisor.append, self._orphaned)

    def _orphaned(self) -> None:
        self.orphaned += 1

    def close(self) -> None:
        self.worker.close()
        self.supervisor.close()
        os.close(self.raw_fd)


async def test_every_message_arrives_as_it_was_said() -> None:
    ends = Ends()
    said: list[FromWorker] = [
        HELLO,
        Ready(),
        beat(text="line\nbreak"),
        Bye(completed=1, failed=2, given_back=3, refused=("a",), problems=("b",)),
        Refused(exit_code=78, message="two\nlines"),
    ]
    for message in said:
        ends.worker.send(message)
    ends.supervisor.send(Drain(timeout_ms=5))
    ends.supervisor.send(Lost(claim=Claim("job", "token", "q")))
    await until(lambda: len(ends.from_worker) == 5 and len(ends.from_supervisor) == 2)
    assert ends.from_worker == said
    assert ends.from_supervisor == [Drain(timeout_ms=5), Lost(claim=Claim("job", "token", "q"))]
    ends.close()
    assert ends.orphaned == 0


async def test_last_words_are_heard_after_the_worker_has_gone() -> None:
    ends = Ends()
    ends.worker.send(Bye(completed=7, failed=0, given_back=0))
    ends.worker.close()
    os.close(ends.raw_fd)
    ends.supervisor.close()  # not one turn of the event loop since
    assert [message.completed for message in ends.from_worker if isinstance(message, Bye)] == [7]


async def test_a_worker_learns_that_its_supervisor_is_gone() -> None:
    ends = Ends()
    ends.worker.send(Ready())  # unread by the other side: its end comes as a reset
    ends.supervisor.close()
    await until(lambda: ends.orphaned)
    ends.worker.send(Ready())
    await asyncio.sleep(0.05)
    assert ends.orphaned == 1
    ends.close()


async def test_what_is_no_message_is_left_out() -> None:
    ends = Ends()
    os.write(ends.raw_fd, b'garbage\n{"type":"unknown"}\n\xff\xfe\n{"type":"ready"}\n')
    await until(lambda: ends.from_worker)
    assert ends.from_worker == [Ready()]
    ends.close()


async def test_a_supervisor_that_does_not_read_holds_nobody_up() -> None:
    ours, theirs = socket.socketpair()
    worker = WorkerEnd(theirs.detach(), lambda message: None, lambda: None)
    for number in range(20_000):
        worker.send(beat(number, text="x" * 200))
    worker.send(Bye(completed=1, failed=0, given_back=0))
    heard: list[FromWorker] = []
    supervisor = SupervisorEnd(ours, heard.append)
    await until(lambda: heard and isinstance(heard[-1], Bye))
    beats = [message.completed for message in heard if isinstance(message, Beat)]
    assert beats == list(range(len(beats)))  # the oldest were kept whole, the rest was dropped
    assert 1_000 < len(beats) < 10_000
    worker.close()
    supervisor.close()


def test_an_order_is_taken_out_of_the_environment() -> None:
    order = WorkerOrder(
        app="app:app",
        worker_id="w",
        index=0,
        processes=2,
        restarts=0,
        supervisor_pid=1,
        board_fd=3,
        control_fd=4,
        lifeline_fd=5,
        stacks_fd=6,
        config={"a": [1]},
    )
    environ = {ORDER_VARIABLE: msgspec.json.encode(order).decode(), "HOME": "/"}
    assert read_order(environ) == order
    assert environ == {"HOME": "/"}
    with pytest.raises(KeyError):
        read_order(environ)
