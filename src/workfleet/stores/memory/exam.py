"""What there is to say of a store in memory."""

from __future__ import annotations

from workfleet.ports.exam import Finding


class MemoryExam:
    """A `StoreExam`."""

    async def findings(self) -> list[Finding]:
        return [Finding("durability", "warning", "it lives in one process and ends with it", "For tests only")]

    async def strangers(self) -> dict[str, tuple[str, ...]]:
        return {}

    async def others(self) -> list[Finding]:
        return []
