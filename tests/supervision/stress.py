"""The one test that every service must pass: cancelled at any await, it ends soon, leaves nothing, starts again."""

from __future__ import annotations

import asyncio

from workfleet.supervision.service import Service


async def stress(service: Service, *, steps: int = 12) -> None:
    """Starts `service.serve()` and cancels it after 0, 1, 2… turns of the event loop, always on the same object.

    A turn is where anything can be interrupted, so this walks the cancellation through the service's first awaits; the
    last round lets it run for a moment. Raises AssertionError when it is deaf, or leaves a task behind.
    """
    before = asyncio.all_tasks()
    for turns in [*range(steps), None]:
        task = asyncio.create_task(service.serve())
        if turns is None:
            await asyncio.wait([task], timeout=0.2)
        for _ in range(turns or 0):
            await asyncio.sleep(0)
        assert not task.done(), f"{service.name} ended by itself after {turns} turns: {task!r}"
        task.cancel()
        await asyncio.wait([task], timeout=2)
        assert task.done(), f"{service.name} goes on after it was cancelled in turn {turns}"
        assert task.cancelled(), f"{service.name} hid its cancellation in turn {turns}: {task!r}"
    left = asyncio.all_tasks() - before
    assert not left, f"{service.name} left tasks behind: {left}"
