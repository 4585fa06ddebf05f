"""`python -m tests.soak.pools`: pools of three children, each of which lives for some seconds of a random walk over
everything that one can do with a pool and to its children, and is ended under load.

Every call must end once, with its value or with an error that was to be expected; no method is entered twice for one
call; between the walk and the end the pool is at full size; after it descriptors, memory maps, processes and zombies
are as before. Exits 1 when that was not so, and says the seed."""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
import sys
import tempfile
import time
from pathlib import Path

import psutil

from tests.soak.pool_walk import Tally, Walk

LIFE_S = 5.0


async def soak(seconds: float, seed: int) -> Tally:
    """Lives until the time is over; at least one."""
    tally, drawn = Tally(), random.Random(seed)
    until = time.monotonic() + seconds
    while not tally.lives or (time.monotonic() < until and not tally.problems):
        with tempfile.TemporaryDirectory(prefix="workfleet-soak-") as folder:
            await Walk(Path(folder), drawn, tally).live(min(LIFE_S, seconds), drain=drawn.random() < 0.5)
        gc.collect()
        tally.rss_bytes.append(psutil.Process().memory_info().rss)
    return tally


def table(tally: Tally) -> str:
    rows = [("pools", tally.lives), *sorted(tally.done.items()), ("", 0), *sorted(tally.ends.items())]
    lines = [f"{name:<20} {count:>9,}" if name else "calls that ended with" for name, count in rows]
    first, last = tally.rss_bytes[0], tally.rss_bytes[-1]
    return "\n".join([*lines, f"memory of this process after the first pool {first:,}, after the last {last:,} bytes"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.pools", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long pools are made and ended (300)")
    parser.add_argument("--seed", type=int, help="of what is drawn at random; each run has another")
    arguments = parser.parse_args()
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    print(f"{arguments.seconds:g} s, seed {seed}", flush=True)
    tally = asyncio.run(soak(arguments.seconds, seed))
    print(table(tally))
    for problem in tally.problems:
        print(f"VIOLATED: {problem}")
    print("a promise was broken" if tally.problems else "every promise was kept", flush=True)
    return 1 if tally.problems else 0


if __name__ == "__main__":
    sys.exit(main())
