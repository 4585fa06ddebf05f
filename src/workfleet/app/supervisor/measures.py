"""The metrics of all workers of this machine as one, and what the supervisor itself counts.

Workers tell how they stand, and keep it in their metric store. What happens only here, such as the death of a worker,
is counted here, told with what they tell, and given to a worker that writes it to the store. Of a worker that has
fallen silent only what it has counted is told: how it stands nobody knows.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from workfleet.events import Event
from workfleet.observe.metrics.merged import MergedSamples
from workfleet.observe.metrics.recorder import WORKER_DEATHS, MetricsRecorder
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.textfile import Textfile
from workfleet.observe.metrics.unchanged import Unchanged
from workfleet.ports.clock import Clock
from workfleet.ports.metrics import Sample
from workfleet.supervision.control import MetricsOrder

from .handing import Handing
from .run import Run
from .standstill import BLOCKED_S
from .worker import WorkerProcess

LOOP_BLOCKED = "workfleet_worker_loop_blocked_seconds"

_LOOK_S = 1.0
_SILENT_INTERVALS = 2
_LEAST_SILENT_S = 5.0
"""Where the interval is short, a worker that is a moment late is not silent."""
_OWN = "supervisor"
_STOPPED_BY_SOMEBODY = (0, 130)
"""Exit codes of a run that did not give up."""


class Measures:
    """A Service. It measures nothing until the first worker's settings are known, and nothing where they say so."""

    name = "metrics"

    def __init__(self, run: Run, clock: Clock, publish: Callable[[Event], None]) -> None:
        self._run, self._clock, self._publish = run, clock, publish
        self._registry = MetricsRegistry()
        self._recorder = MetricsRecorder(self._registry)
        # From 0 on, so that the first death is growth to whoever asks for that.
        self._registry.add(WORKER_DEATHS, (), 0)
        unchanged = Unchanged()
        self._handing = Handing(run, lambda: unchanged.left_out(self._registry.drain(clock.now_ms())))
        run.when_ready(self._hand_on)
        self._merged = MergedSamples()
        self._seen: dict[str, WorkerProcess] = {}
        self._loops: set[int] = set()
        """The places of workers whose loops are told of."""

    def publish(self, event: Event) -> None:
        """Count an event, and publish it."""
        hear = self._recorder.route(type(event))
        if hear is not None:
            hear(event)
            self._hand_on()
        self._publish(event)

    def samples(self) -> list[Sample]:
        """All that the workers have measured, as they told last, and what was counted here, by name and labels."""
        order = self._order
        if order is not None:
            self._look(order)
            self._measure_loops()
            self._merged.tell(_OWN, self._registry.snapshot())
        return self._merged.samples()

    async def serve(self) -> None:
        await self._run.met.wait()
        order = self._order
        if order is None:
            return
        file = None
        if order.textfile is not None:
            file = Textfile(Path(order.textfile), self.samples, self._clock, self._publish)
        looks = 0
        try:
            while True:
                # Also one that lives for a moment only is seen while it lives.
                self._look(order)
                if looks == 0:
                    self._measure_loops()
                self._handing.look()
                await self._clock.sleep(_LOOK_S)
                looks += 1
                if looks * _LOOK_S * 1000 >= order.interval_ms:
                    looks = 0
                    if file is not None:
                        file.write()
        finally:
            # The workers have said their last words by now.
            if file is not None:
                file.write(last=self._run.exit_code in _STOPPED_BY_SOMEBODY)

    def _hand_on(self) -> None:
        if self._order is not None:
            self._handing.look()

    @property
    def _order(self) -> MetricsOrder | None:
        return self._run.hello.metrics if self._run.hello is not None else None

    def _look(self, order: MetricsOrder) -> None:
        """Take in what the living have told, and the last words of those that have ended."""
        silent_s = max(_SILENT_INTERVALS * order.interval_ms / 1000, _LEAST_SILENT_S)
        living = {worker.id: worker for worker in self._run.living()}
        for name, worker in {**self._seen, **living}.items():
            if worker.measured is not None:
                self._merged.tell(name, worker.measured)
                if self._clock.monotonic() - worker.measured_at >= silent_s:
                    self._merged.withhold_gauges(name)
            if name not in living:
                self._merged.end(name)
        self._seen = living

    def _measure_loops(self) -> None:
        """For how long the loop of each worker stands still."""
        found = {
            worker.index: worker.still_s if worker.still_s >= BLOCKED_S else 0.0
            for worker in self._run.living()
            if worker.ready and not worker.child.exited.done()
        }
        for index in self._loops - set(found):
            self._registry.forget(LOOP_BLOCKED, _labels(index))
        for index, blocked_s in found.items():
            self._registry.put(LOOP_BLOCKED, _labels(index), blocked_s)
        self._loops = set(found)


def _labels(index: int) -> tuple[tuple[str, str], ...]:
    return ("host", socket.gethostname()), ("worker", str(index))
