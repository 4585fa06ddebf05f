"""`python -m tests.soak.schedules`: scheduler processes whose clocks are up to ten seconds off, of which one is killed
with SIGKILL every second and started anew, fire schedules that are due every second, on SQLite and on Redis.

Half of the schedules are the application's code, the others were added at run time. Which slots there were is computed
beside the engine; that each had one job, and that it was run, is compared with what the processes wrote down outside
the store. Exits 1 when a slot was missed or doubled; the folder is then kept."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.soak.slot_soak import Result, soak
from workfleet.stores.open import is_redis


def table(results: Sequence[Result]) -> str:
    heads = (
        "store", "expected", "fired", "missed", "doubled", "late p50", "p99", "max", "kills", "none was up", "ran again"
    )  # fmt: skip
    rows = [
        (
            "redis" if is_redis(each.plan.url) else "sqlite",
            *(f"{count:,}" for count in (each.verdict.expected, each.verdict.fired)),
            *(f"{count:,}" for count in (each.verdict.missed, each.verdict.doubled)),
            *(f"{ms:,} ms" for ms in each.late_ms),
            *(f"{count:,}" for count in (each.kills, each.none_was_up, each.verdict.ran_again)),
        )
        for each in results
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads))]
    lines = (zip(row, widths, strict=True) for row in (heads, *rows))
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(line))
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.schedules", description=__doc__)
    parser.add_argument("--store", choices=["sqlite", "redis"], help="only on this one")
    parser.add_argument("--seconds", type=int, default=180, help="for how long schedules are due (180)")
    parser.add_argument("--schedules", type=int, default=100, help="how many (100)")
    parser.add_argument("--processes", type=int, default=8, help="how many at a time (8)")
    parser.add_argument("--seed", type=int, help="of what is drawn at random; each run has another")
    given = parser.parse_args(arguments)
    seed = random.randrange(1_000_000) if given.seed is None else given.seed
    asked = {"seconds": given.seconds, "schedules": given.schedules, "processes": given.processes, "seed": seed}
    results = list[Result]()
    for store in ["sqlite", "redis"] if given.store is None else [given.store]:
        print(f"{store}: {', '.join(f'{count} {what}' for what, count in asked.items())}", flush=True)
        folder = Path(tempfile.mkdtemp(prefix="workfleet-soak-"))
        with opened(store, folder) as url:
            results.append(asyncio.run(soak(folder, url, **asked)))
        for problem in results[-1].problems:
            print(f"VIOLATED: {problem}")
        if results[-1].problems:
            print(f"what it left behind: {folder}")
        else:
            shutil.rmtree(folder)
    return told(results)


def told(results: Sequence[Result]) -> int:
    """Print the table. Returns the exit code."""
    print(table(results))
    print("late: since the first clock of a process that lived for another second had reached it (Redis: the server's)")
    broken = any(each.problems or each.verdict.missed or each.verdict.doubled for each in results)
    print("a promise was broken" if broken else "every promise was kept", flush=True)
    return 1 if broken else 0


@contextmanager
def opened(store: str, folder: Path) -> Iterator[str]:
    """The URL of a store in this folder, and its server while it is used."""
    if store == "sqlite":
        yield f"sqlite:///{folder / 'store.db'}"
        return
    from tests.stores.redis.servers import Server  # it asks for what only a platform with servers has

    server = Server(folder, "--appendonly", "yes", "--loglevel", "warning")
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
