"""Exceptions that fight back when they are looked at: each is its own job's failure, and nothing else is harmed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.queues.rig import Rig, until
from workfleet.errors import Fail, Retry
from workfleet.model.jobs import JobState
from workfleet.queues.failures import failure_of, raised


class TrapClass(Exception):
    """Asking for its class ends the process."""

    @property
    def __class__(self) -> Any:
        raise SystemExit(9)


class TrapAttributes(Exception):
    """Asking for anything ends the process."""

    def __getattribute__(self, name: str) -> Any:
        raise KeyboardInterrupt(name)


class TrapNotes(Exception):
    @property
    def __notes__(self) -> Any:
        raise SystemExit(9)


class TrapCode(Fail):
    @property
    def code(self) -> str:  # type: ignore[override]
        raise SystemExit(9)


class TrapAfter(Retry):
    def __init__(self) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name == "after":
            raise SystemExit(9)
        return super().__getattribute__(name)


class Strange(str):
    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise SystemExit(9)


class TrapText(Exception):
    def __str__(self) -> str:
        return Strange("strange")


class TrapName(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__qualname__":
            raise SystemExit(9)
        return super().__getattribute__(name)


class Unnamed(Exception, metaclass=TrapName):
    pass


TRAPS = [TrapClass, TrapAttributes, TrapNotes, TrapCode, TrapAfter, TrapText, Unnamed]


@pytest.mark.parametrize("trap", TRAPS, ids=range(len(TRAPS)))
@pytest.mark.parametrize("in_thread", [False, True])
async def test_it_fails_its_job_and_the_worker_goes_on(rig: Rig, trap: type[Exception], *, in_thread: bool) -> None:
    async def hostile(job: Any) -> None:
        raise trap

    def hostile_in_thread(job: Any) -> None:
        raise trap

    async def quiet(job: Any) -> str:
        return "done"

    rig.on(hostile_in_thread if in_thread else hostile, name="hostile")
    rig.on(quiet)
    async with rig:
        failed = await rig.finished(await rig.enqueue("hostile"))
        after = await rig.finished(await rig.enqueue("quiet"))
        await until(lambda: rig.exchange.active == 0)
    assert failed.state is JobState.FAILED
    assert failed.failure is not None
    assert failed.failure.code in ("raised", "failed")
    assert after.state is JobState.COMPLETED


def test_what_can_be_read_of_them_is_kept() -> None:
    said = failure_of(TrapClass("boom"))
    assert (said.type, said.message) == (f"{__name__}.TrapClass", "boom")
    assert failure_of(TrapText()).message == "strange"
    assert failure_of(Unnamed()).type == f"{__name__}.(unnamed)"
    assert raised(TrapCode("no")).kind == "failed"
    ended = raised(TrapAfter())
    assert (ended.kind, ended.failure and ended.failure.type) == ("failed", "SystemExit")
