"""`python -m tests.soak`: a fleet of which one process is killed with SIGKILL every second, on one SQLite file.

Two supervisors of four workers each; the tenth kill, and every 15th after it, is of a supervisor, which is then started
again. Jobs of 1 to 50 ms are fed evenly. With --redis it is two runs with two workers each, on a server with an
append-only file: every twenty seconds it is stopped by SIGTERM in the first, and killed in the second, where it syncs
the file always. Exits 1 when a job was lost or a promise broken; the folder is then kept."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path

from .outages import How, Outages
from .soak import Result, soak, sqlite


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--redis", action="store_true", help="on a server that is stopped and killed, 100,000 jobs")
    parser.add_argument("--seconds", type=float, default=300, help="how long jobs are fed and processes killed (300)")
    parser.add_argument("--jobs", type=int, help="how many jobs (50000; with --redis 100000 in each run)")
    parser.add_argument("--seed", type=int, help="of what is drawn at random; each run has another")
    arguments = parser.parse_args()
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    jobs = arguments.jobs or (100_000 if arguments.redis else 50_000)
    ways: tuple[How | None, ...] = ("SIGTERM", "SIGKILL") if arguments.redis else (None,)
    # Every run is made, whatever the one before has shown.
    return max([_run(how, arguments.seconds, jobs, seed) for how in ways])


def _run(how: How | None, seconds: float, jobs: int, seed: int) -> int:
    """Exit code of one soak, told as a table."""
    folder = Path(tempfile.mkdtemp(prefix="workfleet-soak-"))
    server = "" if how is None else f", the server ended by {how}"
    print(f"{jobs:,} jobs over {seconds:g} s{server}, seed {seed}", flush=True)
    result = asyncio.run(_soaked(folder, how, seconds, jobs, seed))
    print(result.table())
    for problem in result.problems:
        print(f"VIOLATED: {problem}")
    if result.problems:
        print(f"what it left behind: {folder}", flush=True)
        return 1
    shutil.rmtree(folder)
    print("every promise was kept", flush=True)
    return 0


async def _soaked(folder: Path, how: How | None, seconds: float, jobs: int, seed: int) -> Result:
    if how is None:
        return await soak(folder, sqlite(folder), workers=4, seconds=seconds, jobs=jobs, seed=seed)
    outages = Outages(folder, how, random.Random(seed))
    outages.start()
    try:
        return await soak(folder, outages.url, workers=2, seconds=seconds, jobs=jobs, seed=seed, outages=outages)
    finally:
        outages.stop()


if __name__ == "__main__":
    sys.exit(main())
