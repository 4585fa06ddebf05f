"""A running worker: it opens the store, builds the graph, starts the services in order, and takes all of it down again.

It owns the services and implements none. Whatever fails while it starts, what was started before is stopped and closed.
"""

from __future__ import annotations

import asyncio

from dishka import AsyncContainer

from workfleet.bus import Bus
from workfleet.errors import StoreUnavailable
from workfleet.events import SettingIgnored, StoreWarned, WorkerDraining, WorkerReady, WorkerStopped
from workfleet.health.lag import LoopLagSampler
from workfleet.health.service import Health
from workfleet.model.fleet import WorkerRecord
from workfleet.modules.module import Module
from workfleet.observe.metrics.recorder import MetricsRecorder
from workfleet.observe.metrics.registry import MetricsRegistry
from workfleet.observe.metrics.store import MetricStore
from workfleet.observe.trace_jobs import RunSpans
from workfleet.pools.registry import Pools
from workfleet.ports.clock import Clock
from workfleet.ports.spans import OpenRun, nobody_looks
from workfleet.ports.stores import Store
from workfleet.queues.handlers import HandlerTable
from workfleet.queues.kept import MostKept
from workfleet.schedules.process_local import ProcessLocalScheduler
from workfleet.schedules.scheduler import Scheduler
from workfleet.settings.health import HealthSettings
from workfleet.settings.sections import LogSettings, MetricsSettings, SchedulerSettings, TracingSettings
from workfleet.supervision.board import Board
from workfleet.supervision.identity import own_identity
from workfleet.supervision.service import Service, ServiceGroup

from .aftermath import Aftermath
from .announce import announce
from .at_start import check_releases, run_at_start
from .builtins import Basis
from .checking import checked_graph
from .client import Session
from .compile import Compiler
from .composition import Composition
from .definitions import Definition
from .fleet_facts import FleetFactsReader
from .graph import close_graph
from .guarding import GuardMaker
from .handlers import build_handlers
from .health import StoreProbe
from .hooks import call_hooks, end_hooks, module_services
from .indicators import add_indicators
from .job_engine import JobEngine
from .locking import LockPlace
from .log_options import redactor_of
from .merged import MergedSchedules
from .metrics import metric_services
from .planned import define_all
from .policies import milliseconds
from .pool_metrics import pool_metrics
from .pool_orders import PoolOrders
from .pooling import Pooling
from .progress import LoopProgress, NoBoard
from .pulse import SELDOM, WorkerPulse
from .queue_counts import QueueCounts
from .readiness import Readiness
from .restore import restore
from .runtime_options import RuntimeOptions
from .threads import HandlerThreads

_LEAST_MS = 500
"""What ending a service may take, also when the budget is used up: cancelling takes a moment."""


class Runtime:
    """One worker process's application, from `start` to `stop`."""

    def __init__(self, basis: Basis, options: RuntimeOptions) -> None:
        self.basis, self.options = basis, options
        self.clock: Clock = basis.clock
        self.bus: Bus = basis.bus
        self.composition: Composition = basis.composition
        self.registry = MetricsRegistry()
        self.recorder = MetricsRecorder(self.registry)
        self.board: Board | NoBoard = basis.board or NoBoard()
        self.threads = HandlerThreads()
        self.problems: list[str] = []
        """What went wrong while stopping, a sentence each."""
        self.definitions: list[Definition] = []
        self.ready = False
        self._container: AsyncContainer | None = None
        self._services = ServiceGroup("worker", [], clock=self.clock, publish=self.bus.publish)
        self._sources = ServiceGroup("sources", [], clock=self.clock, publish=self.bus.publish)
        self._begun: list[Module] = []
        """Modules whose initialisation has begun, the last first."""

    async def start(self) -> None:
        """Start everything. Raises `ConfigError`, `StoreUnavailable` and what user code raises; nothing is left
        open then."""
        try:
            await self._start()
        except BaseException:
            await self.close()
            raise

    async def _start(self) -> None:
        composition, publish = self.composition, self.bus.publish
        compiler = await self._assemble()
        self.options.configure_logs(await self.container.get(LogSettings))
        for warning in composition.loaded.warnings:
            publish(SettingIgnored(warning=warning))
        scheduler = await self.container.get(SchedulerSettings)
        self.definitions = define_all(composition, scheduler)
        check_releases(composition, self.definitions)
        self.store: Store = await self.container.get(Store)
        for module in composition.modules:
            self._begun.insert(0, module)
            await call_hooks([module], "init", self.container)
        table = await build_handlers(composition, compiler, self.definitions, scheduler, self.options.queues)
        self.table = table
        locks = await self.container.get(LockPlace)
        await call_hooks(composition.modules, "bootstrap", self.container)
        merged = await MergedSchedules.of(self.store, self.definitions)
        if self.options.announce:
            announce(self.basis, self.store, self.definitions, merged, each=scheduler.log_registered_jobs)
        if composition.core.scheduler_enabled:
            worker = self.options.worker
            await run_at_start(
                composition, self.definitions, merged.records, self.store, worker=worker, publish=publish
            )
        await self._make_services(table, locks)
        # Before anything is claimed, those of queues without any included: limits that the code no longer has vanish.
        await self.store.queues.set_limits(table.limits)
        if self.options.announce:
            for found in await self.store.exam.others():
                publish(StoreWarned(check=found.check, said=found.said, advice=found.advice))
        # Registered before it takes anything over: killed in between, it is found to be dead itself.
        await self.store.fleet.register(self._record)
        await self.engine.reaper.bury()
        self._start_services()
        self.ready = True
        publish(WorkerReady(worker=self.options.worker, queues=", ".join(sorted(table.queues)) or "no queue"))

    async def _assemble(self) -> Compiler:
        options = self.options
        self.pooling = options.pooling or Pooling(
            self.basis, locator=options.locator, config=options.config, processes=options.processes
        )
        self._container = checked_graph(self.basis, self.registry, self.pooling.providers(), options)
        if (await self._container.get(MetricsSettings)).collection.enabled:
            self.bus.subscribe(self.recorder)
        await self.pooling.start(self._container)
        health = await self._container.get(Health)
        await add_indicators(health, self.basis, self._container, self.threads, self.pooling.states)
        return Compiler(
            container=self._container,
            enqueueing=(await self._container.get(Session)).enqueueing,
            make_guards=await self._container.get(GuardMaker),
            threads=self.threads,
            in_pool=self.pooling.invocation,
        )

    @property
    def container(self) -> AsyncContainer:
        """The graph. Only after the start has built it."""
        assert self._container is not None, "the graph is built at start"
        return self._container

    async def stop(self, timeout_ms: int) -> WorkerStopped:
        """Drain: stop firing and claiming, let jobs end within the budget, give the rest back, close. Returns the
        report."""
        deadline = self.clock.monotonic() + timeout_ms / 1000
        self.bus.publish(WorkerDraining(worker=self.options.worker, active=self.exchange.active, timeout_ms=timeout_ms))
        refused = list(await self._sources.stop(max(_left_ms(self.clock, deadline) // 10, _LEAST_MS)))
        # The running jobs need the budget more than hooks do.
        limit_ms = _left_ms(self.clock, deadline) // 2
        self.problems += await end_hooks(self._begun, "drain", self.container, limit_ms)
        given_back = await self.exchange.drain(max(deadline - self.clock.monotonic(), 0))
        await self.aftermath.finish(max(_left_ms(self.clock, deadline) // 2, _LEAST_MS))
        refused += await self._services.stop(max(_left_ms(self.clock, deadline), _LEAST_MS))
        await self._forget()
        await self.close(max(_left_ms(self.clock, deadline), _LEAST_MS))
        totals = self.exchange.totals
        stopped = WorkerStopped(
            worker=self.options.worker,
            completed=totals["completed"],
            failed=totals["failed"],
            given_back=given_back,
            refused=tuple(refused),
        )
        self.bus.publish(stopped)
        return stopped

    async def close(self, hooks_ms: int = 5_000) -> None:
        """Stop what runs and close what is open, in reverse order. Safe to call at any stage of a start.

        `hooks_ms` is how long the modules' shutdown hooks may take, all together."""
        for group in (self._sources, self._services):
            await group.stop(1_000)
        begun, self._begun = self._begun, []
        self.problems += await end_hooks(begun, "shutdown", self.container, hooks_ms) if begun else []
        if self._container is not None:
            container, self._container = self._container, None
            try:
                async with asyncio.timeout(max(hooks_ms, 1_000) / 1000):
                    self.problems += await close_graph(container)
            except TimeoutError:
                self.problems.append("resources of the application did not close in time: see what its providers yield")
        self.threads.shutdown()

    async def _run_spans(self) -> OpenRun:
        wanted = await self.container.get(TracingSettings)
        return RunSpans(self.bus.publish, linked=wanted.runs == "linked") if wanted.enabled else nobody_looks

    async def _make_services(self, table: HandlerTable, locks: LockPlace) -> None:
        """Two groups: the sources of new work stop first, everything that finishes and keeps it last."""
        self._record = WorkerRecord(
            id=self.options.worker,
            identity=own_identity(),
            queues=tuple(table.queues),
            handlers=table.names(),
            release=self.composition.release,
        )
        clock, publish = self.clock, self.bus.publish
        logs = await self.container.get(LogSettings)
        self.engine = JobEngine(
            self.basis,
            self.options,
            self.store,
            table,
            self.board,
            locks=locks,
            steady=lambda: self.probe.steady,
            trace=await self._run_spans(),
            kept=MostKept(logs.jobs.lines, int(logs.jobs.size)),
            clean=redactor_of(logs).text,
            poll_ms=self._seldom_ms,
        )
        self.exchange = self.engine.exchange
        if self.options.driven:
            self.exchange.pause()
        self.scheduler = self._make_scheduler()
        self.aftermath = await Aftermath.of(self.basis, self.store, self.container, self.threads, self.options.worker)
        kept = [self.exchange] if self.options.driven else await self._keepers()
        brought = await module_services(self.composition.modules, self.container)
        timers = [] if self.options.driven else [*brought, *self._timers()]
        self._services = ServiceGroup("worker", kept, clock=clock, publish=publish)
        self._sources = ServiceGroup("sources", timers, clock=clock, publish=publish)

    def _start_services(self) -> None:
        self._tasks = [asyncio.create_task(group.serve(), name=group.name) for group in (self._services, self._sources)]

    async def _keepers(self) -> list[Service]:
        """What finishes and keeps work; the exchange last, so that it stops first."""
        clock, publish, store = self.clock, self.bus.publish, self.store
        self.probe = await self.container.get(StoreProbe)
        self.sampler = await self.container.get(LoopLagSampler)
        health, wanted = await self.container.get(Health), await self.container.get(HealthSettings)
        self.readiness = Readiness(health, wanted, clock, self.pooling.states)
        metrics = await self.container.get(MetricsSettings)
        kept: list[Service] = metric_services(
            metrics,
            self.registry,
            await self.container.get(MetricStore),
            FleetFactsReader(store, metrics.collection, clock, await self.container.get(QueueCounts)).read,
            index=self.options.index,
            clock=clock,
            publish=publish,
            health=lambda: self.readiness.report,
            tell=self.options.tell_metrics,
            handed=self.options.handed,
        )
        pools = await self.container.get(Pools)
        if metrics.collection.enabled:
            kept.append(pool_metrics(self.registry, pools, metrics, clock, index=self.options.index))
        return [
            *self.aftermath.services,
            *kept,
            LoopProgress(self.board, clock),
            self.sampler,
            self.readiness,
            WorkerPulse(
                store,
                self._record,
                self.exchange,
                self.probe,
                self.options.on_instruction,
                lambda: restore(store, self.definitions, self.table.limits, publish),
                PoolOrders(pools, publish),
                poll_ms=milliseconds(self.composition.core.poll),
                clock=clock,
                publish=publish,
            ),
            *self.engine.keepers(ledger_age_ms=self.aftermath.age_ms),
            *self.options.extra_services(self),
            self.exchange,
        ]

    @property
    def _seldom_ms(self) -> int:
        """How often those look by themselves whom pulses wake; a test that drives the worker has no pulses."""
        return milliseconds(self.composition.core.poll) * (1 if self.options.driven else SELDOM)

    def _timers(self) -> list[Service]:
        if not self.composition.core.scheduler_enabled:
            return []
        local = [d.record for d in self.definitions if d.per_process and d.record.enabled]
        per_process = ProcessLocalScheduler(
            local, self.store.jobs, worker=self.options.worker, clock=self.clock, publish=self.bus.publish
        )
        return [per_process, self.scheduler]

    def _make_scheduler(self) -> Scheduler:
        return Scheduler(
            self.store.schedules,
            app=self.composition.app.name,
            now_ms=self.store.now_ms,
            poll_ms=self._seldom_ms,
            clock=self.clock,
            publish=self.bus.publish,
            wake=self.exchange.wake,
            skips={d.record.name: d.skips for d in self.definitions if d.skips is not None},
        )

    async def _forget(self) -> None:
        """Take our record out, unless a job is still ours: then the record is how others find out that we are gone."""
        if not self.exchange.active:
            try:
                await self.store.fleet.forget(self.options.worker)
            except StoreUnavailable as error:
                self.problems.append(f"the worker's record stays until others see that it is gone: {error}")


def _left_ms(clock: Clock, deadline: float) -> int:
    return max(int((deadline - clock.monotonic()) * 1000), 0)
