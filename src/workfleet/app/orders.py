"""What an operator told a worker, and what the worker makes of that."""

from __future__ import annotations

from collections.abc import Callable

from workfleet.events import Event, WorkerInstructed
from workfleet.model.fleet import Instruction
from workfleet.queues.exchange import Exchange


class Orders:
    """A worker that was told anything claims no more, until that is taken back. Its schedules go on: what they enqueue
    is for the others. `then` hears of each change, to drain the worker when it is told "stop" or "recycle"."""

    def __init__(
        self,
        worker: str,
        exchange: Exchange,
        then: Callable[[Instruction | None], None],
        publish: Callable[[Event], None],
    ) -> None:
        self._worker, self._exchange, self._then, self._publish = worker, exchange, then, publish
        self._instruction: Instruction | None = None

    def hear(self, instruction: Instruction | None) -> None:
        """The record has this instruction."""
        if instruction == self._instruction:
            return
        self._instruction = instruction
        self._publish(WorkerInstructed(worker=self._worker, instruction=instruction or "work"))
        if instruction is None:
            self._exchange.resume()
        else:
            self._exchange.pause()
        self._then(instruction)
