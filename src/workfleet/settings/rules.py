"""Rules over several settings: contradictions stop the start, what has no effect is said. Judges the values given,
so that they are found though other settings are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from workfleet.stores.open import is_redis

from .given import Findings, Given, SettingPath, Source
from .redis import RedisSettings
from .secrets import mask_url, shown

_BOOL = TypeAdapter(bool)
_ENABLED, _URL, _STORE = ("redis", "enabled"), ("redis", "url"), ("store",)
_ON_REDIS = {("queue_prefix",): "only a Redis store has key names", ("queue_metrics",): "only Redis keeps such counts"}


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
    named = store.value if store is not None and isinstance(store.value, str) else None
    if wanted and enabled is not None and store is not None and named and not _yields(store):
        detail = next((values[path] for path in values if path[0] == "redis" and path != _ENABLED), None)
        if not is_redis(named):
            _contradict(enabled, store, "one asks for Redis, the other for another store", findings)
        elif detail is not None and not _same_server(named, values):
            _contradict(detail, store, "with REDIS_ENABLED=true each names a Redis server", findings)
    on_redis = wanted or (named is not None and is_redis(named))
    for path, reason in _ON_REDIS.items():
        if (given := values.get(path)) is not None and not on_redis:
            findings.warn(f"{given.origin.name} ({given.origin}) has no effect: {reason}")
    if url is not None and url.origin.source > Source.CODE and not on_redis:
        findings.warn(
            f"{url.origin.name} ({url.origin}) is set and not used: REDIS_ENABLED=true or WORKER_STORE choose the store"
        )


def _yields(store: Given) -> bool:
    """What the code names is below every setting, and what one command names is above them all."""
    return store.origin.source in (Source.CODE, Source.COMMAND_LINE)


def _same_server(store: str, values: Mapping[SettingPath, Given]) -> bool:
    given = {path[1]: one.value for path, one in values.items() if path[0] == "redis"}
    try:
        return _normal(RedisSettings.model_validate(given).store_url()) == _normal(store.strip())
    except ValidationError:
        # It is reported as a bad value already.
        return True


def _normal(url: str) -> object:
    """A URL with its defaults written out."""
    try:
        parts = urlsplit(url)
        place = parts.hostname, parts.port or 6379, parts.path.strip("/") or "0", parts.query
        return parts.scheme, parts.username, parts.password, *place
    except ValueError:
        # Several sentinels.
        return url


def _contradict(first: Given, second: Given, how: str, findings: Findings) -> None:
    secret = first.path in (("redis", "password"), _URL)
    findings.problem(
        f"{first.origin.name} and {second.origin.name}",
        f"contradict each other: {how}. Keep one of them",
        f"{shown(first.raw, secret=secret, url=first.path == _URL)} and {mask_url(shown(second.raw))}",
        " and ".join(dict.fromkeys((str(first.origin), str(second.origin)))),
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
