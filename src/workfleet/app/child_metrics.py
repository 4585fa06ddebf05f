"""What code in a pool's child measures, on its way to the worker: a datagram socket that the worker listens to.

Beside the pool's own conversation, so that a call costs no more because of it. A child sends soon after it has measured
something, and once more at its end; one that is killed takes the last tenth of a second along.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from workfleet.events import Event, JobEnqueued
from workfleet.observe.metrics.recorder import ENQUEUED
from workfleet.observe.metrics.registry import DropReason, MetricsRegistry
from workfleet.ports.metrics import MetricRow

_SOON_S = 0.1
_LONGEST_S = 1.0
_BATCH = 50
"""Rows of a datagram, which must fit into a socket's buffer."""
_LARGEST = 1 << 20
_MOST_KEPT = 10_000
_AT_ONCE = 100


class Address(Struct, frozen=True):
    """Where a worker listens. Who does not know the secret is not heard."""

    place: str
    secret: str


class _Parcel(Struct):
    secret: str
    rows: list[MetricRow]


class MetricsInbox:
    """The worker's end. Made and closed inside a running event loop."""

    def __init__(self, registry: MetricsRegistry) -> None:
        """Raises OSError where the machine gives no such socket."""
        self._registry = registry
        self._folder: Path | None = None
        self.address = Address(self._place(), secrets.token_hex(16))
        self._decoder = msgspec.json.Decoder(_Parcel)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(self.address.place)
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self.read)
        except OSError:
            self._socket.close()
            self._remove()
            raise

    def _place(self) -> str:
        name = f"workfleet-{os.getpid()}-{secrets.token_hex(4)}"
        if sys.platform == "linux":
            return f"\0{name}"  # in no folder, so that nothing stays behind when this process is killed
        self._folder = Path(tempfile.mkdtemp(prefix="wf"))
        return str(self._folder / "m")

    def read(self) -> None:
        """Count what has arrived."""
        for _ in range(_AT_ONCE):
            try:
                message = self._socket.recv(_LARGEST)
            except OSError:
                return
            try:
                parcel = self._decoder.decode(message)
            except msgspec.MsgspecError:
                continue
            if hmac.compare_digest(parcel.secret, self.address.secret):
                self._registry.absorb(parcel.rows)

    def close(self) -> None:
        """Count what is still there, and listen no more."""
        self.read()
        asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._socket.close()
        self._remove()

    def _remove(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def enqueues_counted(registry: MetricsRegistry) -> Callable[[Event], None]:
    """A subscriber that counts the jobs which code in this child puts on queues, as the worker counts its own."""

    def hear(event: Event) -> None:
        if isinstance(event, JobEnqueued) and event.created:
            registry.counter(ENQUEUED, labels={"job": event.name, "queue": event.queue})

    return hear


class MetricsOutbox:
    """The child's end: a thread that sleeps until something is measured."""

    def __init__(self, registry: MetricsRegistry, address: Address) -> None:
        self._registry, self._address = registry, address
        self._rows: deque[MetricRow] = deque()
        self._measured, self._ending = threading.Event(), threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.settimeout(_LONGEST_S)
        self._thread = threading.Thread(target=self._run, name="workfleet metrics", daemon=True)
        registry.when_measured(self._measured.set)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.is_set():
            self._measured.wait()
            self._ending.wait(_SOON_S)  # what is measured meanwhile goes along
            self._measured.clear()
            self.send()
        self.send()

    def send(self) -> None:
        """Send all that is new. What the worker does not take is kept for the next time; of too much, the newest."""
        self._rows.extend(self._registry.drain(0))
        size = _BATCH
        while self._rows:
            batch = list(islice(self._rows, size))
            try:
                self._socket.sendto(msgspec.json.encode(_Parcel(self._address.secret, batch)), self._address.place)
            except OSError as error:
                if error.errno != errno.EMSGSIZE:
                    self._lose(max(len(self._rows) - _MOST_KEPT, 0), "buffer_full")
                    return
                if len(batch) == 1:
                    self._lose(1, "too_large")
                    self._measured.set()
                # Long labels or many buckets; the next ones may be short again.
                size = max(len(batch) // 2, 1)
                continue
            for _ in batch:
                self._rows.popleft()
            size = _BATCH

    def _lose(self, count: int, why: DropReason) -> None:
        for _ in range(count):
            self._rows.popleft()
        if count:
            self._registry.drop(why, count)

    def close(self) -> None:
        """Send what is left, and end."""
        self._ending.set()
        self._measured.set()
        self._thread.join(2 * _LONGEST_S)
        self._socket.close()
