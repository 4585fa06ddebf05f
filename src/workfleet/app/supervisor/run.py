"""What the parts of a supervisor share: where the run is, why it ends, and which workers there are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from workfleet.app.status import FleetState
from workfleet.events import JobRecovered
from workfleet.ports.clock import Clock
from workfleet.supervision.control import Beat, Bye, Hello, Recovered

from .options import Summary, SupervisorOptions
from .worker import WorkerProcess

_DEFAULT_SHUTDOWN_MS = 25_000
_DRAIN_MARGIN_MS = 2_000
_UNTOLD_LIMIT = 1_000


class Run:
    """One run of a supervisor. Only methods here change it, and each change wakes whoever waits for `changed`."""

    def __init__(
        self,
        options: SupervisorOptions,
        clock: Clock,
        say: Callable[[str], None],
        on_hello: Callable[[Hello], None] | None = None,
    ) -> None:
        self._options, self._clock, self._say, self._on_hello = options, clock, say, on_hello
        self.state: FleetState = "starting"
        self.ever_ready = False
        self.exit_code = 0
        self.summary = Summary()
        self.workers: dict[int, WorkerProcess] = {}
        """The living, by index."""
        self.hello: Hello | None = None
        """The first one: what it says of app, store and settings holds for all."""
        self.met = asyncio.Event()
        """A worker has told what its settings say."""
        self.stopping = asyncio.Event()
        self.killed = asyncio.Event()
        self._signalled = False
        self.first_ready = asyncio.Event()
        self.changed = asyncio.Event()
        self._stop_at = 0.0
        self._said: set[str] = set()
        self._untold: deque[JobRecovered] = deque(maxlen=_UNTOLD_LIMIT)
        self._when_ready: list[Callable[[], None]] = []

    def when_ready(self, call: Callable[[], None]) -> None:
        """Call this whenever a worker begins to work: it may live for a moment only."""
        self._when_ready.append(call)

    def greeted(self, hello: Hello) -> None:
        """A worker knows its settings."""
        if self.hello is None and self._on_hello is not None:
            self._on_hello(hello)
        self.hello = self.hello or hello
        self.met.set()
        self.changed.set()

    def ready(self) -> None:
        """A worker works."""
        self.ever_ready = True
        if not self.stopping.is_set():
            self.state = "ready"
        self.first_ready.set()
        self._hand_on()
        for call in self._when_ready:
            call()
        self.changed.set()

    def told_to_stop(self, signal_name: str) -> None:
        """The first SIGTERM or SIGINT stops gracefully, the second at once."""
        if self._signalled:
            self.kill()
        else:
            self._signalled = True
            self.stop(f"stopped by {signal_name}")

    def stop(self, reason: str, *, exit_code: int = 0) -> None:
        """Begin the graceful stop. The first reason and the first exit code that is not 0 stand."""
        self.exit_code = self.exit_code or exit_code
        self.summary.reason = self.summary.reason or reason
        if not self.stopping.is_set():
            self._stop_at = self._clock.monotonic()
            self.state = "draining"
            self.stopping.set()
        self.changed.set()

    def refuse(self, exit_code: int, message: str) -> None:
        """A worker cannot start, and no restart would help: tell why, once, and stop the others."""
        if message and message not in self._said:
            self._said.add(message)
            self._say(message)
        self.stop(message or f"a worker could not start (exit code {exit_code})", exit_code=exit_code)

    def kill(self) -> None:
        """End at once: exit code 130 whatever came before."""
        self.summary.reason = "stopped at once by a second signal"
        self.stop(self.summary.reason)
        self.exit_code = 130
        self.killed.set()
        for worker in self.living():
            worker.kill("a second signal stopped the fleet at once")

    def recovered(self, runs: Iterable[JobRecovered]) -> None:
        """Runs of a worker that died were taken over: a worker that works tells the listeners, now or later."""
        self._untold.extend(runs)
        self._hand_on()

    def _hand_on(self) -> None:
        worker = next((each for each in self.living() if each.ready and not each.child.exited.done()), None)
        while worker is not None and self._untold:
            worker.send(Recovered(run=self._untold.popleft()))

    def living(self) -> Iterator[WorkerProcess]:
        return iter(list(self.workers.values()))

    @property
    def shutdown_timeout_ms(self) -> int:
        """The budget of a graceful stop."""
        if self._options.shutdown_timeout_ms is not None:
            return self._options.shutdown_timeout_ms
        return self.hello.shutdown_timeout_ms if self.hello else _DEFAULT_SHUTDOWN_MS

    @property
    def budget_left_s(self) -> float:
        """What is left of it; the whole of it before the stop has begun."""
        spent_s = self._clock.monotonic() - self._stop_at if self.stopping.is_set() else 0.0
        return max(self.shutdown_timeout_ms / 1000 - spent_s, 0.0)

    @property
    def drain_ms(self) -> int:
        """A worker's part of what is left: it needs a moment to give back and to close before it is killed."""
        left_ms = round(self.budget_left_s * 1000)
        return left_ms - min(_DRAIN_MARGIN_MS, left_ms // 5)

    def count(self, last: Bye | Beat | None) -> None:
        """Add what a worker has done in its life."""
        if last is None:
            return
        self.summary.completed += last.completed
        self.summary.failed += last.failed
        if isinstance(last, Bye):
            self.summary.given_back += last.given_back
            self.summary.refused += last.refused
            self.summary.problems += last.problems
