"""The metrics of all workers of this machine as one, and what the supervisor itself counts.

Workers tell how they stand, and keep it in their metric store. What happens only here, such as the death of a worker,
is counted here and given to a worker that works, which keeps it with its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from workfleet.events import Event
from workfleet.observe.metrics.merged import MergedSamples
from workfleet.observe.metrics.recorder import MetricsRecorder
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.textfile import Textfile
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Sample
from workfleet.supervision.control import Counted

from .run import Run
from .worker import WorkerProcess

_LOOK_S = 1.0


class Measures:
    """A Service. It measures nothing until the first worker's settings are known, and nothing where they say so."""

    name = "metrics"

    def __init__(self, run: Run, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._run, self._clock, self._publish = run, clock, publish
        self._registry = MetricsRegistry()
        self._recorder = MetricsRecorder(self._registry)
        self._merged = MergedSamples()
        self._seen: dict[str, WorkerProcess] = {}

    def publish(self, event: Event) -> None:
        """Count an event, and publish it."""
        hear = self._recorder.route(type(event))
        if hear is not None:
            hear(event)
        self._publish(event)

    def samples(self) -> list[Sample]:
        """All that the workers have measured, as they told last, by name and labels."""
        self._look()
        return self._merged.samples()

    async def serve(self) -> None:
        await self._run.first_ready.wait()
        order = self._run.hello.metrics if self._run.hello is not None else None
        if order is None:
            return
        file = None
        if order.textfile is not None:
            file = Textfile(Path(order.textfile), self.samples, self._clock, self._publish)
        looks = 0
        try:
            while True:
                # Also one that lives for a moment only is seen while it lives.
                self._look()
                self._hand_on()
                await self._clock.sleep(_LOOK_S)
                looks += 1
                if file is not None and looks * _LOOK_S * 1000 >= order.interval_ms:
                    looks = 0
                    file.write()
        finally:
            # The workers have said their last words by now.
            if file is not None:
                file.write()

    def _look(self) -> None:
        """Take in what the living have told, and the last words of those that have ended."""
        living = {worker.id: worker for worker in self._run.living()}
        for name, worker in {**self._seen, **living}.items():
            if worker.measured is not None:
                self._merged.tell(name, worker.measured)
            if name not in living:
                self._merged.end(name)
        self._seen = living

    def _hand_on(self) -> None:
        """What was counted here goes to one of those that work; while there is none, it waits."""
        for worker in self._run.living():
            if worker.ready and not worker.over.is_set() and not worker.child.exited.done():
                if rows := self._registry.drain(self._clock.now_ms()):
                    worker.send(Counted(rows=rows))
                return
