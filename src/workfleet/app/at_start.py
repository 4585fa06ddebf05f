"""What `run_on_start` asks for: which of the schedules run now that a worker starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workfleet.errors import ConfigError, Problem
from workfleet.events import Event
from workfleet.model.schedules import ScheduleRecord
from workfleet.ports.stores import Store
from workfleet.schedules.at_start import run_per_process, run_per_release

from .composition import Composition
from .definitions import Definition


def check_releases(composition: Composition, definitions: Sequence[Definition]) -> None:
    """Before the store has any of the definitions: a start that is refused must leave those of the fleet alone. Raises
    `ConfigError` for what runs once per release, where the release has no name."""
    names = [d.record.name for d in definitions if d.record.enabled and d.run_on_start == "release"]
    if names and composition.core.scheduler_enabled and not composition.release:
        message = f"{', '.join(names)} runs once per release, but this release has no name: set it, or App(version=…)"
        raise ConfigError(Problem("WORKER_RELEASE", message))


async def run_at_start(
    composition: Composition,
    definitions: Sequence[Definition],
    stored: Sequence[ScheduleRecord],
    store: Store,
    *,
    worker: str,
    publish: Callable[[Event], None],
) -> None:
    """Enqueue them. Those that are paused in the store are left out. Raises `StoreUnavailable`."""
    paused = {record.name for record in stored if record.paused}
    enabled = [d for d in definitions if d.record.enabled and d.record.name not in paused]
    per_process = [d.record for d in enabled if d.run_on_start == "process"]
    per_release = [d.record for d in enabled if d.run_on_start == "release"]
    await run_per_process(per_process, store.jobs, worker=worker, publish=publish)
    if composition.release:
        release = composition.release
        await run_per_release(per_release, store.jobs, store.keys, release=release, publish=publish)
