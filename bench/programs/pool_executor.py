"""`concurrent.futures.ProcessPoolExecutor`, a task a call."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from bench.programs import pool_calls


def main() -> None:
    with ProcessPoolExecutor(pool_calls.CHILDREN, multiprocessing.get_context("forkserver")) as pool:
        pool_calls.measure(
            lambda count: pool.map(pool_calls.echo, range(count)),
            lambda number: pool.submit(pool_calls.echo, number).result(),
            lambda data: pool.submit(pool_calls.kind_and_size, data).result(),
        )


if __name__ == "__main__":
    main()
