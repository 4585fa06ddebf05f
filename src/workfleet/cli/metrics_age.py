"""Whether what a metric store holds is as new as it should be: of a store that workers cannot write to, only their log
tells."""

from __future__ import annotations

import asyncio
import socket

from ..app.metrics import MetricsPlace
from ..app.policies import milliseconds
from ..errors import StoreUnavailable
from ..observe.metrics.model import UNCHANGED_MS
from ..settings.sections import MetricsSettings
from ..settings.store import store_scheme
from .failures import tell
from .output import count, rough
from .project import Target, opened
from .worker_state import lives_of

_WITHIN_S = 5.0


async def tell_if_old(
    newest_ms: int, now_ms: int, *, settings: MetricsSettings, place: MetricsPlace, target: Target
) -> None:
    """Say on standard error that nothing was written for two intervals while workers live that should have. Where the
    job store cannot say whether any do, nothing is said."""
    most_ms = _most_ms(settings)
    if most_ms is None or now_ms - newest_ms <= most_ms:
        return
    # A file is written by the workers of its machine alone, unless the job store keeps them there anyway.
    only_here = place.path is not None and store_scheme(target.store_url) != "sqlite"
    living = await _living(target, most_ms, host=socket.gethostname() if only_here else None)
    if living:
        said = "1 worker lives" if living == 1 else f"{count(living, 'worker')} live"
        tell(
            f"nothing was written for {rough(now_ms - newest_ms)}, though {said}: what is shown ends there. "
            "The event metrics.unavailable in the log of the workers says why"
        )


def _most_ms(settings: MetricsSettings) -> int | None:
    """How old the newest row may be: two intervals. None: nothing is measured. Of processes and machines their
    processor time is written every time; what the store says are gauges alone, which may stay what they are."""
    wanted = settings.collection
    if not wanted.enabled:
        return None
    always = wanted.process or wanted.system
    measured = wanted.interval if always else wanted.store_interval
    return 2 * max(milliseconds(settings.flush_interval), milliseconds(measured)) + (0 if always else UNCHANGED_MS)


async def _living(target: Target, age_ms: int, *, host: str | None) -> int:
    """How many workers live and have done so for long enough, of one machine or (None) of all."""
    try:
        async with asyncio.timeout(_WITHIN_S), opened(target) as client:
            store = await client.session.store()
            workers, now_ms = await store.fleet.workers(), await store.now_ms()
    except (StoreUnavailable, TimeoutError):
        return 0
    return sum(
        life.works and now_ms - life.record.started_ms > age_ms and host in (None, life.record.identity.host)
        for life in lives_of(workers, now_ms)
    )
