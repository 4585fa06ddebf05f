"""The key of a call in a pool with `strategy="consistent_hash"`: a template filled from the method's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from workfleet.errors import ConfigError, PayloadRejected, Problem
from workfleet.pools.marks import public_methods
from workfleet.templates import Template


class MethodKeys:
    """The keys of one class's public methods."""

    def __init__(self, worker: type[Any], pool: str, hash_key: str) -> None:
        """Raises `ConfigError` that names every method whose parameters `hash_key` cannot be filled from."""
        self._pool = pool
        self._methods: dict[str, tuple[inspect.Signature, Template]] = {}
        problems: list[Problem] = []
        for name, mark in public_methods(worker).items():
            signature = inspect.signature(mark.fn)
            try:
                template = Template.parse(hash_key, list(signature.parameters)[1:])
            except ValueError as error:
                where = f"{worker.__module__}.{worker.__qualname__}.{name}"
                problems.append(Problem(where, f"hash_key of pool {pool!r}: {error}"))
            else:
                self._methods[name] = signature, template
        if problems:
            raise ConfigError(problems)

    def of(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """The key of a call; None for what is no public method. Raises `PayloadRejected` where the arguments give none:
        they lead nowhere, to nothing or to a whole object."""
        known = self._methods.get(method)
        if known is None:
            return None
        signature, template = known
        bound = signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        try:
            return template.fill(bound.arguments)
        except (LookupError, AttributeError, ValueError) as error:
            what = f"arguments of {self._pool}.{method}"
            raise PayloadRejected(what, "$", f"they give no hash_key {template.text!r}: {error}") from error
