"""The application of the log tests: handlers of every kind that log, pools, and destinations of its own."""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import logging
import os
import sys
import time
from pathlib import Path

import structlog

from workfleet import App, Job, LogLine, Pool, process, public

HERE = Path(os.environ["TEST_FOLDER"])
SECRET = "hunter2"
app = App("logged", store=f"sqlite:///{HERE / 'store.db'}")
plain = logging.getLogger("shop")
rich = structlog.get_logger("shop.images")


def say(where: str) -> None:
    plain.info("%s by logging", where)
    rich.info(f"{where} by structlog", size=640)


@process("makers", size=1)
class Maker:
    @public
    def make(self, where: str) -> int:
        say(where)
        return os.getpid()

    @public
    def speak(self, _nothing: None) -> None:
        libc = ctypes.CDLL(None)
        libc.puts(b"from C to stdout")
        libc.fflush(None)
        os.write(2, b"raw on stderr\n")
        sys.stdout.write("begun ")
        sys.stdout.flush()
        plain.warning("password='%s'", SECRET, extra={"deep": {"api_key": SECRET, "iban": "DE1"}})
        logging.getLogger("shop.noisy").info("a child's level")
        logging.getLogger("shop.noisy").error("a child's error")
        plain.debug("a child's debug")
        try:
            raise ValueError(f"redis://:{SECRET}@host")
        except ValueError:
            rich.exception("failed in a child")

    @public
    def die(self, _nothing: None) -> None:
        os.write(2, b"famous last words token='hunter2'\n")
        faulthandler._sigsegv()  # type: ignore[attr-defined]


@app.handler("in_loop", queue="q")
async def in_loop(job: Job[None], makers: Pool[Maker]) -> None:
    say("loop")
    await asyncio.create_task(_task())
    await asyncio.to_thread(say, "to_thread")
    await makers.make("call")


async def _task() -> None:
    say("task")


@app.handler("in_thread", queue="q")
def in_thread(job: Job[None]) -> None:
    say("thread")


@app.handler("in_pool", queue="q", pool="cpu")
def in_pool(job: Job[None]) -> None:
    job.log("said by job.log")
    say("pool")
    plain.debug("debug in a pool")


@app.schedule("tick", run_on_start=True)
async def tick() -> None:
    say("schedule")


@app.handler("speak", queue="q", attempts=1)
async def speak(job: Job[None], makers: Pool[Maker]) -> None:
    plain.info("in the worker", extra={"password": SECRET, "iban": "DE1"})
    await makers.speak(None)


@app.handler("die", queue="q", attempts=1)
async def die(job: Job[None], makers: Pool[Maker]) -> None:
    await makers.die(None)


@app.handler("many", queue="q", attempts=1)
async def many(job: Job[int]) -> None:
    for number in range(job.data):
        plain.info("line %d %s", number, "x" * 200)


@app.handler("raises", queue="q", attempts=2, backoff="1ms")
async def raises(job: Job[None]) -> None:
    plain.warning("before the end of attempt %d", job.attempt)
    raise ValueError("no")


@app.handler("wait", queue="q")
async def wait(job: Job[str]) -> None:
    plain.info("waiting")
    while not (HERE / job.data).exists():
        await asyncio.sleep(0.02)
    plain.info("waited")


def note(name: str, text: str) -> None:
    with (HERE / name).open("a") as file:
        file.write(f"{text}\n")


@app.log_destination("notes", level="debug")
def to_notes(line: LogLine) -> None:
    note("notes", line.json())
    if os.environ.get("TEST_TROUBLE") == "throws":
        raise RuntimeError(f"no network: token='{SECRET}'")
    if os.environ.get("TEST_TROUBLE") == "logs":
        logging.getLogger("courier").warning("sent one")
    if os.environ.get("TEST_TROUBLE") == "hangs":
        time.sleep(600)


class Handler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        note("handled", f"{record.levelname} {record.name} {self.format(record)} {getattr(record, 'job', '-')}")


app.log_destination("handled", level="warning")(Handler())
app.jobs.append(Maker)
