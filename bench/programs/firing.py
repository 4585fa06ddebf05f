"""The next fires of many cron expressions in many zones, computed by any library: what is asked for, and how long it
takes, in processor time, which other work on the machine hardly changes. The standard library alone, because peers'
programs import it in environments of their own.

A library gives `compiled`: from an expression and a zone to what it has parsed; and `walk`: from that to the next
`count` fires after an instant, as the library itself gives them. Both are done for every pair; only `walk` is timed. It
runs once before, with few fires, so that nobody's caches are cold."""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TypeVar

Parsed = TypeVar("Parsed")
Fire = TypeVar("Fire")

START_S = 1_767_225_600  # 2026-01-01T00:00Z
START = datetime.fromtimestamp(START_S, UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
# Only what all of them read alike: five fields, no L, no day of month together with a day of week, weekdays by name.
EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "*/15 * * * *",
    "*/7 9-17 * * *",
    "0 * * * *",
    "30 * * * *",
    "0 */2 * * *",
    "5,25,45 * * * *",
    "0 0 * * *",
    "0 3 * * *",
    "30 2 * * *",
    "15 4,16 * * *",
    "0 9 * * mon-fri",
    "*/10 8-18 * * mon-fri",
    "0 22 * * sun",
    "0 0 1 * *",
    "0 12 15 * *",
    "0 6 31 * *",
    "30 7 1 jan,apr,jul,oct *",
    "0 0 1 jan *",
)
PAIRS = tuple(product(EXPRESSIONS, ZONES))


def measure(
    compiled: Callable[[str, str], Parsed],
    walk: Callable[[Parsed, int], Sequence[Fire]],
    seconds: Callable[[Fire], float],
) -> None:
    """Print the rate, and leave the fires as whole seconds in the file `fires`: pair after pair, each with its count.
    `seconds` makes an instant of a fire, outside of the measured time."""
    count = max(int(os.environ["BENCH_SIZE"]) // len(PAIRS), 1)
    parsed = [compiled(expression, zone) for expression, zone in PAIRS]
    for each in parsed:
        walk(each, min(count, 3))
    parsed = [compiled(expression, zone) for expression, zone in PAIRS]
    begun = time.process_time()
    found = [walk(each, count) for each in parsed]
    took_s = time.process_time() - begun
    told = array("q")
    for fires in found:
        told.append(len(fires))
        told.extend(round(seconds(fire)) for fire in fires)
    Path("fires").write_bytes(told.tobytes())
    print(json.dumps({"fires": sum(map(len, found)), "seconds": took_s}))
