"""What a worker asks of its store while it has nothing to do, on any store."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.faults.fast import FastClock, FastLoop
from workfleet import App, Job
from workfleet.app.builtins import Basis
from workfleet.app.composition import compose
from workfleet.app.runtime import Runtime
from workfleet.app.runtime_options import RuntimeOptions
from workfleet.bus import Bus
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.testing import FaultyStore

HERE = {"now_ms", "jobs.wait", "jobs.wait_for_cancels", "jobs.next_due_ms", "schedules.wait"}
"""What only waits in this process, or is answered from what the last claim said."""
_MINUTES = 2


def idle() -> App:
    app = App("idle")

    @app.handler("work", queue="work")
    async def work(job: Job[int]) -> int:
        return job.data

    return app


async def asked(url: str) -> Counter[str]:
    """The calls of some minutes, after the start."""
    clock = FastClock()
    store = FaultyStore(await open_store(url, app="idle", clock=clock, create=True), clock=clock)

    async def opened(_url: str, **_how: Any) -> Store:
        return store

    basis = Basis(compose(idle(), cli={"store": url}), clock, Bus(), "w1", opened)
    runtime = Runtime(basis, RuntimeOptions(worker="w1"))
    await runtime.start()
    await clock.sleep(15)
    before = len(store.calls)
    await clock.sleep(60 * _MINUTES)
    calls = Counter(store.calls[before:])
    await runtime.stop(1_000)
    return Counter({name: number for name, number in calls.items() if name not in HERE})


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_idle_worker_asks_seldom(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    with asyncio.Runner(loop_factory=FastLoop) as runner:
        calls = runner.run(asked(url))
    assert calls.total() <= 30 * _MINUTES, dict(calls)
    # A poll is one call, with the heartbeat's job and the job that it enqueues every 30 s, and the reaper's look.
    assert 6 * _MINUTES - 3 <= calls["pulse"] <= 6 * _MINUTES + 1, dict(calls)
    assert calls["jobs.claim"] <= 5 * _MINUTES, dict(calls)
    assert calls["schedules.all"] <= _MINUTES + 1, dict(calls)
