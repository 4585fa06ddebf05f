"""Which jobs match a query: a WHERE, and the index that finds few of many where one can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from workfleet.model.jobs import FINISHED, JobRecord, JobState
from workfleet.ports.jobs import JobQuery

from ..texts import clean_text
from .lane import Step
from .records import RECORD, records_of
from .schema import STATE_NUMBERS

_ORDER = "ORDER BY j.created_ms DESC, j.id DESC"
_SAYS = """
EXISTS (SELECT 1 FROM wf_body b WHERE b.seq = j.seq AND instr(lower(CAST(b.payload AS TEXT)), ?)) OR EXISTS (
  SELECT 1 FROM wf_run r WHERE r.seq = j.seq AND r.failure IS NOT NULL AND iif(json_valid(CAST(r.failure AS TEXT)),
    instr(lower(json_extract(CAST(r.failure AS TEXT), '$.message')), ?)
    OR instr(lower(json_extract(CAST(r.failure AS TEXT), '$.type')), ?), 0))
"""
"""`lower` of SQLite changes ASCII letters only, and `instr` knows no wildcards."""


@dataclass
class _Where:
    index: str = "wf_job_created"
    tables: str = ""
    terms: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)

    def add(self, term: str, *values: object) -> None:
        self.terms.append(term)
        self.values += [clean_text(value) if isinstance(value, str) else value for value in values]


def find_jobs(step: Step, app: str, query: JobQuery) -> list[JobRecord]:
    """Jobs that match, newest first: their narrow rows are sorted, the rest is read for the answer only."""
    if query.states is not None and not query.states:
        return []
    where = _Where()
    where.add("j.app = ?", app)
    if query.states is not None:
        _of_states(where, app, query.states)
    if query.group is not None:
        where.add("j.grp = ?", query.group)
    # In the order of what finds the fewest, where several could: a tag or group, then a state.
    if query.tag is not None:
        where.tables = "wf_tag t CROSS JOIN wf_job j ON j.seq = t.seq"
        where.add("t.tag = ?", query.tag)
    elif query.group and where.index == "wf_job_created":
        where.index = "wf_job_of_group"
        where.add("j.grp != ''")
    if query.queue is not None:
        where.add("j.queue IN (SELECT queue FROM wf_queue WHERE app = ? AND name = ?)", app, query.queue)
    _by_creation(where, query)
    if not query.housekeeping:
        where.add("j.housekeeping = 0")
    if query.name is not None:
        where.add("(SELECT name FROM wf_body b WHERE b.seq = j.seq) = ?", query.name)
    if query.text is not None:
        text = clean_text(query.text)
        wanted = "".join(chr(ord(c) + 32) if "A" <= c <= "Z" else c for c in text)
        where.add(f"({_SAYS})", wanted, wanted, wanted)
    tables = where.tables or f"wf_job j INDEXED BY {where.index}"
    found = f"SELECT j.seq FROM {tables} WHERE {' AND '.join(where.terms)} {_ORDER} LIMIT ? OFFSET ?"
    rows = step.rows(f"{RECORD} WHERE j.seq IN ({found}) {_ORDER}", *where.values, query.limit, query.offset)
    return records_of(rows)


def _of_states(where: _Where, app: str, states: Sequence[JobState]) -> None:
    where.add(f"j.state IN ({', '.join(str(STATE_NUMBERS[state]) for state in states)})")
    # Few of many: found in an index of their own, not by going through all.
    if set(states) <= set(FINISHED):
        where.index = "wf_job_finished"
        where.add("j.state > 4 AND j.queue IN (SELECT queue FROM wf_queue WHERE app = ?)", app)
    elif set(states) == {JobState.ACTIVE}:
        where.index = "wf_job_active"
        where.add("j.state = 3")


def _by_creation(where: _Where, query: JobQuery) -> None:
    if query.created_from_ms is not None:
        where.add("j.created_ms >= ?", query.created_from_ms)
    if query.created_before_ms is not None:
        where.add("j.created_ms < ?", query.created_before_ms)
    if query.after is not None:
        where.add("(j.created_ms, j.id) < (?, ?)", *query.after)
