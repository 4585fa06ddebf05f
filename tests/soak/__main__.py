"""`python -m tests.soak`: eight worker processes on one SQLite file, one killed with SIGKILL every second.

Two supervisors of four workers each; the tenth kill, and every 15th after it, is of a supervisor, which is then started
again. Jobs of 1 to 50 ms are fed evenly. Exits 1 when a job was lost or a promise broken; the folder is then kept."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path

from .soak import soak


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long jobs are fed and processes killed (300)")
    parser.add_argument("--jobs", type=int, default=50_000, help="how many jobs (50000)")
    parser.add_argument("--seed", type=int, help="of what is drawn at random; each run has another")
    arguments = parser.parse_args()
    seed = random.randrange(1_000_000) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(prefix="workfleet-soak-"))
    print(f"{arguments.jobs:,} jobs over {arguments.seconds:g} s, seed {seed}", flush=True)
    result = asyncio.run(soak(folder, seconds=arguments.seconds, jobs=arguments.jobs, seed=seed))
    print(result.table())
    for problem in result.problems:
        print(f"VIOLATED: {problem}")
    if result.problems:
        print(f"what it left behind: {folder}")
        return 1
    shutil.rmtree(folder)
    print("every promise was kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
