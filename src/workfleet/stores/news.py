"""What pulses find, told to those who wait in this process: a notification that was lost is made up for."""

from __future__ import annotations

from collections.abc import Iterable

from workfleet.ports.clock import Clock

from .wakes import SCHEDULES, Wakes, queue_topic

_JUMP_MS = 1_000


class News:
    """Of one store. `clock` is the process's, by which the store's time is seen to jump."""

    def __init__(self, wakes: Wakes, clock: Clock) -> None:
        self._wakes, self._clock = wakes, clock
        self._revision: int | None = None
        self._ahead_ms = 0.0

    def hear(self, revision: int, now_ms: int, queues: Iterable[str]) -> None:
        """A pulse has said which revision the schedules have, the store's time, and where there is something to claim.

        A jump of the time, by a step of a clock or a sleep of this machine, makes other slots due than waiters think.
        """
        ahead_ms = now_ms - self._clock.monotonic() * 1000
        if revision != self._revision or abs(ahead_ms - self._ahead_ms) > _JUMP_MS:
            self._wakes.announce([SCHEDULES])
        self._revision, self._ahead_ms = revision, ahead_ms
        self._wakes.announce([queue_topic(queue) for queue in queues])
