"""What a pool's children are doing, as values."""

from __future__ import annotations

from collections.abc import Iterable

from workfleet.pools.member import Member
from workfleet.pools.slot import Slot
from workfleet.pools.stats import ChildState, ChildStats, LastExit


def described(slots: Iterable[Slot], spares: Iterable[Member], now: float) -> tuple[ChildStats, ...]:
    """Those of each place, the ones that leave it first, and then the spares. `now` is monotonic."""
    placed = (
        (slot, member)
        for slot in sorted(slots, key=lambda slot: slot.number)
        for member in (*slot.leaving, slot.member)
        if member is not None and member.state != "gone"
    )
    return (
        *(_child(member, member.slot, _state(member), now, slot.restarts, slot.last_exit) for slot, member in placed),
        *(_child(spare, None, "spare" if spare.state == "ready" else spare.state, now, 0, None) for spare in spares),
    )


def _state(member: Member) -> ChildState:
    return "busy" if len(member.line) and member.state in ("ready", "spent") else member.state


def _child(
    member: Member, place: int | None, state: ChildState, now: float, restarts: int, last_exit: LastExit | None
) -> ChildStats:
    head = member.line.head
    return ChildStats(
        slot=place,
        pid=member.child.pid,
        state=state,
        calls=member.calls,
        method=head.method if head is not None else None,
        started_ms=member.started_ms,
        age_ms=round((now - member.started) * 1000),
        memory_bytes=member.memory_bytes,
        cpu_percent=member.cpu_percent,
        restarts=restarts,
        last_exit=last_exit,
    )
