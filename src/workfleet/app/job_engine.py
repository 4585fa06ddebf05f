"""The job engine of one worker: what claims and runs its jobs, and the loops that keep them while they run.

It puts the parts of `queues/` together with the worker's settings and implements none of them. It does not know what
else a worker does, nor in which order that starts and stops.
"""

from __future__ import annotations

from collections.abc import Callable

from workfleet.observe.logs.context import bind_job
from workfleet.ports.spans import OpenRun
from workfleet.ports.stores import Store
from workfleet.queues.canceller import Canceller
from workfleet.queues.exchange import Exchange
from workfleet.queues.handlers import HandlerTable
from workfleet.queues.kept import MostKept
from workfleet.queues.pruner import Pruner
from workfleet.queues.reaper import Reaper
from workfleet.queues.renewal import Renewal
from workfleet.queues.runner import Runner
from workfleet.stores.open import is_redis
from workfleet.supervision.board import Board
from workfleet.supervision.identity import is_alive
from workfleet.supervision.service import Service

from .builtins import Basis
from .handlers import unknown_policy
from .locking import LockPlace
from .policies import milliseconds
from .progress import NoBoard
from .runtime_options import RuntimeOptions


class JobEngine:
    """`exchange` claims, runs and settles; `reaper` finds what the dead have left."""

    def __init__(
        self,
        basis: Basis,
        options: RuntimeOptions,
        store: Store,
        table: HandlerTable,
        board: Board | NoBoard,
        *,
        locks: LockPlace,
        steady: Callable[[], bool],
        trace: OpenRun,
        kept: MostKept,
        clean: Callable[[str], str],
        poll_ms: int,
    ) -> None:
        """`steady`: see `Reaper`. `poll_ms` is how often the exchange looks for jobs when nothing wakes it."""
        core = basis.composition.core
        self._clock, self._store = basis.clock, store
        self._lease_ms, self._poll_ms = milliseconds(core.lease), milliseconds(core.poll)
        runner = Runner(
            table,
            store.jobs,
            clock=basis.clock,
            publish=basis.bus.publish,
            bind=bind_job,
            draw=options.draw,
            unknown=unknown_policy(basis.composition),
            trace=trace,
            kept=kept,
            clean=clean,
        )
        self.exchange = Exchange(
            store.jobs,
            runner,
            table,
            board,
            worker=options.worker,
            lease_ms=self._lease_ms,
            poll_ms=poll_ms,
            clock=basis.clock,
            now_ms=store.now_ms,
            publish=basis.bus.publish,
            calls=2 if is_redis(store.url) else 1,
        )
        self.reaper = Reaper(
            store,
            worker=options.worker,
            is_alive=is_alive,
            lease_ms=self._lease_ms,
            poll_ms=self._poll_ms,
            max_crashes=core.max_crashes,
            clock=basis.clock,
            publish=basis.bus.publish,
            steady=steady,
            locks=None if basis.composition.locks_url is None else locks.get,
        )

    def keepers(self, *, ledger_age_ms: int) -> list[Service]:
        """The loops beside the exchange. `ledger_age_ms`: how long rows of the run ledger are kept."""
        jobs, exchange, clock = self._store.jobs, self.exchange, self._clock
        return [
            self.reaper,
            Pruner(
                self._store,
                clock,
                ended=exchange.totals.total,
                ledger_age_ms=ledger_age_ms,
                in_turns=not is_redis(self._store.url),
            ),
            Renewal(jobs, exchange.unnoted, exchange.lose, lease_ms=self._lease_ms, clock=clock),
            Canceller(jobs, exchange.claims, exchange.cancel, poll_ms=self._poll_ms, clock=clock),
        ]
