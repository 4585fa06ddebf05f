"""The supervisors of a soak: started, killed, started again. Knows which jobs a process held when it was killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil

from workfleet.model.jobs import JobState
from workfleet.ports.jobs import JobQuery
from workfleet.ports.stores import Store

from .patience import patiently

PROGRAM = Path(__file__).parent / "program.py"
_STOP_WITHIN_S = 45.0
_GONE_WITHIN_S = 20.0


class Fleet:
    """`supervisors` of `workfleet run --processes workers`, on one store and on one machine."""

    def __init__(
        self, folder: Path, url: str, supervisors: int, workers: int, queues: int, draw: random.Random
    ) -> None:
        self._folder, self._url, self._workers, self._queues, self._draw = folder, url, workers, queues, draw
        self._supervisors: list[subprocess.Popen[bytes]] = []
        self.in_flight = self.worker_kills = self.supervisor_kills = self.none_was_up = 0
        self.ended_alone: list[int] = []
        self._none_since: float | None = None
        for _ in range(supervisors):
            self._supervisors.append(self._start(len(self._supervisors)))

    def _start(self, index: int) -> subprocess.Popen[bytes]:
        ours = ("WORKER_", "WORKFLEET_", "REDIS_", "DB_")
        environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        environ |= {
            "SOAK_FOLDER": str(self._folder),
            "SOAK_QUEUES": str(self._queues),
            "SOAK_STORE": self._url,
            "WORKER_STATUS_FILE": str(self._folder / f"status-{index}.json"),
        }
        command = [sys.executable, "-m", "workfleet", "run", str(PROGRAM), "--processes", str(self._workers)]
        with (self._folder / f"log-{index}").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._folder, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def keep_up(self) -> None:
        """Start again what has ended without being killed, and remember its exit code."""
        for index, supervisor in enumerate(self._supervisors):
            if (code := supervisor.poll()) is not None:
                self.ended_alone.append(code)
                self._supervisors[index] = self._start(index)

    async def kill_worker(self, store: Store, patience_s: float) -> bool:
        """SIGKILL one worker process that works, chosen at random. False when none has done for so many seconds.

        It is stopped first, so that what it holds cannot change between the count and its death, which waits for a
        store that is down. A supervisor waits ever longer before it starts a worker again that dies often: all may
        be waiting."""
        known = {record.identity.pid: record.id for record in await patiently(store.fleet.workers)}
        victims = [each for each in self._family(self._supervisors) if each.pid in known and _is_alive(each)]
        if not victims:
            self._none_since = self._none_since or time.monotonic()
            if time.monotonic() - self._none_since < patience_s:
                return True
            self._none_since = None
            self.none_was_up += 1
            return False
        self._none_since = None
        victim = self._draw.choice(victims)
        with suppress(psutil.NoSuchProcess):
            victim.send_signal(signal.SIGSTOP)
            try:
                self.in_flight += len(await _held(store, {known[victim.pid]}))
            finally:
                victim.send_signal(signal.SIGKILL)
            self.worker_kills += 1
        return True

    async def kill_supervisor(self, store: Store) -> None:
        """SIGKILL a supervisor. Its workers end themselves; what they hold until then counts. Then start it again."""
        index = self._draw.randrange(len(self._supervisors))
        supervisor = self._supervisors[index]
        workers = self._family([supervisor])
        pids = {each.pid for each in workers}
        ids = {record.id for record in await patiently(store.fleet.workers) if record.identity.pid in pids}
        supervisor.kill()
        supervisor.wait()
        held: set[tuple[str, str | None]] = set()
        give_up = time.monotonic() + _GONE_WITHIN_S
        while True:
            alive = any(_is_alive(each) for each in workers)
            held |= await _held(store, ids)
            if not alive:
                break
            if time.monotonic() > give_up:
                raise RuntimeError(f"workers of a killed supervisor live on after {_GONE_WITHIN_S:.0f} s")
        self.in_flight += len(held)
        self.supervisor_kills += 1
        self._supervisors[index] = self._start(index)

    def stop(self) -> None:
        """SIGTERM, and after a while SIGKILL, to all. Nothing of them stays."""
        family = self._family(self._supervisors)
        for supervisor in self._supervisors:
            supervisor.terminate()
        for supervisor in self._supervisors:
            with suppress(subprocess.TimeoutExpired):
                supervisor.wait(_STOP_WITHIN_S)
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for supervisor in self._supervisors:
            supervisor.kill()
            supervisor.wait()

    def _family(self, supervisors: Collection[subprocess.Popen[bytes]]) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for supervisor in supervisors:
            with suppress(psutil.NoSuchProcess):
                found += psutil.Process(supervisor.pid).children(recursive=True)
        return found


async def _held(store: Store, workers: set[str]) -> set[tuple[str, str | None]]:
    """The claims that these workers hold, as job and token."""
    query = JobQuery(states=(JobState.ACTIVE,), limit=10_000, housekeeping=False)
    found = await patiently(lambda: store.jobs.find(query))
    return {(record.id, record.token) for record in found if record.worker in workers}


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
