"""The SQLite store meets the contract, and leaves no row behind that has neither an owner nor an expiry."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from workfleet.ports.clock import Clock
from workfleet.ports.stores import Store
from workfleet.stores.open import open_store
from workfleet.testing.contracts import *  # noqa: F403 - its tests and fixtures are collected from here
from workfleet.testing.contracts import Leaks, Opener

_LEAKS = {
    "parts of jobs that are gone": """
        SELECT count(*) FROM (
          SELECT seq FROM wf_body UNION ALL SELECT seq FROM wf_run UNION ALL SELECT seq FROM wf_report
          UNION ALL SELECT seq FROM wf_log UNION ALL SELECT seq FROM wf_tag UNION ALL SELECT seq FROM wf_replaced
        ) WHERE seq NOT IN (SELECT seq FROM wf_job)
    """,
    "jobs without a body": "SELECT count(*) FROM wf_job WHERE seq NOT IN (SELECT seq FROM wf_body)",
    "settled jobs without a run": """
        SELECT count(*) FROM wf_job WHERE (settled IS NOT NULL) != (seq IN (SELECT seq FROM wf_run))
    """,
    "claims of nothing": """
        SELECT count(*) FROM wf_claim WHERE app = 'shop' AND claim NOT IN (SELECT claim FROM wf_job WHERE state = 3)
    """,
    "expired keys": "SELECT count(*) FROM wf_key WHERE app = 'shop'",
    "expired holds of unique keys": "SELECT count(*) FROM wf_hold WHERE app = 'shop'",
    "starts that no window holds": """
        SELECT count(*) FROM wf_start WHERE queue IN (SELECT queue FROM wf_queue WHERE app = 'shop')
    """,
    "parked jobs behind nothing": """
        SELECT count(*) FROM wf_job j WHERE parked = 1 AND NOT EXISTS (
          SELECT 1 FROM wf_job o WHERE o.app = j.app AND o.unique_key = j.unique_key AND o.state < 5
            AND o.started_ms IS NOT NULL)
    """,
    "expired locks": "SELECT count(*) FROM wf_lock WHERE app = 'shop'",
}


@pytest.fixture
def opener(tmp_path: Path) -> Opener:
    async def open_file(app: str, clock: Clock) -> Store:
        return await open_store(f"sqlite://{tmp_path}/store.db", app=app, clock=clock, create=True)

    return open_file


@pytest.fixture
def leaks(tmp_path: Path) -> Leaks:
    async def look(_: Store) -> list[str]:
        db = apsw.Connection(str(tmp_path / "store.db"), flags=apsw.SQLITE_OPEN_READWRITE)
        found = [f"{count} {what}" for what, query in _LEAKS.items() if (count := db.execute(query).get)]
        db.close()
        return found

    return look
