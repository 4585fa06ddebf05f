"""Which finished jobs of a file are too old or too many, by the rules of the clean-up and by their own.

They are looked for in the lane that reads, however much there is to look at. The step that writes is given their
numbers, and asks only whether each has still ended as it had: no other writer waits for a search. What cannot be read
is never pruned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from workfleet.model.jobs import UNDECODABLE
from workfleet.ports.jobs import PruneRule

from .deleting import delete_rows
from .forgetting import forget
from .lane import Row, Step
from .lanes import Lanes
from .schema import STATE_NUMBERS

_FORGET_MS = 60_000
"""So often it forgets what has expired, though there be more jobs to prune than a call may."""
_ALL, _OF_QUEUE = "q.app = ?1", "q.queue = ?1"
_FINISHED = """wf_job j INDEXED BY wf_job_finished
    ON j.queue = q.queue AND j.state = ?2 AND j.state > 4 AND j.kept = ?3 AND j.housekeeping = ?4"""
_OLDEST_FIRST = f"""
  AND NOT EXISTS (SELECT 1 FROM wf_run r WHERE r.seq = j.seq AND r.outcome = '{UNDECODABLE}')
ORDER BY q.name, j.finished_ms, j.seq LIMIT ?6
"""
_ALIKE = """SELECT finished_ms, seq FROM wf_job INDEXED BY wf_job_finished
    WHERE queue = q.queue AND state = ?2 AND state > 4 AND kept = ?3 AND housekeeping ="""
_BY_AGE = f"""
SELECT j.seq, j.finished_ms FROM wf_queue q CROSS JOIN {_FINISHED}
WHERE {{whose}} AND j.finished_ms < ?5 {_OLDEST_FIRST}
"""
_BY_COUNT = f"""
SELECT j.seq, j.finished_ms FROM wf_queue q
  CROSS JOIN wf_job b ON b.seq = (SELECT seq FROM ({{alike}} ORDER BY 1 DESC, 2 DESC LIMIT 1 OFFSET ?5))
  CROSS JOIN {_FINISHED}
WHERE {{whose}} AND (j.finished_ms, j.seq) <= (b.finished_ms, b.seq) {_OLDEST_FIRST}
"""
"""`b` is the newest that is one too many: to find it is to go over as many as are kept, and none of the surplus."""
_TOO_OLD = _BY_AGE.format(whose=_ALL)
_TOO_MANY = _BY_COUNT.format(whose=_ALL, alike=f"{_ALIKE} ?4")
_OWN_TOO_OLD = _BY_AGE.format(whose=_OF_QUEUE)
_OWN_TOO_MANY = _BY_COUNT.format(whose=_OF_QUEUE, alike=f"{_ALIKE} 0 UNION ALL {_ALIKE} 1")
_NEXT_OWN = """SELECT min(kept) FROM wf_job INDEXED BY wf_job_finished
    WHERE queue = {of}.queue AND state = {of}.state AND state > 4 AND kept > {of}.kept"""
_OWN_RULES = f"""
WITH RECURSIVE
  start(queue, state, kept) AS (SELECT q.queue, s.column1, '' FROM wf_queue q, (VALUES (5), (6)) s WHERE q.app = ?),
  own(queue, state, kept) AS (
    SELECT queue, state, ({_NEXT_OWN.format(of="start")}) FROM start
    UNION ALL
    SELECT queue, state, ({_NEXT_OWN.format(of="own")}) FROM own WHERE kept IS NOT NULL)
SELECT queue, state, kept FROM own WHERE kept IS NOT NULL
"""
"""Each of these rules is one look into the index further."""
_STILL = """
SELECT j.seq FROM json_each(?) d CROSS JOIN wf_job j ON j.seq = CAST(d.key AS INTEGER)
WHERE j.state > 4 AND j.finished_ms = d.value
"""

Doomed = dict[int, int]
"""Jobs by number, and when each had finished."""


class Pruning:
    """`JobStore.prune` of one app in a file."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes
        self._forgot_ms = 0

    async def prune(self, rules: Sequence[PruneRule], limit: int) -> int:
        """Delete finished jobs by the rules and by their own, in one step, then what has expired of the store's own."""
        doomed = await self._lanes.read(lambda step: _doomed(step, self._app, rules, limit))
        deleted = await self._lanes.write(lambda step: _delete(step, doomed)) if doomed else 0
        now_ms = self._lanes.now_ms()
        if len(doomed) < limit or not 0 <= now_ms - self._forgot_ms < _FORGET_MS:
            await forget(self._lanes, self._app)
            self._forgot_ms = now_ms
        return deleted


def _doomed(step: Step, app: str, rules: Sequence[PruneRule], limit: int) -> Doomed:
    found: Doomed = {}
    for sql, facts in _searches(step, app, rules):
        if len(found) >= limit:
            break
        # What two rules delete is found twice.
        for seq, finished_ms in step.rows(sql, *facts, limit):
            found[seq] = finished_ms
    return dict(list(found.items())[:limit])


def _searches(step: Step, app: str, rules: Sequence[PruneRule]) -> Iterator[tuple[str, Row]]:
    """The statements that find them, each with its values but the limit."""
    for rule in rules:
        alike = (app, STATE_NUMBERS[rule.state], "", int(rule.housekeeping))
        if rule.age_ms is not None:
            yield _TOO_OLD, (*alike, step.now - rule.age_ms)
        if rule.count is not None:
            yield _TOO_MANY, (*alike, rule.count)
    for queue, state, kept in step.rows(_OWN_RULES, app):
        age_ms, count = (int(most) if most else None for most in kept.split("/"))
        for housekeeping in (0, 1):
            if age_ms is not None:
                yield _OWN_TOO_OLD, (queue, state, kept, housekeeping, step.now - age_ms)
            if count is not None:
                yield _OWN_TOO_MANY, (queue, state, kept, housekeeping, count)


def _delete(step: Step, doomed: Doomed) -> int:
    """A job that was retried since it was found is not finished, or has finished anew."""
    seqs = [seq for (seq,) in step.rows(_STILL, msgspec.json.encode(doomed).decode())]
    delete_rows(step, seqs)
    return len(seqs)
