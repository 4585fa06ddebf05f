"""`@circuit_breaker`: stop calling what fails again and again, and try with one call whether it works again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from workfleet.errors import CircuitOpen
from workfleet.ports.guards import Call, Proceed
from workfleet.templates import Template

from .circuits import Circuits
from .kinds import NO_FAILURES, is_one_of
from .refusing import Place, refusal


@dataclass(frozen=True)
class CircuitBreaker:
    """A guard. With a `key` each of its values has a circuit. `only` and `ignore` say which exceptions are failures;
    what is none neither opens the circuit nor closes it."""

    name: str
    circuits: Circuits
    place: Place
    key: Template | None = None
    only: tuple[type[BaseException], ...] | None = None
    ignore: tuple[type[BaseException], ...] = ()
    fallback: Callable[[Call], Awaitable[object]] | None = None

    async def __call__(self, call: Call, proceed: Proceed) -> object:
        circuit = self.name if self.key is None else f"{self.name} {self.key.fill(call.values)}"
        try:
            admission = await self.circuits.admit(circuit)
        except CircuitOpen as error:
            refused = error
        else:
            try:
                value = await proceed()
            except BaseException as error:
                ended = admission.by.ended(admission, error, counts=self._counts(error))
                await asyncio.shield(ended)  # a run that is cancelled frees its probe all the same
                raise
            await admission.by.ended(admission, None, counts=True)
            return value
        # Outside of the handlers above, so that what a fallback raises does not show the refusal as its cause.
        if self.fallback is not None:
            return await self.fallback(call)
        raise refusal(refused, self.place) from None

    def _counts(self, error: BaseException) -> bool:
        if isinstance(error, NO_FAILURES) or is_one_of(error, self.ignore):
            return False
        return self.only is None or is_one_of(error, self.only)
