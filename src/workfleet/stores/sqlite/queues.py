"""What is said about queues, in SQLite."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from workfleet.model.limits import NO_LIMITS, QueueLimits, QueueRecord

from ..wakes import queue_topic
from .adding import known_queue, queue_number
from .lane import Step
from .lanes import Lanes
from .limiting import limits_of


class SqliteQueues:
    """A `QueueStore`."""

    def __init__(self, app: str, lanes: Lanes) -> None:
        self._app, self._lanes = app, lanes

    async def set_limits(self, limits: Mapping[str, QueueLimits]) -> None:
        def operation(step: Step) -> None:
            for name, said in limits.items():
                self._limit(step, known_queue(step, self._app, name), said)
                step.topics.add(queue_topic(name))

        await self._lanes.write(operation)

    async def set_paused(self, queue: str, *, paused: bool) -> bool:
        def operation(step: Step) -> bool:
            number = queue_number(step, self._app, queue)
            if number is None and paused:
                number = known_queue(step, self._app, queue)
            set_it = "UPDATE wf_queue SET paused = ?, said = 1 WHERE queue = ? AND paused != ?"
            changed = bool(step.change(set_it, int(paused), number, int(paused)))
            if changed and not paused:
                step.topics.add(queue_topic(queue))
            return changed

        return await self._lanes.write(operation)

    async def all(self) -> dict[str, QueueRecord]:
        everything = """
            SELECT name, paused, limits FROM wf_queue WHERE app = ? AND (housekeeping < 2 OR said = 1) ORDER BY name
        """

        def operation(step: Step) -> dict[str, QueueRecord]:
            rows = step.rows(everything, self._app)
            return {name: QueueRecord(bool(paused), limits_of(limits)) for name, paused, limits in rows}

        return await self._lanes.read(operation)

    def _limit(self, step: Step, queue: int, limits: QueueLimits) -> None:
        stored = None if limits == NO_LIMITS else msgspec.json.encode(limits)
        step.change("UPDATE wf_queue SET limits = ?, said = 1 WHERE queue = ?", stored, queue)
        if stored is not None:
            # What was claimed before there were limits counts from now on.
            step.change("UPDATE wf_job INDEXED BY wf_job_active SET counted = 1 WHERE queue = ? AND state = 3", queue)
        for (group,) in step.rows("SELECT DISTINCT grp FROM wf_start WHERE queue = ?", queue):
            rate = limits.of_group(group).rate if group else limits.rate
            if rate is None:
                step.change("DELETE FROM wf_start WHERE queue = ? AND grp = ?", queue, group)
            else:
                window = "UPDATE wf_start SET until_ms = at_ms + ? WHERE queue = ? AND grp = ?"
                step.change(window, rate.per_ms, queue, group)
