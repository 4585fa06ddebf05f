"""Sends jobs to an idle Huey consumer, spaced as ours are."""

from __future__ import annotations

import random
import time

from bench.programs.huey_app import late
from bench.programs.marks import SIZE, WARM, mail, wait_for_lines

if __name__ == "__main__":
    for number in range(WARM):
        late(mail(number))
        wait_for_lines("warm", number + 1)
    for number in range(SIZE):
        time.sleep(random.uniform(0.02, 0.06))
        late(mail(number, time.monotonic_ns()))
    wait_for_lines("latencies", SIZE)
