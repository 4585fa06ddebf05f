"""A process of a fleet: calls guarded functions on a store in a file, as it is told line by line, and says what came of
each call. `hangs` never ends."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.guards.rig import Guards
from workfleet.clock import SystemClock
from workfleet.errors import CircuitOpen, RateLimited
from workfleet.guards.declare import circuit_breaker, idempotent, rate_limit
from workfleet.stores.open import open_store


@rate_limit(10, "1h", scope="fleet")
async def limited(kind: str) -> None: ...


@idempotent("kind")
async def once(kind: str) -> int:
    with (Path(sys.argv[1]).parent / "once").open("a") as file:
        file.write(f"{os.getpid()}\n")
    await asyncio.sleep(0.2)
    return os.getpid()


@circuit_breaker(threshold=3, reset_after="1s", scope="fleet")
async def fragile(kind: str) -> None:
    if kind == "hangs":
        say("hanging")
        await asyncio.Event().wait()
    if kind == "fails":
        raise OSError("down")


def say(text: object) -> None:
    print(text, flush=True)


async def main(path: str) -> None:
    store = await open_store(f"sqlite://{path}", app="test", clock=SystemClock(), create=True)
    guards = Guards(store, SystemClock(), f"process {os.getpid()}")
    guarded: list[Any] = [limited, once, fragile]
    functions = {fn.fn.__name__: guards.bind(fn, ("kind",)) for fn in guarded}
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, kind = line.split()
        try:
            say(await functions[name](kind=kind))
        except (CircuitOpen, RateLimited) as error:
            say(type(error).__name__)
        except OSError as error:
            say(error)
    await store.close()


asyncio.run(main(sys.argv[1]))
