"""Rules over several settings: contradictions stop the start, what has no effect is said. Judges the values given,
so that they are found though other settings are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .given import Findings, Given, SettingPath, Source
from .secrets import mask_url, shown
from .store import LATER, is_redis

_BOOL = TypeAdapter(bool)
_ENABLED, _URL, _STORE = ("redis", "enabled"), ("redis", "url"), ("store",)


def check_rules(values: Mapping[SettingPath, Given], findings: Findings) -> None:
    """Note every contradiction between settings and every setting without effect."""
    _check_store(values, findings)
    _check_queues(values, findings)
    for path, cron in values.items():
        if path[0] == "jobs" and path[-1] == "cron" and (every := values.get((*path[:-1], "every"))) is not None:
            names = f"{cron.origin.name} and {every.origin.name}"
            findings.problem(names, "contradict each other: a schedule has cron or every, not both", None, cron.origin)


def _check_store(values: Mapping[SettingPath, Given], findings: Findings) -> None:
    enabled, url, store = values.get(_ENABLED), values.get(_URL), values.get(_STORE)
    wanted = enabled is not None and _true(enabled.value)
    on_redis = store is not None and isinstance(store.value, str) and is_redis(store.value)
    if wanted and enabled is not None and not on_redis:
        if store is not None and store.value is not None:
            findings.problem(
                f"{enabled.origin.name} and {store.origin.name}",
                f"contradict each other: one asks for Redis, the other for another store. Keep one of them ({LATER})",
                f"true and {mask_url(shown(store.raw))}",
                " and ".join(dict.fromkeys((str(enabled.origin), str(store.origin)))),
            )
        else:
            findings.problem(enabled.origin.name, LATER, "true", enabled.origin)
    if url is not None and url.origin.source > Source.CODE and not wanted and not on_redis:
        findings.warn(
            f"{url.origin.name} ({url.origin}) is set and not used: REDIS_ENABLED=true or WORKER_STORE choose the store"
        )


def _check_queues(values: Mapping[SettingPath, Given], findings: Findings) -> None:
    queues, enabled = values.get(("queues",)), values.get(("queue_enabled",))
    if queues is not None and queues.value and enabled is not None and not _true(enabled.value, default=True):
        findings.warn(
            f"{queues.origin.name} ({queues.origin}) has no effect: {enabled.origin.name} switches queues off"
        )


def _true(value: Any, *, default: bool = False) -> bool:
    try:
        return _BOOL.validate_python(value)
    except ValidationError:
        # It is reported as a bad value already.
        return default
