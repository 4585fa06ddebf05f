"""`make soak-cron`: the engine beside the slow answers at every change of every clock in tzdata. A few minutes.

`python -m tests.schedules.soak_cron --zones Europe/Berlin,Pacific/Apia --parts shapes,seconds` does less of it."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain

from tests.schedules.cron_changes import FIRST, LAST, Change, by_shape, changes, zones
from tests.schedules.cron_comparing import HOUR, POLICIES, by_minute, by_second, in_every_zone, increasing, with_cronsim
from tests.schedules.cron_samples import MINUTES, SECONDS, TEN, drawn, many

EACH_SHAPE, EXPRESSIONS, SEED = 6, 300, 20260329
DAILY = ("30 2 * * *", "0 0 * * *")
SHOWN = 20
DEFAULT = (("shift", "first"),)


@dataclass(frozen=True)
class Task:
    """What one worker does at a time: it answers how many comparisons it made, and what differed."""

    count: int
    compare: Callable[[], Iterable[str]]

    def __call__(self) -> tuple[int, list[str]]:
        return self.count, list(self.compare())


def main(argv: Sequence[str] | None = None) -> int:
    """Exits 1 when anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.schedules.soak_cron", description=__doc__)
    parser.add_argument("--zones", help="only these, with commas between them")
    parser.add_argument("--parts", help=f"only these of {', '.join(PARTS)}")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes")
    arguments = parser.parse_args(argv)
    wanted = arguments.zones.split(",") if arguments.zones else zones()
    parts = arguments.parts.split(",") if arguments.parts else list(PARTS)
    begun, differences = time.monotonic(), 0
    with ProcessPoolExecutor(arguments.jobs) as pool:
        found = list(chain.from_iterable(pool.map(changes, wanted, chunksize=4)))
        alike = len({change.key for change in found}), len({change.shape for change in found})
        print(f"{len(wanted)} zones, {len(found)} changes, {alike[0]} different ones of {alike[1]} shapes", flush=True)
        for part in parts:
            compared, differing = 0, list[str]()
            for count, told in pool.map(Task.__call__, PARTS[part](wanted, found), chunksize=1):
                compared, differing = compared + count, differing + told
            print(f"{part}: {compared} comparisons, {len(differing)} differ", flush=True)
            for line in differing[:SHOWN]:
                print(f"  {line}", flush=True)
            differences += len(differing)
    print(f"{differences} differences, {time.monotonic() - begun:.0f} s")
    return 1 if differences else 0


def _shapes(_zones: Sequence[str], found: Sequence[Change]) -> list[Task]:
    """Every shape at several dates: hundreds of expressions, and the ten with every policy."""
    chosen, expressions = by_shape(found, EACH_SHAPE), many(EXPRESSIONS, SEED)
    return [
        *(Task(len(expressions), partial(by_minute, change, expressions, DEFAULT)) for change in chosen),
        *(Task(len(POLICIES) * len(MINUTES), partial(by_minute, change, MINUTES, POLICIES)) for change in chosen),
    ]


def _seconds(_zones: Sequence[str], found: Sequence[Change]) -> list[Task]:
    """Every shape second by second, with every policy."""
    count = len(SECONDS) * len(POLICIES)
    return [Task(count, partial(by_second, change, SECONDS, POLICIES)) for change in by_shape(found, 3)]


def _cronsim(_zones: Sequence[str], found: Sequence[Change]) -> list[Task]:
    """Every shape of whole hours beside cronsim, from half a day before the change.

    cronsim 2.8 is wrong where a clock was ever set by less than an hour, at 00:01 or past a whole day: rhythms go out
    of step there, instants are repeated for ever, and in Monrovia it does not end."""
    draw = random.Random(SEED)
    odd = {change.zone for change in found if not _is_plain(change)}
    fit = [change for change in found if change.zone not in odd]
    expressions = [*TEN, *(drawn(draw) for _ in range(EXPRESSIONS))]
    return [Task(len(expressions), partial(with_cronsim, change, expressions, 8)) for change in by_shape(fit, 3)]


def _is_plain(change: Change) -> bool:
    return abs(change.after - change.before) in (HOUR, 2 * HOUR) and change.at % HOUR == 0


def _every(_zones: Sequence[str], found: Sequence[Change]) -> list[Task]:
    """Every change of every zone, ten expressions."""
    alike: dict[tuple[int, int, int], list[Change]] = defaultdict(list)
    for change in found:
        alike[change.key].append(change)
    return [Task(len(TEN) * len(each), partial(in_every_zone, each, TEN)) for each in alike.values()]


def _increasing(wanted: Sequence[str], _found: Sequence[Change]) -> list[Task]:
    """Daily schedules through the whole time: one run after the other, one a day."""
    return [Task(1, partial(increasing, zone, expression, FIRST, LAST)) for zone in wanted for expression in DAILY]


PARTS: dict[str, Callable[[Sequence[str], Sequence[Change]], list[Task]]] = {
    "shapes": _shapes,
    "seconds": _seconds,
    "cronsim": _cronsim,
    "every": _every,
    "increasing": _increasing,
}

if __name__ == "__main__":
    sys.exit(main())
