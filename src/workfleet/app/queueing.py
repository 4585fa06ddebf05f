"""What is known of queues: what code says (`@queue`, `Module(queues=…)`), and an operator's settings put over it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workfleet.enqueueing import PayloadLimits
from workfleet.errors import ConfigError, Problem
from workfleet.model.limits import GroupLimits, QueueLimits, Rate
from workfleet.model.queue import Queue, payload_bytes
from workfleet.settings.core import QueueOverride, Settings
from workfleet.settings.given import fold
from workfleet.settings.kinds import RateText


@dataclass
class DeclaredQueues:
    """The queues of an application, by name, put together from all that its code says of them."""

    by_name: dict[str, Queue] = field(default_factory=dict)
    _said_by: dict[tuple[str, str], str] = field(default_factory=dict)

    def listen(self, name: str) -> None:
        """There is a queue of that name, of which nothing is said."""
        self.by_name.setdefault(name, Queue(name))

    def say(self, said: Queue, where: str) -> None:
        """Something is said of a queue. Raises `ConfigError` where it contradicts what is said elsewhere."""
        self.listen(said.name)
        known, news = self.by_name[said.name].said(), said.said()
        problems = [
            Problem(f"queue {said.name!r}", f"{other} says {_shown(said.name, option, known[option])}, "
                    f"{where} says {_value(news[option])}: say it once")
            for option in news
            if option in known and known[option] != news[option]
            for other in [self._said_by[said.name, option]]
        ]  # fmt: skip
        if problems:
            raise ConfigError(problems)
        for option in news.keys() - known.keys():
            self._said_by[said.name, option] = where
        fresh: dict[str, Any] = {option: getattr(said, option) for option in news}
        self.by_name[said.name] = replace(self.by_name[said.name], **fresh)

    def with_more(self, others: DeclaredQueues) -> DeclaredQueues:
        """Together with the queues that `others` has besides."""
        return DeclaredQueues({**others.by_name, **self.by_name}, {**others._said_by, **self._said_by})

    @property
    def concurrency(self) -> Mapping[str, int | None]:
        """How many jobs of each a worker runs at once, where that is said."""
        return {name: queue.concurrency for name, queue in self.by_name.items()}


def _shown(queue: str, option: str, value: object) -> str:
    return f"{option}={_value(value)}"


def _value(value: object) -> str:
    return str(value) if isinstance(value, int) else repr(value)


def limits_of(queue: Queue, override: QueueOverride | None) -> QueueLimits:
    """The limits of a queue across the fleet, as the store is to keep them."""
    limits, said = queue.limits, {} if override is None else override.given()
    group = limits.group
    return QueueLimits(
        concurrency=said.get("fleet_concurrency", limits.concurrency),
        rate=_rate(said["rate_limit"]) if "rate_limit" in said else limits.rate,
        group=GroupLimits(
            weight=group.weight,
            concurrency=said.get("group_concurrency", group.concurrency),
            rate=_rate(said["group_rate_limit"]) if "group_rate_limit" in said else group.rate,
        ),
        groups=limits.groups,
    )


def _rate(said: RateText | None) -> Rate | None:
    return None if said is None else said.rate


def concurrency_of(queue: Queue, override: QueueOverride | None, default: int) -> int:
    """How many jobs of a queue this process runs at once."""
    said = None if override is None else override.concurrency
    return said or queue.concurrency or default


def weight_of(queue: Queue, override: QueueOverride | None) -> int:
    """A queue's share of the process, relative to the other queues'."""
    said = None if override is None else override.weight
    return said or queue.weight or 1


def payload_limits(core: Settings, declared: Mapping[str, Queue] | None) -> PayloadLimits:
    """How large payloads may be, by queue. Without an application (`declared` None) nobody knows which queue a name of
    the environment means: it is one that folds to it."""
    said = {name: int(each.max_payload) for name, each in core.queue_limits.items() if each.max_payload}
    return PayloadLimits(
        default=int(core.max_payload),
        operator=said if declared is not None else _Folded(said),
        declared={
            name: payload_bytes("max_payload", queue.max_payload)
            for name, queue in (declared or {}).items()
            if queue.max_payload is not None
        },
    )


class _Folded(Mapping[str, int]):
    """Values by queue, found also under its name as the environment writes it."""

    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values

    def __getitem__(self, queue: str) -> int:
        return self._values[queue] if queue in self._values else self._values[fold(queue)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
