"""What a soak comes to: a pure count over what was acknowledged, what the store says, and what the jobs left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from workfleet.model.jobs import JobRecord, JobState


@dataclass(frozen=True)
class Effect:
    """One line that a job left behind: it has begun ("begin") or ended ("end") a run."""

    ms: int
    what: str
    job_id: str


@dataclass(frozen=True)
class Verdict:
    """The counts. `problems` is empty when every promise was kept."""

    acknowledged: int
    completed: int
    crash_limit: int
    lost: int
    failed_otherwise: int
    runs_beyond_one: int
    in_flight_at_kills: int
    effects_after_settle: int
    problems: tuple[str, ...]


def judge(
    acknowledged: Collection[str],
    records: Mapping[str, JobRecord],
    effects: Iterable[Effect],
    in_flight_at_kills: int,
) -> Verdict:
    """`records` are all jobs of the store by id. `in_flight_at_kills` is the sum, over all kills, of the jobs that the
    killed process held at that moment: no other job may run more than once."""
    begun: Counter[str] = Counter()
    ended: set[str] = set()
    late: list[str] = []
    for effect in effects:
        if effect.what == "begin":
            begun[effect.job_id] += 1
        else:
            ended.add(effect.job_id)
        record = records.get(effect.job_id)
        if record is not None and record.finished_ms is not None and effect.ms > record.finished_ms:
            late.append(effect.job_id)
    completed = {job_id for job_id in acknowledged if _is(records.get(job_id), JobState.COMPLETED)}
    failed = {job_id for job_id in acknowledged if _is(records.get(job_id), JobState.FAILED)}
    by_crashes = {job_id for job_id in failed if records[job_id].outcome == "crashed"}
    lost = sorted((set(acknowledged) - completed - failed) | (completed - ended))
    beyond = sum(begun.values()) - len(begun)
    problems = [
        *([f"lost: {_some(lost)}"] if lost else []),
        *([f"failed for another reason: {_some(failed - by_crashes)}"] if failed - by_crashes else []),
        *([f"{beyond} runs beyond one a job, {in_flight_at_kills} jobs in flight"] * (beyond > in_flight_at_kills)),
        *([f"side effects after the settlement: {_some(late)}"] if late else []),
    ]
    return Verdict(
        acknowledged=len(set(acknowledged)),
        completed=len(completed),
        crash_limit=len(by_crashes),
        lost=len(lost),
        failed_otherwise=len(failed - by_crashes),
        runs_beyond_one=beyond,
        in_flight_at_kills=in_flight_at_kills,
        effects_after_settle=len(late),
        problems=tuple(problems),
    )


def _is(record: JobRecord | None, state: JobState) -> bool:
    return record is not None and record.state is state


def _some(ids: Collection[str]) -> str:
    shown = sorted(ids)[:10]
    return ", ".join(shown) + (f" and {len(ids) - 10} more" if len(ids) > 10 else "")
