"""A pulse in Redis: one script."""

from __future__ import annotations

import msgspec

from workfleet.model.jobs import Claim
from workfleet.model.outcome import Settlement
from workfleet.ports.clock import Clock
from workfleet.ports.pulse import Pulse, PulseRequest

from ..news import News
from .fleet import RedisFleet, worker_of
from .records import asked_of
from .running import claim_of, done_of
from .schedules import RedisSchedules
from .scripts import Script
from .session import Session

_encoder = msgspec.msgpack.Encoder()


class Pulses:
    """Takes the pulses of one store."""

    def __init__(self, session: Session, fleet: RedisFleet, schedules: RedisSchedules, clock: Clock) -> None:
        self._session, self._script = session, Script.load("pulse")
        self._news = News(session.wakes, clock)
        self._keys = [session.layout.app("queues"), *fleet.keys, schedules.revision_key]
        self._names = (session.layout.prefix, session.layout.app(""))

    async def take(self, request: PulseRequest) -> Pulse:
        """See `Store.pulse`."""
        # Whatever is claimed ends in the same way, under the claim's token.
        done = done_of(Settlement(Claim(request.probe.id, request.claim.token, request.probe.queue), request.done))
        asked = {
            "jobs": [asked_of(request.probe)],
            "claim": claim_of(request.claim),
            "done": done,
            "worker": request.worker,
            "active": request.active,
            "pools": msgspec.json.encode(request.pools).decode() if request.pools else None,
            "obeyed": request.obeyed,
            "queues": request.queues,
            "within_ms": request.within_ms,
        }
        answer = await self._session.run(self._script, self._keys, (*self._names, _encoder.encode(asked)))
        settled, found, revision, now_ms, queues, topics = answer
        self._session.announce(topics)
        self._news.hear(revision, now_ms, [queue.decode() for queue in queues])
        worker = None if request.worker is None or not found else worker_of(request.worker, *found)
        return Pulse(settled, revision, worker)
