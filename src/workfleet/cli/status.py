"""`workfleet status`: whether the fleet of this machine runs (its status file), and what it has to do (the store)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import click
import msgspec

from ..app.loops import run_loop
from ..app.status import Status, WorkerStatus, default_status_file, is_of_this_boot, read_status
from ..clock import SystemClock
from ..errors import StoreUnavailable
from ..model.fleet import PoolReport, ProcessIdentity
from ..queues.queues import QueueInfo
from ..schedules.overdue import overdue_ms
from ..settings.store import shown_store
from ..supervision.identity import is_alive
from .documents import instant, queue_document
from .failures import tell
from .health import HEALTH_TITLES, blocked, ill_names, ill_rows, not_ready
from .options import Where, app_argument, json_option
from .output import rough, write, write_facts, write_json, write_table
from .pools import POOL_TITLES, pool_cells
from .project import Target, opened, target_of
from .queues import QUEUE_TITLES, all_queues, queue_row

_SILENT_MS = 15_000
"""A supervisor writes its file every second; `probe` waits as long."""
_LATE_MS = 15_000
"""A fire waits for a poll at most: what is later than this has been missed by everybody."""
_WORKER_TITLES = (">WORKER", ">PROCESS", "STATE", ">UPTIME", ">ACTIVE", ">DONE", ">FAILED", ">RESTARTS", "NOTE")


@dataclass
class _Work:
    """What the store says, or why it says nothing."""

    queues: list[QueueInfo] = field(default_factory=list)
    schedules: int = 0
    overdue: dict[str, int] = field(default_factory=dict)
    """How late each is, in milliseconds."""
    store_error: str | None = None


@dataclass(frozen=True)
class _Fleet:
    """The fleet of this machine as its file said when it was read: the store may take long to answer."""

    told: Status | None
    why_not: str | None
    """Why it does not run."""
    ill: str
    """Why it is not ready."""
    blocked: dict[int, str]
    """The workers of which nothing is heard."""

    @property
    def running(self) -> Status | None:
        return self.told if self.why_not is None else None


@click.command("status")
@json_option
@app_argument
def status(*, where: Where, as_json: bool) -> int:
    """Whether the fleet of this machine runs, its workers, pools, queues and overdue schedules.

    Exits 1 when no fleet runs here, 3 when it runs and the store cannot be reached.

    \b
    Examples:
      workfleet status
      workfleet status app.py --json | jq .running
    """
    target = target_of(where)
    place = target.loaded.core.status_file or default_status_file(target.loaded.project, target.app)
    told = read_status(place)
    fleet = _Fleet(told, why_not_running(told), why_not_ready(told) if told else "", who_is_blocked(told))
    work = run_loop(lambda: _work(target))
    if as_json:
        write_json(_document(target, fleet, work))
    else:
        _write(target, fleet, work)
    if fleet.running is None:
        return 1
    return StoreUnavailable.exit_code if work.store_error else 0


def why_not_running(fleet: Status | None) -> str | None:
    """Why no supervisor runs here; None: one does."""
    if fleet is None:
        return "it was not started here"
    if fleet.state == "stopped":
        return f"it has stopped: {' '.join(fleet.reason.split()) or 'nothing was left to do'}"
    facts = fleet.supervisor
    if not is_alive(ProcessIdentity(fleet.host, facts.boot_id, facts.pid, facts.started)):
        return f"its supervisor (process {facts.pid}) is gone without a word"
    if not is_of_this_boot(fleet):
        return f"its status file is from before this machine was started, or of another one ({fleet.host})"
    age_ms = _age_ms(fleet)
    if not 0 <= age_ms < _SILENT_MS:
        return f"its supervisor (process {facts.pid} on {fleet.host}) says nothing since {rough(max(age_ms, 0))}"
    return None


def why_not_ready(fleet: Status) -> str:
    """What `probe ready` says against it; "" where it passes."""
    return not_ready(fleet, _mono_ms())


def who_is_blocked(fleet: Status | None) -> dict[int, str]:
    """The workers of which nothing is heard, and since when, by their place."""
    return {} if fleet is None else blocked(fleet, _mono_ms())


def _age_ms(fleet: Status) -> int:
    return _mono_ms() - fleet.written_mono_ms


def _mono_ms() -> int:
    return int(SystemClock().monotonic() * 1000)


async def _work(target: Target) -> _Work:
    try:
        async with opened(target) as client:
            store = await client.session.store()
            queues = await all_queues(client, target)
            now, records = await store.now_ms(), await store.schedules.all()
    except StoreUnavailable as error:
        return _Work(store_error=str(error))
    overdue = {record.name: ms for record in records if (ms := overdue_ms(record, now)) > _LATE_MS}
    return _Work(queues, len(records), overdue)


def _write(target: Target, fleet: _Fleet, work: _Work) -> None:
    running = fleet.running
    overdue = ", ".join(f"{name} by {rough(ms)}" for name, ms in sorted(work.overdue.items()))
    schedules = f"{work.schedules}" + (f", overdue: {overdue}" if overdue else "")
    write_facts(
        [
            ("app", target.app),
            ("store", shown_store(target.store_url) if work.store_error is None else ""),
            ("fleet", _fleet(running, fleet.ill) if running else f"not running: {fleet.why_not}"),
            ("schedules", "" if work.store_error else schedules),
        ]
    )
    if running is not None:
        write()
        write_table(_WORKER_TITLES, [_worker_row(worker, fleet) for worker in running.workers])
    pools = [] if running is None else list(_pools(running))
    ill = [] if running is None else ill_rows(running)
    if ill:
        write()
        write_table(HEALTH_TITLES, ill)
    if pools:
        write()
        write_table(("POOL", ">WORKER", *POOL_TITLES), [[pool.name, str(at), *pool_cells(pool)] for at, pool in pools])
    if work.queues:
        write()
        write_table(QUEUE_TITLES, map(queue_row, work.queues))
    if work.store_error is not None:
        tell(f"Error: {work.store_error}")


def _pools(fleet: Status) -> Iterator[tuple[int, PoolReport]]:
    """The pools that were started, each with its worker's index."""
    for worker in fleet.workers:
        for facts in worker.pools.values():
            try:
                yield worker.index, msgspec.convert(facts, PoolReport)
            except msgspec.ValidationError:  # of a newer version
                continue


def _fleet(fleet: Status, ill: str) -> str:
    since = rough(max(fleet.written_ms - fleet.started_ms, 0))
    reason = f" ({fleet.reason})" if fleet.reason else ""
    state = f"not ready ({ill})" if ill and fleet.state == "ready" else f"{fleet.state}{reason}"
    return f"{state}, since {since}, process {fleet.supervisor.pid} on {fleet.host}"


def _worker_row(worker: WorkerStatus, fleet: _Fleet) -> list[str]:
    """What the line of the fleet or the rows of what is ill say is not said again."""
    told = ill_names(worker)
    unready = [said for said in worker.unready if said.partition(":")[0] not in told]
    error = worker.store_error or ""
    if error and ("store" in told or error in fleet.ill):
        error = "store not reached"
    notes = [
        f"told: {worker.instruction}" if worker.instruction else "",
        fleet.blocked.get(worker.index, ""),
        *unready,
        error,
        _before(worker),
    ]
    return [
        str(worker.index),
        "" if worker.pid is None else str(worker.pid),
        worker.state,
        rough(worker.uptime_ms),
        str(worker.active),
        str(worker.completed),
        str(worker.failed),
        str(worker.restarts),
        "; ".join(filter(None, notes)),
    ]


def _before(worker: WorkerStatus) -> str:
    if not worker.last_exit:
        return ""
    age_ms = worker.last_exit_age_ms
    return f"before: {worker.last_exit}" + ("" if age_ms is None else f" {rough(age_ms)} ago")


def _document(target: Target, fleet: _Fleet, work: _Work) -> dict[str, Any]:
    running = fleet.running
    return {
        "app": target.app,
        "running": running is not None,
        "reason": fleet.why_not,
        "state": running.state if running else None,
        "not_ready": (fleet.ill or None) if running else None,
        "started": instant(running.started_ms) if running else None,
        "supervisor": {"pid": running.supervisor.pid, "host": running.host} if running else None,
        "workers": [msgspec.to_builtins(worker) for worker in running.workers] if running else [],
        "store": None if work.store_error else shown_store(target.store_url),
        "store_error": work.store_error,
        "queues": [queue_document(info) for info in work.queues],
        "schedules": work.schedules,
        "overdue": [{"schedule": name, "late_ms": ms} for name, ms in sorted(work.overdue.items())],
    }
