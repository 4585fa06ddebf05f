"""What `run --until-idle` says at its end: how much was done, and which jobs failed and why."""

from __future__ import annotations

from ..app.supervisor.options import Summary
from ..errors import LAST_WORDS
from ..model.jobs import Failure, JobRecord, JobState
from ..ports.jobs import JobQuery
from ..ports.stores import Store
from .output import plain, write

_SHOWN = 20
_PAGE = 500
_LONGEST = 300


async def failed_since(store: Store, since_ms: int) -> list[tuple[str, str]]:
    """(job, reason) of the jobs that failed since an instant of the store's clock; the product's own are left out."""
    found: list[tuple[str, str]] = []
    offset = 0
    while True:
        page = await store.jobs.find(JobQuery(states=(JobState.FAILED,), limit=_PAGE, offset=offset))
        fresh = [job for job in page if (job.finished_ms or 0) >= since_ms and not job.housekeeping]
        found += [(f"{job.queue}/{job.name} {job.id}", reason(job)) for job in fresh]
        offset += len(page)
        if len(page) < _PAGE:
            return found


def reason(job: JobRecord) -> str:
    """Why a job failed, in one line."""
    return job.outcome or "failed" if job.failure is None else in_a_line(told(job.failure))


def in_a_line(text: str) -> str:
    """The text of an error in one line, cut where it is long. The last words of a child are left out: they are many
    lines, and `jobs show` has them below."""
    line = plain(text.partition(LAST_WORDS)[0])
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def told(failure: Failure) -> str:
    """A failure's message, with its type where that is not ours: `KeyError: 'name'` says more than `'name'`."""
    return failure.said() or failure.code


def write_summary(summary: Summary, failed: list[tuple[str, str]], seconds: float) -> None:
    """Write it to standard output."""
    # A job that the supervisor failed, because its worker died with it once too often, is in the store only.
    failures = max(summary.failed, len(failed))
    done = (
        f"{summary.completed} done",
        f"{failures} failed",
        f"{summary.given_back} given back",
        f"{summary.crashes} {'crash' if summary.crashes == 1 else 'crashes'}",
    )
    nothing = not (summary.completed or failures or summary.given_back or summary.crashes)
    write(f"{'nothing to do: ' if nothing else ''}{', '.join(done)}, in {seconds:.1f} s")
    for job, why in failed[:_SHOWN]:
        write(f"  {plain(job)}: {why}")
    if len(failed) > _SHOWN:
        write(f"  … and {len(failed) - _SHOWN} more: workfleet jobs ls --state failed")
