"""`App`: the root module. It is a value that can be imported without side effects; `run` makes a worker of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dishka import Provider
from pydantic import BaseModel

from workfleet.model.policy import OwnBackoff
from workfleet.model.queue import Queue
from workfleet.modules.module import Module


class App(Module):
    """An application: its name, its modules, and, as a module itself, its own jobs.

    The name separates applications that share a store, and is never changed lightly. `store` is a store's URL, below
    every setting. `version` is the release where `WORKER_RELEASE` does not say it."""

    def __init__(
        self,
        name: str,
        *,
        modules: Sequence[Module] = (),
        providers: Sequence[Provider] = (),
        jobs: Sequence[Any] = (),
        settings: type[BaseModel] | None = None,
        queues: Sequence[str | Queue] = (),
        backoffs: Mapping[str, OwnBackoff] | None = None,
        store: str | None = None,
        version: str | None = None,
    ) -> None:
        core = {name: value for name, value in {"store": store, "release": version}.items() if value is not None}
        super().__init__(
            name,
            imports=modules,
            providers=providers,
            jobs=jobs,
            settings=settings,
            queues=queues,
            backoffs=backoffs,
            given={"": core} if core else None,
        )

    async def run(self, *, until_idle: bool = False) -> None:
        """Run as a worker in this very process, until it is told to stop (SIGTERM, SIGINT, cancellation) or, with
        `until_idle`, until nothing is left to do.

        Without a supervisor nobody restarts this process or ends it when it is stuck; leases are renewed from a thread
        of their own. `workfleet run` is the better way in production. Raises `ConfigError` and `StoreUnavailable`."""
        from .own_process import run_here  # the worker's parts are heavy, and an app is imported by clients too

        await run_here(self, until_idle=until_idle)
