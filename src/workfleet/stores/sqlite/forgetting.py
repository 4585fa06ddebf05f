"""What has expired of the store's own: keys, locks, unique windows, starts that no rate counts, notes of old calls.

It is looked for in the lane that reads, so that writers wait for no search, and deleted a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .lane import Row, Step
from .lanes import Lanes

_NOTES_KEPT_MS = 600_000
"""How long a claim is remembered after its jobs were settled, to know a repeated call."""
_FOUND_AT_ONCE = 50_000
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class _Expiring:
    """A kind of row. `find` gives the key's columns for app, time and limit; `delete` takes app, time and these, and
    asks again, for a row may have been renewed since."""

    find: str
    delete: str


_CLAIM_IS_OLD = f"""
app = ?1 AND granted_ms < ?2 - {_NOTES_KEPT_MS}
  AND NOT EXISTS (SELECT 1 FROM wf_job j WHERE j.claim = c.claim AND j.state = 3)
"""
_ALL = (
    _Expiring(
        "SELECT key FROM wf_key INDEXED BY wf_key_expires WHERE app = ?1 AND expires_ms <= ?2 LIMIT ?3",
        "DELETE FROM wf_key WHERE app = ?1 AND expires_ms <= ?2 AND key = ?3",
    ),
    _Expiring(
        "SELECT name FROM wf_lock WHERE app = ?1 AND expires_ms <= ?2 LIMIT ?3",
        "DELETE FROM wf_lock WHERE app = ?1 AND expires_ms <= ?2 AND name = ?3",
    ),
    _Expiring(
        "SELECT unique_key FROM wf_hold WHERE app = ?1 AND expires_ms <= ?2 LIMIT ?3",
        "DELETE FROM wf_hold WHERE app = ?1 AND expires_ms <= ?2 AND unique_key = ?3",
    ),
    _Expiring(
        """SELECT s.queue, s.grp, s.at_ms FROM wf_queue q CROSS JOIN wf_start s
        WHERE q.app = ?1 AND s.queue = q.queue AND s.until_ms <= ?2 LIMIT ?3""",
        "DELETE FROM wf_start WHERE until_ms <= ?2 AND queue = ?3 AND grp = ?4 AND at_ms = ?5",
    ),
    _Expiring(
        # In the order of the table, which is nearly that of their age.
        f"SELECT claim FROM wf_claim c NOT INDEXED WHERE {_CLAIM_IS_OLD} LIMIT ?3",
        f"DELETE FROM wf_claim AS c WHERE {_CLAIM_IS_OLD} AND claim = ?3",
    ),
)


async def forget(lanes: Lanes, app: str) -> None:
    """Delete all of it."""
    for kind in _ALL:
        found = await lanes.read(_look(kind, app))
        while found:
            for start in range(0, len(found), _AT_ONCE):
                await lanes.write(_deletion(kind, app, found[start : start + _AT_ONCE]))
            found = await lanes.read(_look(kind, app)) if len(found) == _FOUND_AT_ONCE else []


def _look(kind: _Expiring, app: str) -> Callable[[Step], list[Row]]:
    return lambda step: step.rows(kind.find, app, step.now, _FOUND_AT_ONCE)


def _deletion(kind: _Expiring, app: str, keys: Sequence[Row]) -> Callable[[Step], int]:
    return lambda step: step.change_many(kind.delete, [(app, step.now, *key) for key in keys])
