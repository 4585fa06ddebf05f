"""A worker that does what `config["script"]` says, and speaks the real protocol about it.

`config["scripts"]` is a list instead, one for each life of the worker (the last one for all later ones);
`config["scripts_of"]` has one for a worker by its index. Every worker
appends its pid to `pids` in `config["folder"]`, and the pids of what it starts.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from workfleet.clock import SystemClock
from workfleet.model.jobs import Claim
from workfleet.supervision import descendants
from workfleet.supervision.board import Board
from workfleet.supervision.control import (
    Beat,
    Bye,
    Drain,
    FromSupervisor,
    Hello,
    Lost,
    Ready,
    Refused,
    Told,
    read_order,
)
from workfleet.supervision.lifeline import die_with_parent, dump_on_signal, end_group, leave_signals_to_parent
from workfleet.supervision.link import WorkerEnd

ORDER = read_order(os.environ)
CONFIG: dict[str, Any] = ORDER.config
FOLDER = Path(CONFIG["folder"])
SCRIPTS: list[str] = CONFIG.get("scripts") or [CONFIG.get("scripts_of", {}).get(str(ORDER.index)) or CONFIG["script"]]
SCRIPT = SCRIPTS[min(ORDER.restarts, len(SCRIPTS) - 1)]


def note(name: str, value: object) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(json.dumps(value) + "\n")


class Worker:
    def __init__(self) -> None:
        self.board = Board.attach(ORDER.board_fd, clock=SystemClock())
        self.end = WorkerEnd(ORDER.control_fd, self.hear, end_group)
        self.draining = asyncio.Event()
        self.slots: list[int] = []

    def hear(self, message: FromSupervisor) -> None:
        note("heard", [type(message).__name__, message.claim.job_id if isinstance(message, Lost) else None])
        if isinstance(message, Drain):
            self.draining.set()

    def hello(self) -> None:
        hello = Hello(
            worker_id=ORDER.worker_id,
            pid=os.getpid(),
            app="test",
            store=f"folder://{FOLDER}",
            lease_ms=CONFIG.get("lease_ms", 600),
            max_crashes=3,
            stuck_after_ms=CONFIG.get("stuck_after_ms", 60_000),
            shutdown_timeout_ms=10_000,
            status_file=str(FOLDER / "status.json"),
        )
        self.end.send(hello)

    def claim(self, job: str) -> None:
        note("claims.jsonl", [job, ORDER.worker_id])
        self.slots.append(self.board.put(Claim(job, f"token-{job}", "q"), label="tests.job"))

    def beat(self, *, completed: int = 0, failed: int = 0, unready: tuple[str, ...] = ()) -> None:
        self.board.beat()
        self.end.send(
            Beat(
                active=len(self.slots),
                completed=completed,
                failed=failed,
                loop_lag_ms=0,
                store_ok_ms=int(time.monotonic() * 1000),
                store_error=None,
                unready=unready,
                pools={"images": {"size": 2}},
            )
        )

    def bye(self, *, completed: int = 0, failed: int = 0, refused: tuple[str, ...] = ()) -> None:
        self.end.send(Bye(completed=completed, failed=failed, given_back=len(self.slots), refused=refused))
        self.end.close()

    async def work(self) -> None:
        """Beats until it is told to stop."""
        while not self.draining.is_set():
            self.beat(completed=5, failed=1)
            try:
                async with asyncio.timeout(CONFIG.get("beat_s", 0.05)):
                    await self.draining.wait()
            except TimeoutError:
                pass


async def play() -> int:
    worker = Worker()
    if SCRIPT == "refuse":
        worker.end.send(Refused(exit_code=CONFIG["refusal"], message="two problems:\n  - a\n  - b"))
        worker.end.close()
        return int(CONFIG["refusal"])
    if SCRIPT == "silent-78":
        return 78
    if SCRIPT == "crash-at-start":
        return 3
    if SCRIPT == "slow-start":
        time.sleep(60)
    worker.hello()
    worker.end.send(Ready())
    job = f"job-{ORDER.index}-{ORDER.restarts}"
    if SCRIPT == "idle":
        worker.bye(completed=4, failed=2)
    elif SCRIPT == "work":
        worker.claim(job)
        await worker.work()
        worker.board.clear(worker.slots.pop())
        worker.bye(completed=5, failed=1)
    elif SCRIPT in ("stop", "recycle"):
        worker.claim(job)
        worker.end.send(Told("quiet"))
        worker.end.send(Told(None))
        worker.end.send(Told(SCRIPT))
        worker.end.send(Told(None))  # too late
        await worker.work()
        worker.board.clear(worker.slots.pop())
        worker.bye(completed=5)
    elif SCRIPT == "quiet":
        worker.end.send(Told("quiet"))
        await worker.work()
        worker.bye()
    elif SCRIPT == "recycle-deaf":
        worker.claim(job)
        worker.end.send(Told("recycle"))
        await worker.work()
        await asyncio.Event().wait()
    elif SCRIPT == "leave-work":
        worker.claim(job)
        await worker.work()
        worker.bye(refused=("exchange",))
    elif SCRIPT == "stolen":
        worker.claim("stolen")
        await worker.work()
        worker.bye()
    elif SCRIPT == "crash-with-job":
        worker.claim(job)
        worker.board.put_lock("ledger", f"{ORDER.worker_id}:1", ttl_ms=60_000)
        worker.beat(completed=1)
        os.kill(os.getpid(), signal.SIGSEGV)
    elif SCRIPT == "deaf":
        worker.claim(job)
        await worker.work()
        await asyncio.Event().wait()
    elif SCRIPT == "linger":
        worker.bye(completed=1)
        threading.Thread(target=time.sleep, args=(60,)).start()
    elif SCRIPT == "family":
        start_family()
        await worker.work()
        worker.bye()
    elif SCRIPT == "orphans":
        for _ in range(3):
            start_stray()
        await worker.work()
        worker.bye()
    elif SCRIPT == "stray":
        start_stray()
        await worker.work()
        worker.bye()
    elif SCRIPT == "hold-the-lock":
        worker.claim(job)
        worker.beat()
        hold_the_interpreter_lock(CONFIG["hold_s"])
        await worker.work()
        worker.bye()
    elif SCRIPT == "block-the-loop":
        worker.claim(job)
        worker.beat()
        user_code_that_blocks(CONFIG.get("block_s", 60))
        await worker.work()
        worker.bye()
    return 0


def user_code_that_blocks(seconds: float) -> None:
    time.sleep(seconds)


def start_family() -> None:
    """A child and a grandchild, as user code may start them; a well-behaved one and one that ignores signals."""
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    note("pids", int(child.stdout.readline()))
    note("pids", child.pid)


def start_stray() -> None:
    """What a child of a pool left behind when it died: in a session of its own, and nobody's child."""
    mark = {descendants.VARIABLE: descendants.with_mark(descendants.new_mark())}
    code = "import os, subprocess; print(subprocess.Popen(['sleep', '60'], stdout=subprocess.DEVNULL).pid, flush=True)"
    stray = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | mark,
    )
    note("pids", int(stray.stdout))


def hold_the_interpreter_lock(seconds: float) -> None:
    """One call of C code that never lets go of it: a regular expression that backtracks. A thread measures the gap."""
    size, took = 16, 0.0
    while took < seconds / 4:
        size += 1
        started = time.thread_time()  # not the clock's: a busy machine would make the call seem long enough
        re.match(r"(a+)+$", "a" * size + "b")
        took = time.thread_time() - started
    ticks: list[float] = []
    threading.Thread(target=tick, args=(ticks,), daemon=True).start()
    note("holding", 1)
    re.match(r"(a+)+$", "a" * (size + 2) + "b")  # four times as long
    time.sleep(0.1)
    note("held", max(after - before for before, after in itertools.pairwise(ticks)))


def tick(ticks: list[float]) -> None:
    while True:
        ticks.append(time.monotonic())
        time.sleep(0.01)


if __name__ == "__main__":
    die_with_parent(ORDER.lifeline_fd, ORDER.supervisor_pid)
    leave_signals_to_parent()
    dump_on_signal(ORDER.stacks_fd)
    note("pids", os.getpid())
    note("started", [ORDER.index, ORDER.restarts, os.getpid()])
    sys.exit(asyncio.run(play()))
