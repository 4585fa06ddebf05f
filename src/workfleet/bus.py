"""The one way facts travel inside a process: typed events to subscribers. A failing subscriber never fails a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from .events import Event, SubscriberFailed

Subscriber = Callable[[Event], None]


@runtime_checkable
class Router(Protocol):
    """A subscriber that knows beforehand who of it hears the events of a class: nobody, or one function. It is asked
    once for each class, so that an event costs only what is done with it."""

    def route(self, kind: type[Event]) -> Callable[[Any], None] | None: ...


class Bus:
    """Calls every subscriber in order, at once. Subscribers are quick and synchronous; what is slow buffers by
    itself."""

    def __init__(self) -> None:
        self._subscribers: list[Subscriber | Router] = []
        self._routes: dict[type[Event], tuple[Subscriber, ...]] = {}

    def subscribe(self, subscriber: Subscriber | Router) -> None:
        self._subscribers.append(subscriber)
        self._routes = {}

    def publish(self, event: Event) -> None:
        routes = self._routes.get(type(event))
        for subscriber in self._route(type(event)) if routes is None else routes:
            try:
                subscriber(event)
            except Exception as error:  # noqa: BLE001 - the boundary around subscribers: told to the others, never to the publisher
                self._tell(subscriber, event, error)

    def _route(self, kind: type[Event]) -> tuple[Subscriber, ...]:
        hear = (each.route(kind) if isinstance(each, Router) else each for each in self._subscribers)
        routes = self._routes[kind] = tuple(each for each in hear if each is not None)
        return routes

    def _tell(self, failed: Subscriber, event: Event, error: Exception) -> None:
        said = SubscriberFailed(subscriber=_name(failed), event=event.wire_name, error=shown(error))
        for subscriber in self._route(SubscriberFailed):
            if subscriber is failed:
                continue
            try:
                subscriber(said)
            except Exception:  # noqa: BLE001 - it failed at telling of a failure: nobody is left to tell
                continue


def shown(error: BaseException) -> str:
    """An exception as the last line of its traceback says it, `ValueError: why`, whatever its own code does."""
    try:
        said = str(error)
        return f"{type(error).__name__}: {said}" if said else type(error).__name__
    except Exception as broken:  # noqa: BLE001 - the exception's own code is user code
        return f"{type(error).__name__} (its text cannot be read: {type(broken).__name__})"


def _name(subscriber: Subscriber) -> str:
    return getattr(subscriber, "__qualname__", type(subscriber).__qualname__)
