"""Puts jobs on Huey's queue, one a call, which is its only way, and prints how many a second that were."""

from __future__ import annotations

import time

from bench.programs.huey_app import noop
from bench.programs.marks import SIZE, mail

if __name__ == "__main__":
    begun = time.perf_counter()
    for number in range(SIZE):
        noop(mail(number))
    print(SIZE / (time.perf_counter() - begun))
