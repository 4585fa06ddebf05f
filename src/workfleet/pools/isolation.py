"""What kinds of children a pool may have: processes, threads of this process, or tasks of its event loop.

All three speak the same frames, so everything else of a pool is the same for each: queue, strategies, limits of time,
restarts, hooks, health. Arguments and results are copied for each as well, so that the kind can be changed by a setting
without the code noticing. What only a process can do is enforce: nothing can end a thread or a task against its will.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workfleet.pools.child_inline import InlineChild
from workfleet.pools.child_thread import ThreadChild
from workfleet.pools.link import OnFrames
from workfleet.pools.marks import Isolation
from workfleet.pools.output import OnOutput
from workfleet.pools.process import Child, Spawn

Build = Callable[[], object]
"""Makes the object that a child serves, there: in its thread or on the loop."""

Recipe = Callable[[], Awaitable[Build]]
"""Gets what the object needs, in this process and on its loop, for children of this process."""


def spawner(isolation: Isolation, recipe: Recipe | None, processes: Spawn) -> Spawn:
    """What starts a pool's children. Without a recipe they make their object as a process would, by its factory."""
    if isolation == "process":
        return processes
    kind = ThreadChild if isolation == "thread" else InlineChild

    async def spawn(label: str, on_frames: OnFrames, on_output: OnOutput | None) -> Child:
        # What they print goes where this process prints: there is no output of their own to be heard.
        child: ThreadChild | InlineChild = kind(label, None if recipe is None else await _build_of(recipe), on_frames)
        try:
            await child.open()
        except BaseException:  # also when it is cancelled: nobody would know of it
            child.kill()
            raise
        return child

    return spawn


async def _build_of(recipe: Recipe) -> Build:
    try:
        return await recipe()
    except Exception as error:  # noqa: BLE001 - user code's constructors: it is the child's failure to start, as in a process
        return _raising(error)


def _raising(error: Exception) -> Build:
    def build() -> object:
        raise error

    return build
