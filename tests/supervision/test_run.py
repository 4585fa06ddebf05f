"""The state of a run: which reason and exit code stand, and how the budget of a stop is spent."""

from __future__ import annotations

import msgspec
import pytest

from tests.supervision.fakes import SteppingClock
from workfleet.app.supervisor.options import SupervisorOptions
from workfleet.app.supervisor.run import Run
from workfleet.supervision.control import Bye, Hello

HELLO = Hello(
    worker_id="w",
    pid=1,
    app="shop",
    store="x",
    lease_ms=1,
    max_crashes=3,
    stuck_after_ms=1,
    shutdown_timeout_ms=20_000,
    status_file=None,
)


class Runs:
    def __init__(self) -> None:
        self.clock, self.said = SteppingClock(), list[str]()

    def run(self, *, shutdown_timeout_ms: int | None = None) -> Run:
        options = SupervisorOptions(app="a", shutdown_timeout_ms=shutdown_timeout_ms)
        return Run(options, self.clock, self.said.append)


@pytest.fixture
def runs() -> Runs:
    return Runs()


def test_a_refusal_is_said_once_however_many_workers_meet_it(runs: Runs) -> None:
    run = runs.run()
    run.refuse(78, "two problems")
    run.refuse(78, "two problems")
    run.refuse(78, "")
    assert runs.said == ["two problems"]
    assert (run.exit_code, run.state, run.summary.reason) == (78, "draining", "two problems")


def test_the_first_exit_code_and_reason_stand_unless_a_second_signal_comes(runs: Runs) -> None:
    run = runs.run()
    run.told_to_stop("SIGTERM")
    run.refuse(1, "every worker keeps dying")
    run.refuse(78, "another")
    assert (run.exit_code, run.summary.reason, run.killed.is_set()) == (1, "stopped by SIGTERM", False)
    run.told_to_stop("SIGINT")
    assert (run.exit_code, run.summary.reason, run.killed.is_set()) == (130, "stopped at once by a second signal", True)


def test_a_worker_that_is_ready_late_does_not_end_the_stop(runs: Runs) -> None:
    run = runs.run()
    run.stop("enough")
    run.ready()
    assert (run.state, run.ever_ready) == ("draining", True)


def test_the_budget_comes_from_the_options_else_from_the_settings_else_it_is_25_s(runs: Runs) -> None:
    assert runs.run().shutdown_timeout_ms == 25_000
    told = runs.run()
    told.greeted(HELLO)
    told.greeted(msgspec.structs.replace(HELLO, shutdown_timeout_ms=1))
    assert told.shutdown_timeout_ms == 20_000
    assert runs.run(shutdown_timeout_ms=0).shutdown_timeout_ms == 0


def test_workers_get_what_is_left_of_the_budget_less_a_moment_to_close(runs: Runs) -> None:
    run = runs.run(shutdown_timeout_ms=25_000)
    assert (run.budget_left_s, run.drain_ms) == (25.0, 23_000)
    run.stop("enough")
    runs.clock.seconds += 20
    run.stop("again")
    assert (run.budget_left_s, run.drain_ms) == (5.0, 4_000)
    runs.clock.seconds += 20
    assert (run.budget_left_s, run.drain_ms) == (0.0, 0)


def test_what_workers_did_is_added_up(runs: Runs) -> None:
    run = runs.run()
    run.count(Bye(completed=1, failed=2, given_back=3, refused=("a",), problems=("p",)))
    run.count(None)
    run.count(Bye(completed=10, failed=20, given_back=30, refused=("b",)))
    summary = run.summary
    assert (summary.completed, summary.failed, summary.given_back) == (11, 22, 33)
    assert (summary.refused, summary.problems) == (["a", "b"], ["p"])
