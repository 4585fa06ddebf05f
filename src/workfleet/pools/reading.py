"""From what was written of a pool to its options: each written option is read, checked and named when it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, get_args

from msgspec import structs

from workfleet.errors import ConfigError, Problem
from workfleet.model.durations import duration_ms
from workfleet.model.policy import Backoff
from workfleet.pools.cpus import auto_size
from workfleet.pools.marks import Isolation, ProcessOptions, Strategy, Supervision
from workfleet.pools.options import PoolOptions, RestartPolicy
from workfleet.units import Size


def merged(defaults: PoolOptions, name: str, written: ProcessOptions, *, processes: int) -> PoolOptions:
    """The options of one pool: what was written over `defaults`. `processes` share an "auto" size.

    Groups are merged option by option. Raises `ConfigError` naming every option that makes no sense.
    """
    return layered(defaults, name, ({}, written), processes=processes)


def layered(defaults: PoolOptions, name: str, layers: Sequence[ProcessOptions], *, processes: int) -> PoolOptions:
    """As `merged`, with several layers, the strongest last. The first is what every pool inherits: what it says of
    limits does not count in a pool that cannot have them. Raises `ConfigError`."""
    problems: list[Problem] = []
    facts = {**structs.asdict(defaults), "name": name, "restart": defaults.restart}
    for layer in layers:
        facts |= _read(f"pool {name}: ", layer, _readers(processes, facts["restart"]), problems)
        if "max_size" in layer or "min_size" in layer:
            facts["size"] = facts["size"] if "size" in layer else facts["min_size"] or 1
        if facts["strategy"] != "consistent_hash" and "hash_key" not in layer:
            facts["hash_key"] = None
    own = {option for layer in layers[1:] for option in layer}
    if facts["isolation"] != "process":
        facts |= {field: None for option, field in _OF_PROCESSES.items() if option not in own}
    problems += [Problem(f"pool {name}: {option}", reason) for option, reason in _contradictions(facts)]
    if problems:
        raise ConfigError(problems)
    return PoolOptions(**facts)


Reader = tuple[str, Callable[[Any], Any]]
"""The field of the options, and what makes its value of what was written. Raises TypeError or ValueError."""


def _read(
    what: str, written: Mapping[str, Any], readers: Mapping[str, Reader], problems: list[Problem]
) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    for option, value in written.items():
        if option not in readers:
            problems.append(Problem(f"{what}{option}", "there is no such option", repr(value)))
            continue
        field, read = readers[option]
        try:
            made = read(value)
        except (TypeError, ValueError) as error:
            problems.append(Problem(f"{what}{option}", str(error), repr(value)))
        except ConfigError as error:
            problems += [Problem(f"{what}{option}.{each.name}", each.message, each.value) for each in error.problems]
        else:
            facts |= made if field == "" else {field: made}
    return facts


def _contradictions(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    least, most, size = facts["min_size"], facts["max_size"], facts["size"]
    if (least is None) != (most is None):
        missing = "min_size" if least is None else "max_size"
        yield missing, "a pool that scales itself needs both min_size and max_size"
    elif least is not None and least > most:
        yield "min_size", f"{least} is above max_size={most}"
    elif least is not None and not least <= size <= most:
        yield "size", f"{size} is not between min_size={least} and max_size={most}"
    if (facts["strategy"] == "consistent_hash") != (facts["hash_key"] is not None):
        yield "hash_key", 'strategy="consistent_hash" and hash_key go together: one is missing'
    if facts["memory_bytes"] is not None and (facts["soft_memory_bytes"] or 0) > facts["memory_bytes"]:
        yield "soft_memory", "it is above memory: it would never be reached"
    if facts["isolation"] != "process":
        for option, field in _OF_PROCESSES.items():
            if facts[field] is not None:
                yield option, f'isolation="{facts["isolation"]}" cannot hold to it: only a process can be limited'


_OF_PROCESSES: Mapping[str, str] = {
    "memory": "memory_bytes",
    "soft_memory": "soft_memory_bytes",
    "address_space": "address_space_bytes",
    "cpu": "cpu_cores",
    "cpu_time": "cpu_time_ms",
    "stuck_after": "stuck_after_ms",
}
"""Limits that hold for processes only: inherited ones do not count in a pool of threads, its own are refused."""


def _readers(processes: int, restart: RestartPolicy) -> Mapping[str, Reader]:
    def size(value: Any) -> int:
        return auto_size(processes) if value == "auto" else _count_from(1, value)

    return {
        "size": ("size", size),
        "min_size": ("min_size", lambda value: _count_from(1, value)),
        "max_size": ("max_size", size),
        "isolation": ("isolation", lambda value: _one_of(get_args(Isolation), value)),
        "memory": ("memory_bytes", _bytes),
        "soft_memory": ("soft_memory_bytes", _bytes),
        "address_space": ("address_space_bytes", _bytes),
        "cpu": ("cpu_cores", _cores),
        "cpu_time": ("cpu_time_ms", _time_or_none),
        "call_timeout": ("call_timeout_ms", _time_or_none),
        "startup_timeout": ("startup_timeout_ms", duration_ms),
        "graceful_timeout": ("graceful_timeout_ms", duration_ms),
        "stuck_after": ("stuck_after_ms", _time_or_none),
        "max_queue": ("queue_limit", lambda value: _count_from(0, value)),
        "max_calls": ("max_calls", lambda value: None if value is None else _count_from(1, value)),
        "max_age": ("max_age_ms", _time_or_none),
        "strategy": ("strategy", lambda value: _one_of(get_args(Strategy), value)),
        "hash_key": ("hash_key", _text_or_none),
        "supervision": ("supervision", lambda value: _one_of(get_args(Supervision), value)),
        "restart_policy": ("restart", lambda value: _group(value, restart, _RESTART | _backoff(restart.backoff))),
        "health_check": ("", lambda value: _facts(value, _HEALTH)),
        "sweep_interval": ("sweep_interval_ms", duration_ms),
        "monitoring": ("", lambda value: _facts(value, _MONITORING)),
    }


def _group(value: Any, defaults: Any, readers: Mapping[str, Reader]) -> Any:
    """A value like `defaults` with what was written of it."""
    return structs.replace(defaults, **_facts(value, readers))


def _facts(value: Any, readers: Mapping[str, Reader]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"options by name are needed: {', '.join(readers)}")
    problems: list[Problem] = []
    facts = _read("", value, readers, problems)
    if problems:
        raise ConfigError(problems)
    return facts


def _backoff(defaults: Backoff) -> dict[str, Reader]:
    readers: Mapping[str, Reader] = {
        "initial": ("first_ms", duration_ms),
        "max": ("cap_ms", duration_ms),
        "factor": ("factor", _factor),
    }
    return {"backoff": ("backoff", lambda value: _group(value, defaults, readers))}


def _one_of(choices: tuple[str, ...], value: Any) -> str:
    if value not in choices:
        raise ValueError(f"it is one of {', '.join(map(repr, choices))}")
    return str(value)


def _count_from(least: int, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"a whole number of at least {least} is needed")
    return value


def _number_above(least: float, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least < value < float("inf"):
        raise ValueError(f"a number above {least:g} is needed")
    return float(value)


def _cores(value: Any) -> float | None:
    return None if value is None else _number_above(0, value)


def _factor(value: Any) -> float:
    return _number_above(0.999999, value)


def _yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or False is needed")
    return value


def _text_or_none(value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ValueError('a template over parameters is needed, such as "{tenant}"')
    return value


def _bytes(value: Any) -> int | None:
    return None if value is None else int(Size(value))


def _time_or_none(value: Any) -> int | None:
    return None if value is None else duration_ms(value)


_RESTART: dict[str, Reader] = {
    "enabled": ("enabled", _yes_or_no),
    "max_restarts": ("max_restarts", lambda value: _count_from(0, value)),
    "window": ("window_ms", duration_ms),
    "delay": ("delay_ms", duration_ms),
}
_HEALTH: Mapping[str, Reader] = {
    "interval": ("health_interval_ms", _time_or_none),
    "timeout": ("health_timeout_ms", duration_ms),
}
_MONITORING: Mapping[str, Reader] = {"metrics": ("metrics", _yes_or_no), "tracing": ("tracing", _yes_or_no)}
