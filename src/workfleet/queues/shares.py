"""How a worker's free slots are shared among its queues. A pure decision: it knows no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workfleet.ports.jobs import Want


def wants_of(
    free: Sequence[tuple[str, int]], weights: Mapping[str, int], total: int | None, turn: int
) -> tuple[Want, ...]:
    """What to claim with `free` slots of each queue and `total` of all of them (None: their sum).

    Where the total is less than the queues could take, each queue's share of it is by its weight. What a share leaves
    over by rounding goes to the queues in turn, so that over many claims each gets what it weighs; what a queue has no
    jobs for goes to the others, in the order of the wants."""
    open_queues = [(queue, slots) for queue, slots in free if slots > 0]
    if total is None or total >= sum(slots for _, slots in open_queues):
        return tuple(Want(queue, slots) for queue, slots in open_queues)
    if total <= 0:
        return ()
    first = turn % len(open_queues)
    in_turn = open_queues[first:] + open_queues[:first]
    sum_of_weights = sum(weights.get(queue, 1) for queue, _ in in_turn)
    shares = {queue: min(slots, total * weights.get(queue, 1) // sum_of_weights) for queue, slots in in_turn}
    left = total - sum(shares.values())
    for queue, slots in in_turn:
        more = min(slots - shares[queue], left, 1)
        shares[queue] += more
        left -= more
    return tuple(Want(queue, slots, shares[queue]) for queue, slots in in_turn)
