"""The scheduler processes of a soak: started, killed, started anew with another clock. They are forked from a process
that has read the code already: to read it each time would take the machine longer than a process lives here."""

from __future__ import annotations

import multiprocessing
import random
import time
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess

from tests.soak.scheduling import run
from tests.soak.slot_verdict import Life
from tests.soak.slots import Plan

_UP_WITHIN_S = 120.0
_STOP_WITHIN_S = 15.0
_READ_BEFORE = [
    "tests.soak.scheduling",
    "workfleet.stores.sqlite.store",
    "workfleet.stores.redis.store",
    "workfleet.observe.metrics.sqlite",
    "uvloop",
]


def context() -> ForkServerContext:
    """Where processes come from."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(_READ_BEFORE)
    return found


@dataclass
class _Running:
    number: int
    skew_ms: int
    process: ForkServerProcess
    killed_ns: int | None = None


class Schedulers:
    """So many processes at a time, whose clocks are off by up to `skew_ms` in both directions; of the first two, by
    just that. Half of the clocks are one of three, so that processes whose clocks agree compete for the same slots."""

    def __init__(self, plan: Plan, processes: int, skew_ms: int, draw: random.Random) -> None:
        self._plan, self._skew_ms, self._draw = plan, skew_ms, draw
        self._context = context()
        self._all: list[_Running] = []
        self._living: list[_Running] = []
        self.kills = self.none_was_up = 0
        self.ended_alone: list[int | None] = []
        for index in range(processes):
            self._start({0: skew_ms, 1: -skew_ms}.get(index))

    def _start(self, skew_ms: int | None = None) -> None:
        number = len(self._all)
        skewed = self._drawn_ms() if skew_ms is None else skew_ms
        process = self._context.Process(target=run, args=(self._plan, number, skewed))
        process.start()
        self._all.append(_Running(number, skewed, process))
        self._living.append(self._all[-1])

    def _drawn_ms(self) -> int:
        shared = self._draw.choice((-self._skew_ms, 0, self._skew_ms))
        return self._draw.choice((shared, self._draw.randint(-self._skew_ms, self._skew_ms)))

    def up(self) -> list[_Running]:
        """Those that have begun to work."""
        return [each for each in self._living if self._up_ns(each) is not None]

    def wait_until_up(self) -> None:
        """Until all work. Raises RuntimeError for one that ends, and when it takes too long."""
        give_up = time.monotonic() + _UP_WITHIN_S
        while len(self.up()) < len(self._living):
            codes = [each.process.exitcode for each in self._living if not each.process.is_alive()]
            if codes or time.monotonic() > give_up:
                logs = [self._plan.folder / f"log-{each.number}" for each in self._all]
                said = "".join(place.read_text() for place in logs if place.exists())
                raise RuntimeError(f"the processes do not come up: exit codes {codes}\n{said}")
            time.sleep(0.02)

    def keep_up(self) -> None:
        """Start anew what has ended without being killed, and remember how."""
        for ended in [each for each in self._living if not each.process.is_alive()]:
            self.ended_alone.append(ended.process.exitcode)
            self._living.remove(ended)
            self._start()

    def kill(self) -> None:
        """SIGKILL one that works, chosen at random, and start another one in its place."""
        if not (up := self.up()):
            self.none_was_up += 1
            return
        victim = self._draw.choice(up)
        victim.process.kill()
        victim.killed_ns = time.time_ns()
        victim.process.join()
        self.kills += 1
        self._living.remove(victim)
        self._start()

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL, to all. Nothing of them stays."""
        for each in self._living:
            each.process.terminate()
        give_up = time.monotonic() + _STOP_WITHIN_S
        for each in self._living:
            each.process.join(max(give_up - time.monotonic(), 0))
        self.end()

    def end(self) -> None:
        """SIGKILL to all."""
        for each in self._living:
            each.process.kill()
            each.process.join()
        self._living = []

    def lives(self) -> list[Life]:
        """When each worked, and by which clock."""
        found = ((each, self._up_ns(each)) for each in self._all)
        return [Life(each.skew_ms, up_ns, each.killed_ns) for each, up_ns in found if up_ns is not None]

    def _up_ns(self, running: _Running) -> int | None:
        place = self._plan.folder / f"notes-{running.number}"
        lines = place.read_text().splitlines() if place.exists() else []
        return next((int(line.split()[0]) for line in lines if line.split()[1] == "up"), None)


def time_to_start(plan: Plan, processes: int) -> float:
    """How many seconds so many processes take from their start until they work, on this machine at this moment; the
    code is read before."""
    reading = context().Process(target=_nothing)
    reading.start()
    reading.join()
    fleet, begun = Schedulers(plan, processes, 0, random.Random()), time.monotonic()
    try:
        fleet.wait_until_up()
        return time.monotonic() - begun
    finally:
        fleet.end()


def _nothing() -> None: ...
