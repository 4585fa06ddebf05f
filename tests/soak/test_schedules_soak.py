"""The verdict of the soak of schedules over made-up facts, and short soaks with real processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.soak.schedules import opened, table, told
from tests.soak.slot_soak import Result, counted, soak
from tests.soak.slot_verdict import Life, Note, Slot, Verdict, at_share, judge, lateness_ms
from tests.soak.slots import Plan
from workfleet.model.jobs import JobRecord, JobState
from workfleet.model.schedules import ScheduleRecord
from workfleet.model.timing import Manual

PLAN = Plan(Path("/nowhere"), "sqlite:////nowhere/store.db", 2, 10_000, 12_000)
A, B = PLAN.name(0), PLAN.name(1)


def job(slot: Slot, job_id: str | None = None, *, crashes: int = 0, state: JobState = JobState.COMPLETED) -> JobRecord:
    name, slot_ms = slot
    job_id = job_id or f"{name}/{slot_ms}"
    return JobRecord(id=job_id, queue="q", name="run", schedule=name, slot_ms=slot_ms, crashes=crashes, state=state)


def record(name: str, fired: int) -> ScheduleRecord:
    empty = JobRecord(id="", queue="", name="")
    return ScheduleRecord(name=name, timing=Manual(), fingerprint="", job=empty, fired=fired)


def notes_of(slot: Slot, job_id: str | None = None, ns: int = 0) -> list[Note]:
    job_id = job_id or f"{slot[0]}/{slot[1]}"
    return [Note(ns, "fired", slot, job_id), Note(ns, "ran", slot, job_id)]


@dataclass
class Facts:
    """What a soak without a fault leaves behind; a test puts one in."""

    schedules: dict[str, ScheduleRecord] = field(default_factory=lambda: {A: record(A, 2), B: record(B, 2)})
    jobs: list[JobRecord] = field(default_factory=lambda: [job(slot) for slot in SLOTS])
    notes: list[Note] = field(default_factory=lambda: [note for slot in SLOTS for note in notes_of(slot)])

    def verdict(self) -> Verdict:
        return judge(PLAN.expected(), self.schedules, self.jobs, self.notes)


SLOTS: Sequence[Slot] = ((A, 10_000), (A, 11_000), (B, 10_250), (B, 11_250))


def test_the_slots_are_on_the_grid_from_the_start_on_and_before_the_end() -> None:
    assert {name: list(slots) for name, slots in PLAN.expected().items()} == {A: [10_000, 11_000], B: [10_250, 11_250]}
    later = replace(PLAN, start_ms=10_251, end_ms=12_250)
    assert {name: list(slots) for name, slots in later.expected().items()} == {A: [11_000, 12_000], B: [11_250]}
    assert (list(PLAN.code), list(PLAN.added), PLAN.queues) == ([0], [1], ["runs-0"])


def test_no_queue_has_more_runs_than_are_kept() -> None:
    plan = replace(PLAN, schedules=100, end_ms=PLAN.start_ms + 180_000)
    assert plan.from_code * 180 <= 10_000
    for queue in plan.queues:
        assert len([number for number in plan.added if plan.queue(number) == queue]) * 180 <= 10_000


def test_kept_promises_are_counted() -> None:
    facts = Facts()
    # Its process was killed between what it did and its settlement.
    facts.jobs[0] = job(SLOTS[0], crashes=1)
    facts.notes += notes_of(SLOTS[0])[1:]
    assert facts.verdict() == Verdict(expected=4, fired=4, missed=0, doubled=0, ran_again=1, problems=())


def _missed(facts: Facts) -> None:
    facts.jobs.pop()
    facts.schedules[B] = record(B, 1)
    del facts.notes[-2:]


def _missed_and_counted(facts: Facts) -> None:
    _missed(facts)
    facts.schedules[B].missed_count = 1


def _never_run(facts: Facts) -> None:
    facts.notes.pop()


def _two_jobs(facts: Facts) -> None:
    facts.jobs.append(job(SLOTS[3], "another"))
    facts.notes += notes_of(SLOTS[3], "another")[1:]
    facts.schedules[B] = record(B, 3)


def _second_job_is_gone(facts: Facts) -> None:
    facts.notes += notes_of(SLOTS[3], "another")[1:]


def _told_twice(facts: Facts) -> None:
    """The second job had the first one's id, which hides it from a look at the jobs."""
    facts.notes += notes_of(SLOTS[3])[:1]


def _counted_twice(facts: Facts) -> None:
    facts.schedules[B] = record(B, 3)


def _no_slot(facts: Facts) -> None:
    facts.jobs.append(job((B, 12_250)))
    facts.notes += notes_of((B, 12_250))
    facts.schedules[B] = record(B, 3)


def _again_without_a_crash(facts: Facts) -> None:
    facts.notes += notes_of(SLOTS[3])[1:]


def _failed(facts: Facts) -> None:
    facts.jobs[-1] = job(SLOTS[3], state=JobState.FAILED)


LAST = f"{B} at 11250"
STILL = f"schedules with skipped or missed slots, or not at their end: 1: {B}"


@pytest.mark.parametrize(
    ("spoil", "missed", "doubled", "problems"),
    [
        (_missed, 1, 0, [f"missed, no job of theirs is in the store: 1: {LAST}"]),
        (
            _missed_and_counted,
            1,
            0,
            [f"missed, no job of theirs is in the store: 1: {LAST}", f"{STILL} (0 skipped, 1 missed, next None)"],
        ),
        (_never_run, 1, 0, [f"missed, nobody has run them: 1: {LAST}"]),
        (
            _two_jobs,
            0,
            1,
            [f"doubled: 1: {LAST}", f"schedules whose count of fires is not that of their jobs: 1: {B} (+1)"],
        ),
        (_second_job_is_gone, 0, 1, [f"doubled: 1: {LAST}"]),
        (_told_twice, 0, 1, [f"doubled: 1: {LAST}"]),
        (_counted_twice, 0, 1, [f"schedules whose count of fires is not that of their jobs: 1: {B} (+1)"]),
        (_no_slot, 0, 0, [f"fired, but no slot: 1: {B} at 12250"]),
        (_again_without_a_crash, 0, 0, [f"jobs that ran again without a crash: 1: {B}/11250"]),
        (_failed, 0, 0, [f"jobs that are not completed: 1: {B}/11250"]),
    ],
)
def test_a_broken_promise_is_seen(
    spoil: Callable[[Facts], None], missed: int, doubled: int, problems: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    facts = Facts()
    spoil(facts)
    verdict = facts.verdict()
    assert (verdict.missed, verdict.doubled) == (missed, doubled)
    if spoil in (_two_jobs, _no_slot):
        # One more job than the schedule has slots.
        assert verdict.fired == 5
    assert [
        problem for problem in verdict.problems if "count of fires" not in problem or problem in problems
    ] == problems
    assert told([Result(PLAN, [], verdict, (0, 0, 0), 0, 0, verdict.problems)]) == 1
    assert "a promise was broken" in capsys.readouterr().out


def test_a_slot_is_late_since_the_first_clock_of_a_working_process_has_reached_it() -> None:
    second = 1_000_000_000
    lives = [
        Life(2_000, up_ns=0, killed_ns=7 * second),  # its clock reaches the slot at 8 s: it is dead then
        Life(2_000, up_ns=0, killed_ns=9 * second - 1),  # a second later nearly
        Life(1_000, up_ns=0),  # at 9 s
        Life(5_000, up_ns=9 * second + 1),  # at 5 s, when it is not up yet
    ]
    slot = (A, 10_000)
    assert lateness_ms(notes_of(slot, ns=9 * second + 30_000_000), lives) == [30]
    assert lateness_ms([Note(0, "ran", (A, 99_000), "j"), *notes_of(slot, ns=10 * second)], lives) == [0, 1_000]
    assert [at_share(range(1, 201), share) for share in (0.5, 0.99, 1)] == [100, 198, 200]
    assert at_share([], 0.5) == 0


def check(result: Result, *, slots: int, kills: int) -> None:
    assert result.problems == (), table([result])
    assert (result.verdict.expected, result.verdict.fired) == (slots, slots)
    assert (result.verdict.missed, result.verdict.doubled) == (0, 0)
    assert result.kills >= kills
    cells = table([result]).splitlines()[1].split()
    assert cells[1:5] == [f"{slots:,}", f"{slots:,}", "0", "0"]
    assert told([result]) == 0


@pytest.mark.full
async def test_two_seconds_of_kills_and_what_is_left_out_or_added_is_seen(tmp_path: Path) -> None:
    """A note that is taken away, or there twice, shows in the judgement of real facts."""
    with opened("sqlite", tmp_path) as url:
        result = await soak(tmp_path, url, seconds=2, schedules=4, processes=2, seed=1, skew_ms=500)
    check(result, slots=8, kills=2)
    place = next(place for place in sorted(tmp_path.glob("notes-*")) if " fired " in place.read_text())
    lines = place.read_text().splitlines(keepends=True)
    fired = next(line for line in lines if " fired " in line)
    place.write_text("".join([*lines, fired]))
    verdict, _ = await counted(result.plan, result.lives)
    assert (verdict.missed, verdict.doubled) == (0, 1)
    slot = fired.split()[2:4]
    for place in tmp_path.glob("notes-*"):
        kept = [line for line in place.read_text().splitlines(keepends=True) if line.split()[2:4] != slot]
        place.write_text("".join(kept))
    verdict, _ = await counted(result.plan, result.lives)
    assert (verdict.missed, verdict.doubled) == (1, 0)


@pytest.mark.full
@pytest.mark.timeout(240)
@pytest.mark.parametrize("store", ["sqlite", "redis"])
async def test_six_seconds_of_kills_with_clocks_that_disagree(tmp_path: Path, store: str) -> None:
    with opened(store, tmp_path) as url:
        result = await soak(tmp_path, url, seconds=6, schedules=20, processes=4, seed=2, skew_ms=5_000)
    check(result, slots=120, kills=6)
