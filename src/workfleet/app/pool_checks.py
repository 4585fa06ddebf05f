"""The pools that an application declares, as code and settings tell: their options, and what a start refuses in them.

Nothing is made or started here, so that a command can ask as well. Must not know how pools are run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from workfleet.errors import ConfigError, Problem
from workfleet.model.declared import GuardSpec, guards_of
from workfleet.payloads.hints import result_hint
from workfleet.pools.keys import MethodKeys
from workfleet.pools.marks import ProcessMark, ProcessOptions, public_methods
from workfleet.pools.options import ChildSpec, PoolOptions
from workfleet.pools.proxy import is_stream, proxy_problems
from workfleet.pools.reading import layered
from workfleet.pools.registry import keyless_problems, two_pools
from workfleet.settings.pools import PoolsSettings

from .guarding import guard_problems
from .pool_recipes import needs_of
from .registry import Code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dishka import AsyncContainer

CPU = "cpu"
"""The pool that always exists, for handlers that say `pool="cpu"`."""

Marks = Mapping[type[Any], ProcessMark]
Options = Mapping[str, PoolOptions | None]
"""By the pool's name; None: they are wrong."""


def pool_options(settings: PoolsSettings, name: str, *written: ProcessOptions, processes: int) -> PoolOptions:
    """What the settings give to every pool, then what the code says of this one, then what the operator does. An "auto"
    size is divided by `processes`. Raises `ConfigError`."""
    override = settings.overrides.get(name)
    operator = {} if override is None else override.given()
    layers = (cast(ProcessOptions, settings.inherited()), *written, cast(ProcessOptions, operator))
    return layered(PoolOptions(name=name, size=1), name, layers, processes=processes)


def cpu_options(settings: PoolsSettings, *, processes: int) -> PoolOptions:
    """Those of the pool `CPU`. Raises `ConfigError`."""
    # Of processes whatever the others are: that is what its handlers want of it.
    options = pool_options(settings, CPU, {"isolation": "process"}, processes=processes)
    if options.isolation != "process":
        raise ConfigError(Problem(f"pool {CPU}: isolation", "it is always of processes", options.isolation))
    return options


@dataclass(frozen=True)
class GuardedMethod:
    """A public method with guards. `parameters` are without its self."""

    specs: Sequence[GuardSpec]
    label: str
    where: str
    signature: inspect.Signature
    parameters: Sequence[str]
    result: Any


def guarded_method(cls: type[Any], name: str) -> GuardedMethod | None:
    """None: it has no guards. Raises `ConfigError` for a hint that cannot be read."""
    marked = public_methods(cls)[name]
    specs = guards_of(marked.adapter or marked.fn)
    if not specs:
        return None
    label, signature = f"{cls.__name__}.{name}", inspect.signature(marked.fn)
    parameters = list(signature.parameters)[1:]
    return GuardedMethod(specs, label, f"{cls.__module__}.{label}", signature, parameters, result_hint(marked.fn))


def pool_name(marks: Marks, pool: Any) -> Any:
    """The name of the pool that a handler names, by a class or as it is."""
    return marks[pool].name if isinstance(pool, type) and pool in marks else pool


def named_problems(code: Code, name: Any, options: Options, *, importable: bool) -> list[Problem]:
    """What keeps a handler from running in the pool that it names. `importable`: children find the application."""
    if not importable:
        message = f"pool={name!r} needs an application that a child can import: use `workfleet run`"
        return [Problem(code.where, message)]
    if not isinstance(name, str) or name not in options:
        return [Problem(code.where, f"pool={name!r}: there is no such pool. Pools: {', '.join(sorted(options))}")]
    found = options[name]
    if found is None or found.isolation == "process":
        return []
    # What a timeout or a stop gives back must not run on.
    problem = f"pool={name!r} has isolation={found.isolation!r}, and handlers run in pools of processes"
    here = "without pool= a plain function runs in a thread of the worker, an async one on its loop"
    return [Problem(code.where, f"{problem}: {here}")]


class DeclaredPools:
    """Reads every pool of an application. Afterwards `problems` are all that is wrong with any of them."""

    def __init__(
        self,
        marks: Marks,
        settings: PoolsSettings,
        container: AsyncContainer | None,
        *,
        processes: int,
        locator: str | None,
        doubled: bool,
    ) -> None:
        """`container` knows what constructors ask for; None: nothing is said of that. `locator` is where children find
        the application, `doubled` says that there are no children."""
        self._marks, self._settings, self._container, self._processes = marks, settings, container, processes
        self._by_name = locator is None and not doubled
        self.problems: list[Problem] = []
        self.options: dict[str, PoolOptions | None] = {CPU: None}
        with self._noting():
            self.options[CPU] = cpu = cpu_options(settings, processes=processes)
            self.problems += keyless_problems(cpu)
        for cls, mark in marks.items():
            self._read(cls, mark)

    def _read(self, cls: type[Any], mark: ProcessMark) -> None:
        if mark.name == CPU:
            self.problems.append(two_pools(CPU))
        options = self.options[mark.name] = self._options_of(mark)
        self.problems += proxy_problems(cls, mark.name)
        if options is not None and options.hash_key is not None:
            with self._noting():
                MethodKeys(cls, mark.name, options.hash_key)
        for name, method in public_methods(cls).items():
            with self._noting():
                found = None if is_stream(method) else guarded_method(cls, name)
                if found is not None:
                    self.problems += guard_problems(found.specs, found.where, found.parameters, found.result, "method")
        if options is not None:
            with self._noting():
                self._reach(cls, options)

    def _options_of(self, mark: ProcessMark) -> PoolOptions | None:
        with self._noting():
            return pool_options(self._settings, mark.name, mark.options, processes=self._processes)
        return None

    def _reach(self, cls: type[Any], options: PoolOptions) -> None:
        """Where its objects come from."""
        if options.isolation != "process":
            if self._container is not None:
                needs_of(cls, self._container)
        elif self._by_name:
            ChildSpec.of(cls)
        elif self._container is not None:
            # A child's graph has the worker classes too.
            needs_of(cls, self._container, besides=self._marks)

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self.problems += error.problems
