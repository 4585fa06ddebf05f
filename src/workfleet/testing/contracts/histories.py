"""What random histories are made of: jobs, ends, requests, questions. Few values, so that they meet often."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import structs

from workfleet.errors import UsageError
from workfleet.model.jobs import Failure, JobRecord, JobState, Keep, KeepRule, RunOverrides, UniqueRule
from workfleet.model.outcome import GIVE_BACK, Ended
from workfleet.ports.jobs import ClaimRequest, JobQuery, Want

from .harness import COMPLETED, CRASHED, FAILED, RAISED

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise UsageError("workfleet.testing.contracts.machine needs hypothesis: `pip install hypothesis`") from error

IDS = [f"j{number}" for number in range(20)]
_CONFLICTS: tuple[Literal["keep", "replace", "debounce"], ...] = ("keep", "replace", "debounce")
_UNTIL: tuple[Literal["finished", "started"], ...] = ("finished", "started")
# All jobs of the key "x" are exclusive: see `UniqueRule`.
_KEYS: list[dict[str, Any]] = [
    *[{}] * 10,
    *[{"unique_key": "x", "unique": UniqueRule("started", 0, how, exclusive=True)} for how in _CONFLICTS * 4],
    *[
        {"unique_key": "k", "unique": UniqueRule(til, ms, how)}
        for til in _UNTIL
        for ms in (0, 500)
        for how in _CONFLICTS
    ],
]
_PLACES: list[dict[str, Any]] = [
    {},
    {},
    {"delay_ms": 100},
    {"priority": 1},
    {"lifo": True},
    {"delay_ms": 1_000, "priority": 5},
    {"delay_ms": 100, "lifo": True},
]
_FLAVOURS: list[dict[str, Any]] = [
    {},
    {"payload": b'"Text"', "tags": ("t", "u"), "name": "other"},
    {"expires_after_ms": 700, "metadata": {"m": "1"}},
    {"expires_ms": 1},
    {"keep": Keep(completed=KeepRule(count=1)), "run": RunOverrides(attempts=7, timeout_ms=None)},
    {"keep": Keep(failed=KeepRule(age_ms=100)), "payload": b"1"},
    {"keep": Keep(KeepRule(), KeepRule(500, 1)), "housekeeping": True, "tags": ("t",)},
]
ENDS = [
    COMPLETED,
    FAILED,
    RAISED,
    CRASHED,
    structs.replace(CRASHED, in_company=True),
    GIVE_BACK,
    Ended(kind="retry", after_ms=0),
    Ended(kind="snoozed", after_ms=100),
    Ended(kind="expired", failure=Failure("expired", "too late")),
    Ended(kind="unknown_job", failure=Failure("unknown_job", "no handler")),
    structs.replace(COMPLETED, follow_up=(JobRecord(id="f1", queue="r", name="next"),)),
    structs.replace(COMPLETED, follow_up=(JobRecord(id="f2", queue="q", name="next", group="b", delay_ms=100),)),
    structs.replace(COMPLETED, follow_up=(JobRecord(id="f3", queue="r", name="next", unique_key="k"),)),
]

QUEUES, GROUPS, WORKERS = st.sampled_from("qqr"), st.sampled_from(["", "a", "b"]), st.sampled_from(["w1", "w2", "w3"])
STATES, LEASES = st.sampled_from(list(JobState)), st.sampled_from([30_000, 100, 1_000])
SOME_IDS = st.lists(st.sampled_from([*IDS, "f1", "f2", "f3", "nobody"]), max_size=4)
PICKS = st.lists(st.integers(0, 20), min_size=1, max_size=3)


def job_of(job_id: str, queue: str, group: str, *said: dict[str, Any]) -> JobRecord:
    """A new job each time: nobody shall change what another one gets."""
    fields: dict[str, Any] = {"id": job_id, "queue": queue, "name": "work", "group": group}
    for each in said:
        fields |= each
    return JobRecord(**fields)


JOBS = st.builds(
    job_of,
    st.sampled_from(IDS),
    QUEUES,
    GROUPS,
    st.sampled_from(_KEYS),
    st.sampled_from(_PLACES),
    st.sampled_from(_FLAVOURS),
)
REQUESTS = st.builds(
    ClaimRequest,
    worker=WORKERS,
    token=st.just(""),
    lease_ms=LEASES,
    wants=st.lists(
        st.builds(Want, QUEUES, st.integers(0, 4), st.none() | st.integers(0, 3)),
        min_size=1,
        max_size=2,
        unique_by=lambda want: want.queue,
    ).map(tuple),
    total=st.none() | st.integers(0, 5),
)
FEW = st.none() | st.integers(0, 3)
WEIGHTS = st.integers(1, 3)
RATES = st.integers(1, 4)
QUERIES = st.builds(
    JobQuery,
    queue=st.none() | QUEUES,
    states=st.none() | st.lists(STATES, max_size=3).map(tuple),
    name=st.none() | st.just("other"),
    limit=st.sampled_from([100, 1, 3]),
    offset=st.sampled_from([0, 0, 2]),
    housekeeping=st.booleans(),
    tag=st.none() | st.just("u"),
    group=st.none() | GROUPS,
    text=st.none() | st.sampled_from(["tex", "BOOM", "valueERR"]),
)
