"""What an operator tells a worker, as its supervisor carries it out."""

from __future__ import annotations

import signal
from collections.abc import Callable

from tests.supervision.fleet import ScriptedFleet, settle_down

StartFleet = Callable[..., ScriptedFleet]


async def test_a_recycled_worker_is_drained_and_replaced_at_once(start: StartFleet) -> None:
    fleet = start(scripts=["recycle", "work"])
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    await fleet.ready()
    first, second = fleet.worker_pids()
    assert fleet.alive() == [second]
    assert first != second
    assert [kind for kind, _ in fleet.lines("heard")] == ["Drain"]
    assert fleet.events("worker.died") == []
    assert fleet.events("service.restarted") == []
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert (fleet.summary["completed"], fleet.summary["crashes"]) == (10, 0)


async def test_recycling_again_and_again_is_no_crash_loop(start: StartFleet) -> None:
    fleet = start(scripts=["recycle"] * 8 + ["work"])
    await fleet.until(lambda: len(fleet.worker_pids()) == 9)
    await fleet.ready()
    assert fleet.events("service.restarted") == []


async def test_a_worker_that_was_told_to_stop_is_not_replaced(start: StartFleet) -> None:
    fleet = start(scripts=["stop", "work"], options={"processes": 1})
    assert await fleet.exit_code() == 0
    assert len(fleet.worker_pids()) == 1
    assert fleet.summary["reason"] == "every worker was told to stop"
    assert (fleet.summary["completed"], fleet.summary["crashes"]) == (5, 0)
    status = fleet.status()
    assert status is not None
    assert [(worker.state, worker.instruction) for worker in status.workers] == [("stopped", "stop")]


async def test_the_others_go_on_when_one_is_told_to_stop(start: StartFleet) -> None:
    fleet = start(script="work", scripts_of={"1": "stop"}, options={"processes": 2})
    await fleet.until(lambda: (status := fleet.status()) and [w.state for w in status.workers] == ["ready", "stopped"])
    await settle_down()
    assert fleet.process.poll() is None
    assert fleet.alive() == fleet.worker_pids(index=0)
    assert len(fleet.worker_pids(index=1)) == 1
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert fleet.summary["reason"] == "stopped by SIGTERM"


async def test_a_quiet_worker_runs_on_and_the_status_says_so(start: StartFleet) -> None:
    fleet = start(script="quiet")
    await fleet.ready()
    status = fleet.status()
    assert status is not None
    assert [(worker.state, worker.instruction) for worker in status.workers] == [("ready", "quiet")]
    assert fleet.lines("heard") == []


async def test_one_that_does_not_drain_is_killed_gives_back_and_is_replaced(start: StartFleet) -> None:
    fleet = start(scripts=["recycle-deaf", "work"], options={"shutdown_timeout_ms": 300})
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    await fleet.ready()
    assert [(job, outcome) for job, outcome, _ in fleet.journal("settle")] == [("job-0-0", "given_back")]
    assert fleet.events("worker.died") == []
    assert fleet.events("service.restarted") == []
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 1
    assert fleet.summary["refused"] == ["worker 0 did not stop in time"]
