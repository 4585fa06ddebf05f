"""Real processes really killed: who notices, who takes over, who is left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.supervision.fleet import ScriptedFleet, settle_down

StartFleet = Callable[..., ScriptedFleet]


async def test_a_killed_worker_is_replaced_and_its_job_taken_over_at_once(start: StartFleet) -> None:
    fleet = start(script="work", lease_ms=30_000)
    await fleet.ready()
    (first,) = fleet.worker_pids()
    os.kill(first, signal.SIGKILL)
    await fleet.until(lambda: len(fleet.worker_pids()) == 2, seconds=5)
    worker = fleet.lines("claims.jsonl")[0][1]
    how = f"the process of worker {worker} was killed by SIGKILL"
    # Recovered before the next one started, and without waiting for the lease.
    assert fleet.journal("settle") == [["job-0-0", "crashed", how]]
    (taker,) = fleet.journal("take_over")
    assert fleet.journal("register") == [[taker, fleet.process.pid]]
    assert fleet.journal("forget") == [worker, taker]
    assert fleet.events("worker.died") == [{"pid": first, "how": "was killed by SIGKILL"}]
    await fleet.ready()
    status = fleet.status()
    assert status is not None
    assert (status.workers[0].restarts, status.workers[0].last_exit) == (1, "was killed by SIGKILL")
    assert status.workers[0].id != worker
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert fleet.summary["crashes"] == 1


async def test_a_supervisor_that_dies_with_jobs_in_its_hands_leaves_its_record(start: StartFleet) -> None:
    """By which others see at once that they are nobody's any more."""
    fleet = start(script="work", lease_ms=30_000)
    await fleet.ready()
    (fleet.folder / "no-settle").touch()
    (worker,) = fleet.worker_pids()
    os.kill(worker, signal.SIGKILL)
    await fleet.until(lambda: fleet.journal("take_over"))
    fleet.process.kill()
    await fleet.exit_code()
    assert fleet.journal("register") == [[fleet.journal("take_over")[0], fleet.process.pid]]
    assert (fleet.journal("settle"), fleet.journal("forget")) == ([], [])


async def test_locks_of_a_dead_worker_are_released(start: StartFleet) -> None:
    fleet = start(scripts=["crash-with-job", "work"])
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    worker = fleet.lines("claims.jsonl")[0][1]
    assert fleet.journal("release") == [["ledger", f"{worker}:1"]]
    assert fleet.events("worker.died")[0]["how"] == "was killed by SIGSEGV"


async def test_a_killed_worker_takes_along_what_it_has_started_before_its_jobs_run_again(start: StartFleet) -> None:
    fleet = start(scripts=["family", "work"])
    await fleet.ready()
    (worker,) = fleet.worker_pids()
    assert len(fleet.alive()) == 3
    os.kill(worker, signal.SIGKILL)
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    assert fleet.alive() == fleet.worker_pids()[1:]


async def test_a_killed_supervisor_leaves_no_process_behind(start: StartFleet) -> None:
    fleet = start(script="family", options={"processes": 2})
    await fleet.ready(2)
    assert len(fleet.alive()) == 6
    fleet.process.kill()
    await fleet.until(lambda: not fleet.alive(), seconds=1)


@pytest.mark.full
async def test_a_killed_supervisor_takes_along_a_worker_that_holds_the_interpreter_lock(start: StartFleet) -> None:
    fleet = start(script="hold-the-lock", hold_s=2)
    await fleet.until(lambda: fleet.lines("holding"), seconds=45)
    fleet.process.kill()
    await fleet.until(lambda: not fleet.alive(), seconds=1)
    assert fleet.lines("held") == []


async def test_a_job_that_holds_the_interpreter_lock_for_more_than_two_leases_is_renewed(start: StartFleet) -> None:
    fleet = start(script="hold-the-lock", lease_ms=600, hold_s=1.5)
    await fleet.until(lambda: fleet.lines("holding"), seconds=45)
    before = len(fleet.journal("renew"))
    await fleet.until(lambda: fleet.lines("held"), seconds=40)
    (gap_s,) = fleet.lines("held")
    assert gap_s > 1.2, "the lock was not held for two leases: the test proves nothing"
    renewals = fleet.journal("renew")[before:]
    assert len(renewals) >= gap_s / 0.3  # every third of a lease is 0.2 s
    assert {tuple(jobs) for jobs in renewals} == {("job-0-0",)}
    assert fleet.journal("settle") == []


async def test_a_worker_hears_of_a_claim_that_somebody_else_has(start: StartFleet) -> None:
    fleet = start(script="stolen")
    await fleet.until(lambda: fleet.lines("heard"))
    await settle_down()
    assert fleet.lines("heard") == [["Lost", "stolen"]]


async def test_a_crash_loop_ends_the_run_with_1_and_the_reason(start: StartFleet) -> None:
    fleet = start(script="crash-at-start", options={"processes": 2, "restart": {"first_ms": 1, "limit": 3}})
    assert await fleet.exit_code() == 1
    assert fleet.stderr == "every worker keeps dying at once. The last one exited with code 3\n"
    started = fleet.lines("started")
    assert 6 <= len(started) <= 8
    assert fleet.journal("open") == []


async def test_one_slot_in_a_crash_loop_does_not_end_the_others(start: StartFleet) -> None:
    """The first worker of each place works; only the one that is killed again and again gets slower."""
    fleet = start(scripts=["work"] * 30, options={"processes": 2, "restart": {"first_ms": 1, "limit": 2}})
    await fleet.ready(2)
    for number in range(1, 4):
        os.kill(fleet.worker_pids(index=1)[-1], signal.SIGKILL)
        await fleet.until(lambda number=number: len(fleet.worker_pids(index=1)) > number)
        await fleet.ready(2)
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0


async def test_jobs_that_kill_their_worker_do_not_make_a_crash_loop(start: StartFleet) -> None:
    """They have their own limit: a death with jobs on the board is charged to them."""
    fleet = start(scripts=["crash-with-job"] * 4 + ["work"], options={"restart": {"first_ms": 1, "limit": 2}})
    await fleet.until(lambda: len(fleet.worker_pids()) == 5)
    await fleet.ready()
    assert len(fleet.journal("settle")) == 4


async def test_claims_are_taken_over_once_the_store_answers_again(start: StartFleet) -> None:
    fleet = start(script="work")
    await fleet.ready()
    await fleet.until(lambda: fleet.journal("open"))
    (fleet.folder / "down").touch()
    os.kill(fleet.worker_pids()[0], signal.SIGKILL)
    await fleet.until(lambda: any("taking over" in event["what"] for event in fleet.events("store.trouble")))
    status = fleet.status()
    assert status is not None
    assert fleet.journal("settle") == []
    (fleet.folder / "down").unlink()
    await fleet.until(lambda: fleet.journal("settle"))
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)


async def test_a_stop_does_not_wait_for_a_store_that_is_down(start: StartFleet) -> None:
    fleet = start(script="leave-work", options={"shutdown_timeout_ms": 1_000})
    await fleet.ready()
    await fleet.until(lambda: fleet.journal("open"))
    (fleet.folder / "down").touch()
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code(seconds=15) == 1
    assert fleet.summary["problems"][0].startswith("the store did not answer: jobs that worker")


async def test_a_restarted_worker_that_finds_the_store_down_is_tried_again(start: StartFleet) -> None:
    fleet = start(scripts=["work", "refuse", "refuse", "work"], refusal=3)
    await fleet.ready()
    os.kill(fleet.worker_pids()[0], signal.SIGKILL)
    await fleet.until(lambda: len(fleet.worker_pids()) == 4)
    await fleet.ready()
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0


async def test_a_worker_whose_loop_does_not_move_is_dumped_killed_and_replaced(start: StartFleet) -> None:
    fleet = start(scripts=["block-the-loop", "work"], stuck_after_ms=1_500)
    await fleet.until(lambda: fleet.events("worker.stuck"))
    why = "its event loop has made no progress for 1.5 s"
    (stuck,) = fleet.events("worker.stuck")
    worker = fleet.lines("claims.jsonl")[0][1]
    stack = stuck.pop("stack")
    facts = {"worker": worker, "pid": fleet.worker_pids()[0], "why": why, "active": 1, "jobs": ["tests.job (job-0-0)"]}
    assert stuck == facts
    assert "in user_code_that_blocks" in stack
    await fleet.until(lambda: len(fleet.worker_pids()) == 2)
    assert "in user_code_that_blocks" not in fleet.stderr  # a log of JSON has JSON alone
    how = f"the process of worker {worker} was stuck ({why}) and was killed by its supervisor"
    assert fleet.journal("settle") == [["job-0-0", "crashed", how]]


@pytest.mark.parametrize("script", ["block-the-loop", pytest.param("hold-the-lock", marks=pytest.mark.full)])
async def test_a_worker_that_is_blocked_is_told_while_it_lasts_with_its_job_and_its_stack(
    start: StartFleet, script: str
) -> None:
    """Also where C code holds the interpreter lock, so that nothing of the worker itself could tell. It lives on."""
    fleet = start(script=script, hold_s=6.0, block_s=9.0)
    await fleet.until(lambda: fleet.events("worker.blocked"), seconds=60)
    (told,) = fleet.events("worker.blocked")
    assert (told["pid"], told["jobs"]) == (fleet.worker_pids()[0], ["tests.job (job-0-0)"])
    assert told["blocked_ms"] >= 5_000
    assert ("user_code_that_blocks" if script == "block-the-loop" else "hold_the_interpreter_lock") in told["stack"]
    status = fleet.status()
    assert status is not None
    assert status.workers[0].running == ("tests.job (job-0-0)",)
    await fleet.until(lambda: fleet.events("worker.went_on"), seconds=120)
    (ended,) = fleet.events("worker.went_on")
    assert ended["blocked_ms"] > told["blocked_ms"]
    fleet.signal(signal.SIGTERM)
    assert await fleet.exit_code() == 0
    assert len(fleet.worker_pids()) == 1


async def test_stacks_that_are_asked_for_by_hand_are_an_event(start: StartFleet) -> None:
    fleet = start(script="work")
    await fleet.ready()
    os.kill(fleet.worker_pids()[0], signal.SIGUSR2)
    await fleet.until(lambda: fleet.events("worker.dumped"))
    assert "most recent call first" in fleet.events("worker.dumped")[0]["stack"]
