"""The section of health: which indicators there are, from where on they are ill, and what makes a worker unready."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from workfleet.units import Duration, Size

from .kinds import ByName, Checked, NotBool, Span, Text, Tick, Wait, at_least_size, between

_FROZEN = ConfigDict(extra="forbid", frozen=True)


def _share(value: float) -> float:
    if not 0 < value <= 1:
        raise ValueError(f"{value} is no share")
    return value


Share: TypeAlias = Annotated[float, Checked("a share above 0 and up to 1, such as 0.8", _share), NotBool]
Critical: TypeAlias = Literal["memory", "event_loop", "disk", "redis", "database", "queues", "schedules", "pools"]
"""The built-in indicators that may make a worker unready. That of the store always does, by the probe's own rule."""


class HealthThresholds(BaseModel):
    """From where on the built-in indicators are degraded and unhealthy."""

    model_config = _FROZEN

    memory_degraded: Share = Field(0.8, description="Share of the memory limit in use.")
    memory_unhealthy: Share = Field(0.95, description="Share of the memory limit in use.")
    event_loop_degraded: Span = Field(Duration("250ms"), description="Lag of the event loop, 99th percentile.")
    event_loop_unhealthy: Span = Field(Duration("1s"), description="Lag of the event loop, 99th percentile.")
    disk_degraded: Share = Field(0.8, description="Share of a file system in use, or of its inodes.")
    disk_unhealthy: Share = Field(0.95, description="Share of a file system in use, or of its inodes.")
    disk_enough: Annotated[Size, at_least_size("0B")] = Field(
        Size("10GiB"), description="So much free space is enough, whatever the share."
    )
    store_degraded: Span = Field(Duration("250ms"), description="How long a claim round trip takes.")
    store_unhealthy: Span = Field(Duration("1500ms"), description="How long a claim round trip takes.")
    redis_degraded: Span = Field(Duration("100ms"), description="How long a Redis client waits for a ping.")
    redis_unhealthy: Span = Field(Duration("1s"), description="How long a Redis client waits for a ping.")
    database_degraded: Span = Field(Duration("100ms"), description="How long connecting and `SELECT 1` take.")
    database_unhealthy: Span = Field(Duration("1s"), description="How long connecting and `SELECT 1` take.")
    queues_degraded: Span | None = Field(
        Duration("10m"), description="How long the oldest ready job of a queue waits; none: however long."
    )
    queues_unhealthy: Span | None = Field(
        Duration("1h"), description="How long the oldest ready job of a queue waits; none: however long."
    )
    schedules_degraded: Span = Field(Duration("1m"), description="How long a schedule is overdue.")
    schedules_unhealthy: Span = Field(Duration("10m"), description="How long a schedule is overdue.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name in [name for name in type(self).model_fields if name.endswith("_degraded")]:
            other = name.replace("_degraded", "_unhealthy")
            _check_order(name, getattr(self, name), other, getattr(self, other))
        return self


class QueueAges(BaseModel):
    """How long the oldest ready job of one queue may wait. What is left out is as for the other queues."""

    model_config = _FROZEN

    degraded: Span | None = Field(None, description="From when on it is degraded; none: never.")
    unhealthy: Span | None = Field(None, description="From when on it is unhealthy; none: never.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        _check_order("degraded", self.degraded, "unhealthy", self.unhealthy)
        return self


class HealthSettings(BaseModel):
    """Health indicators."""

    model_config = _FROZEN

    memory: bool = Field(True, description="Watch the memory.")
    event_loop: bool = Field(True, description="Watch the lag of the event loop.")
    disk: bool = Field(True, description="Watch the disks of the store's file, the status file and the metrics.")
    redis: bool = Field(True, description="Watch the Redis clients of RedisModule, where there are any.")
    redis_clients: list[Text] | None = Field(
        None, min_length=1, description="Which of its clients are watched, by name; none: all."
    )
    database: bool = Field(True, description="Watch the database that DB_* name, where they name one.")
    store: bool = Field(True, description="Watch the store.")
    queues: bool = Field(True, description="Watch how long ready jobs wait in queues that are not paused.")
    schedules: bool = Field(True, description="Watch for schedules that should have fired and have not.")
    pools: bool = Field(True, description="Watch the process pools.")
    critical: list[Critical] = Field(
        default_factory=lambda: list[Critical](("pools", "redis")),
        description="Which built-in ones make the worker unready when they are unhealthy; the others only degrade it.",
    )
    thresholds: HealthThresholds = Field(default_factory=HealthThresholds, description="From where on they are ill.")
    queue_ages: Annotated[dict[str, QueueAges], ByName()] = Field(
        default_factory=dict, description="Other ages for single queues, by name."
    )
    interval: Tick = Field(Duration("10s"), description="How often a worker asks its indicators.")
    store_interval: Annotated[Duration, between("1s", "1d")] = Field(
        Duration("1m"), description="How often at most it asks the store for queues and schedules."
    )
    timeout: Span = Field(Duration("2s"), description="How long one indicator may take.")
    cache_ttl: Wait = Field(Duration("1s"), description="How long an answer is used again.")
    version: Text | None = Field(None, description="Version shown in reports; none: the release.")

    @property
    def own_ages(self) -> Mapping[str, tuple[int | None, int | None]]:
        """The ages of single queues in milliseconds, degraded and unhealthy, by name; None: never."""
        usual = {"degraded": self.thresholds.queues_degraded, "unhealthy": self.thresholds.queues_unhealthy}

        def of(ages: QueueAges, name: str) -> int | None:
            age: Any = getattr(ages, name) if name in ages.model_fields_set else usual[name]
            return None if age is None else age.ms

        return MappingProxyType(
            {queue: (of(ages, "degraded"), of(ages, "unhealthy")) for queue, ages in self.queue_ages.items()}
        )


def _check_order(first: str, low: Any, second: str, high: Any) -> None:
    if low is not None and high is not None and low > high:
        raise ValueError(f"{first} ({low}) is above {second} ({high})")
