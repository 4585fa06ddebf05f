"""loky, a task a call."""

from __future__ import annotations

from loky import get_reusable_executor  # type: ignore[import-not-found,unused-ignore]

from bench.programs import pool_calls


def main() -> None:
    with get_reusable_executor(max_workers=pool_calls.CHILDREN, timeout=None) as pool:
        pool_calls.measure(
            lambda count: pool.map(pool_calls.echo, range(count)),
            lambda number: pool.submit(pool_calls.echo, number).result(),
            lambda data: pool.submit(pool_calls.kind_and_size, data).result(),
        )


if __name__ == "__main__":
    main()
