"""What the children of our pool serve."""

from __future__ import annotations

from bench.programs import pool_calls
from workfleet.pools.declare import process, public


@process("small", size=pool_calls.CHILDREN, max_queue=1_000)
class Small:
    """The methods of `pool_calls`."""

    @public
    def echo(self, value: int) -> int:
        return pool_calls.echo(value)

    @public
    def kind_and_size(self, data: bytes) -> tuple[str, int]:
        return pool_calls.kind_and_size(data)
