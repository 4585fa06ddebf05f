"""`jobs retry|cancel|delete|promote`, by id and by filter: what is asked, said and done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from workfleet.model.jobs import Failure, JobRecord, JobState
from workfleet.model.outcome import Outcome, Settlement
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want
from workfleet.ports.stores import Store

from .conftest import Project, make_project

BEFORE = {
    "f1": "failed",
    "f2": "failed",
    "f3": "failed",
    "kept": "completed",
    "runs": "active",
    "waits": "waiting",
    "yet": "delayed",
}


async def fill(store: Store) -> None:
    """Jobs in every state."""
    fail = Outcome(state=JobState.FAILED, code="failed", attempts_made=1, failure=Failure("raised", "mail timeout"))
    complete = Outcome(state=JobState.COMPLETED, code="completed", attempts_made=1)
    for queue, outcome, ids in (("mails", fail, ("f1", "f2", "f3")), ("media", complete, ("kept",))):
        await store.jobs.enqueue([JobRecord(id=each, queue=queue, name="send", tags=("t",)) for each in ids])
        claimed = await store.jobs.claim(ClaimRequest("w1", f"t-{queue}", 3_600_000, (Want(queue, 10),)))
        await store.jobs.settle([Settlement(job.claim, outcome) for job in claimed])
    await store.jobs.enqueue([JobRecord(id="runs", queue="media", name="send")])
    assert await store.jobs.claim(ClaimRequest("w1", "t-runs", 3_600_000, (Want("media", 1),)))
    await store.jobs.enqueue([JobRecord(id="waits", queue="mails", name="send")])
    await store.jobs.enqueue([JobRecord(id="yet", queue="mails", name="send", delay_ms=3_600_000)])


@pytest.fixture
def full(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.in_store(fill)
    return project


def states(project: Project) -> dict[str, str]:
    async def look(store: Store) -> dict[str, str]:
        return {job.id: job.state.value for job in await store.jobs.find(JobQuery())}

    return project.in_store(look)


@pytest.mark.parametrize(
    ("arguments", "code", "out", "err"),
    [
        (("retry", "f1", "nope", "gone"), 4, "", "Error: there is no job nope, gone: check the id, or its retention"),
        (("retry", "f1", "kept"), 2, "", "Error: job kept is completed: only a failed job can be retried. Nothing"),
        (("retry", "f1", "kept", "--dry-run"), 2, "", "Error: job kept is completed: only a failed job can be retried"),
        (("retry", "f1", "f2", "--dry-run"), 0, "2 jobs would be retried: f1, f2\n", ""),
        (("retry", "f1", "--queue", "media"), 4, "", "Error: there is no job f1: check the id, or its retention"),
        (("delete", "f1", "--queue", "mails", "--dry-run"), 0, "1 job would be deleted: f1\n", ""),
        (("retry", "--all", "--dry-run"), 0, "3 jobs would be retried: f3, f2, f1\n", ""),
        (("retry", "--queue", "media", "--dry-run"), 0, "0 jobs would be retried\n", ""),
        (("retry", "--queue", "media"), 0, "no jobs match: nothing was done\n", ""),
        (("retry", "--queue", "media", "--yes"), 0, "no jobs match: nothing was done\n", ""),
        (("retry", "--state", "waiting", "--all"), 2, "", "Error: cannot retry waiting jobs: only a failed job"),
        (("cancel", "--all", "--dry-run"), 0, "3 jobs would be cancelled: yet, waits, runs\n", ""),
        (("delete", "--all", "--dry-run"), 0, "6 jobs would be deleted: yet, waits, kept, f3, f2 and 1 more\n", ""),
        (("delete", "runs"), 2, "", "Error: job runs is active: a job that runs cannot be deleted: cancel it first"),
        (("promote", "--name", "send", "--dry-run"), 0, "1 job would be promoted: yet\n", ""),
        (("cancel", "--tag", "none", "--yes"), 0, "no jobs match: nothing was done\n", ""),
        (("cancel", "kept"), 0, "kept: it had finished already: nothing to cancel\n", ""),
        (
            ("retry", "--text", "TIMEOUT"),
            2,
            "",
            "Error: Retry 3 jobs (f3, f2, f1)? Nobody can be asked, since standard input is no terminal: say --yes",
        ),
        (("delete", "f1"), 2, "", "Error: Delete 1 job? Nobody can be asked"),
        (("delete", "\udcff"), 4, "", "Error: there is no job \\udcff: "),
    ],
    ids=lambda value: " ".join(value).encode("unicode_escape").decode() if isinstance(value, tuple) else "",
)
def test_nothing_is_done_when_something_is_wrong_or_only_looked_at(
    arguments: tuple[str, ...], code: int, out: str, err: str, full: Project
) -> None:
    ran = full("jobs", *arguments)
    assert (ran.code, ran.out) == (code, out)
    assert ran.err.startswith(err) if err else ran.err == ""
    assert states(full) == BEFORE


@pytest.mark.parametrize("typed", ["", "no\n", "yess\n"])
def test_without_a_yes_nothing_is_done(typed: str, full: Project) -> None:
    asked = full.typing(typed, "jobs", "retry", "--queue", "mails")
    assert asked == (1, "", "Retry 3 jobs (f3, f2, f1)? [y/N] nothing was done\n")
    asked = full.typing(typed, "jobs", "delete", "f1", "f2")
    assert asked == (1, "", "Delete 2 jobs? [y/N] nothing was done\n")
    assert states(full) == BEFORE


@pytest.mark.parametrize(
    ("typed", "arguments", "out", "changed"),
    [
        (None, ("retry", "f1", "f1"), "1 job made ready\n", {"f1": "waiting"}),
        ("y\n", ("retry", "--queue", "mails"), "3 jobs made ready\n", dict.fromkeys(("f1", "f2", "f3"), "waiting")),
        (None, ("cancel", "waits", "runs"), "1 job cancelled\nruns: it runs: its worker was told to end it\n",
         {"waits": "failed"}),
        (None, ("cancel", "--all", "--yes"), "3 jobs cancelled; those that run were told to end\n",
         {"waits": "failed", "yet": "failed"}),
        ("yes\n", ("delete", "f1"), "1 job deleted\n", {"f1": None}),
        (None, ("delete", "--state", "failed", "--newer-than", "1h", "-y"), "3 jobs deleted\n",
         dict.fromkeys(("f1", "f2", "f3"))),
        (None, ("delete", "--older-than", "1h", "-y"), "no jobs match: nothing was done\n", {}),
        (None, ("promote", "yet"), "1 job made ready\n", {"yet": "waiting"}),
        ("Y\n", ("promote", "--queue", "mails"), "1 job made ready\n", {"yet": "waiting"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_what_is_done_and_said(
    typed: str | None, arguments: tuple[str, ...], out: str, changed: dict[str, str | None], full: Project
) -> None:
    ran = full("jobs", *arguments) if typed is None else full.typing(typed, "jobs", *arguments)
    assert (ran.code, ran.out) == (0, out)
    expected = {**BEFORE, **changed}
    assert states(full) == {job: state for job, state in expected.items() if state is not None}


def test_documents_of_what_was_done(full: Project) -> None:
    def documents(*arguments: str) -> list[Any]:
        ran = full("jobs", *arguments, "--json")
        assert (ran.code, ran.err) == (0, "")
        return ran.documents

    assert documents("cancel", "waits", "runs", "kept") == [
        {"id": "waits", "result": "cancelled", "reason": None},
        {"id": "runs", "result": "asked", "reason": None},
        {"id": "kept", "result": "finished", "reason": None},
    ]
    assert documents("retry", "--group", "g", "--yes") == [{"action": "retry", "dry_run": False, "done": 0}]
    assert documents("retry", "--name", "send", "--dry-run") == [
        {"action": "retry", "dry_run": True, "matched": 4, "first": ["waits", "f3", "f2", "f1"]}
    ]
    assert documents("retry", "--all", "--yes") == [{"action": "retry", "dry_run": False, "done": 4}]
