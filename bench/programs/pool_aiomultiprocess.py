"""aiomultiprocess, on uvloop in the parent and in the children."""

from __future__ import annotations

import uvloop
from aiomultiprocess import Pool  # type: ignore[import-not-found,unused-ignore]

from bench.programs import pool_calls


async def echo(value: int) -> int:
    return pool_calls.echo(value)


async def kind_and_size(data: bytes) -> tuple[str, int]:
    return pool_calls.kind_and_size(data)


async def main() -> None:
    async with Pool(pool_calls.CHILDREN, loop_initializer=uvloop.new_event_loop) as pool:
        await pool_calls.measure_async(
            lambda count: pool.map(echo, range(count)),
            lambda number: pool.apply(echo, (number,)),
            lambda data: pool.apply(kind_and_size, (data,)),
        )


if __name__ == "__main__":
    uvloop.run(main())
