"""Pebble, a task a call."""

from __future__ import annotations

from pebble import ProcessPool  # type: ignore[import-not-found,unused-ignore]

from bench.programs import pool_calls


def main() -> None:
    with ProcessPool(max_workers=pool_calls.CHILDREN) as pool:
        pool_calls.measure(
            lambda count: [
                future.result() for future in [pool.submit(pool_calls.echo, None, number) for number in range(count)]
            ],
            lambda number: pool.submit(pool_calls.echo, None, number).result(),
            lambda data: pool.submit(pool_calls.kind_and_size, None, data).result(),
        )


if __name__ == "__main__":
    main()
