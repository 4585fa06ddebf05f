"""What `run_on_start` asks for: which of the schedules run now that a worker starts."""

from __future__ import annotations

from collections.abc import Sequence

from workfleet.errors import ConfigError, Problem
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.stores import Store
from workfleet.schedules.at_start import run_per_process, run_per_release

from .composition import Composition
from .definitions import Definition


async def run_at_start(
    composition: Composition,
    definitions: Sequence[Definition],
    stored: Sequence[ScheduleRecord],
    store: Store,
    *,
    worker: str,
) -> None:
    """Enqueue them. Those that are paused in the store are left out. Raises `ConfigError` and `StoreUnavailable`."""
    paused = {record.name for record in stored if record.paused}
    enabled = [d for d in definitions if d.record.enabled and d.record.name not in paused]
    per_process = [d.record for d in enabled if d.run_on_start == "process"]
    per_release = [d.record for d in enabled if d.run_on_start == "release"]
    if per_release and not composition.release:
        names = ", ".join(record.name for record in per_release)
        message = f"{names} runs once per release, but this release has no name: set it, or App(version=…)"
        raise ConfigError(Problem("WORKER_RELEASE", message))
    await run_per_process(per_process, store.jobs, worker=worker)
    await run_per_release(per_release, store.jobs, store.keys, release=composition.release)
