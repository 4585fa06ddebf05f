"""What a handler notes while it is measured: when the first run began and the last one ended, or how late each began.

The standard library alone, because peers' programs import it in environments of their own. What is noted must not slow
down what is measured: a count for each run, a file for the first and the last."""

from __future__ import annotations

import itertools
import mmap
import os
import struct
import time
from pathlib import Path

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
SIZE = int(os.environ.get("BENCH_SIZE", "0"))
REDIS = os.environ.get("BENCH_REDIS", "")
"""The server of a bench on Redis, as a URL."""
CONCURRENCY = int(os.environ.get("BENCH_CONCURRENCY", "1"))
WARM = 5
"""Jobs that are run before latencies are taken."""


class Marks:
    """The runs of this process. Times are `time.time()`, latencies are of the monotonic clock, which all processes of
    a machine share. Beside a time stands, in `<name>.cpu`, the processor time that this process had used then."""

    def __init__(self) -> None:
        self._runs = itertools.count(1)

    def run(self) -> None:
        """A run that does nothing else. It may be called from several threads: counting is one step."""
        runs = next(self._runs)
        if runs == 1:
            self._note("first")
        if runs == SIZE:
            self._note("last")

    def began(self, sent_ns: int) -> None:
        """A run has begun whose job was sent at this instant; 0: it only warms up."""
        late_ns = time.monotonic_ns() - sent_ns
        with (FOLDER / ("latencies" if sent_ns else "warm")).open("a") as file:
            file.write(f"{late_ns}\n")

    def _note(self, name: str) -> None:
        (FOLDER / f"{name}.cpu").write_text(repr(time.process_time()))
        place = FOLDER / f"{name}.new"
        place.write_text(repr(time.time()))
        place.rename(FOLDER / name)


def mail(number: int, sent_ns: int = 0) -> dict[str, object]:
    """What a peer's job carries: the fields of ours, in a plain dictionary, which is what peers handle fastest."""
    return {
        "user_id": number,
        "address": f"user{number}@example.org",
        "subject": "Your order has been shipped",
        "tags": ["order", "shipping"],
        "sent_ns": sent_ns,
    }


class Tally:
    """A number in a file, which another process can read at any time."""

    def __init__(self, place: Path) -> None:
        place.write_bytes(bytes(8))
        with place.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 8)
        self._count = 0

    def add(self) -> None:
        self._count += 1
        struct.pack_into("<Q", self._map, 0, self._count)


def lines(name: str) -> int:
    """How many lines a file of the folder has."""
    place = FOLDER / name
    return place.read_text().count("\n") if place.exists() else 0


def wait_for_lines(name: str, count: int, within_s: float = 30.0) -> None:
    """Until a file has that many lines. Raises SystemExit when it does not come to that."""
    give_up = time.monotonic() + within_s
    while lines(name) < count:
        if time.monotonic() > give_up:
            raise SystemExit(f"{lines(name)} of {count} jobs had begun after {within_s:.0f} s")
        time.sleep(0.02)
