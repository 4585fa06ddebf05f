"""Every key of a queue, as values that can be compared: instants, tokens and what is ours alone are taken out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.stores.redis.servers import Server

Dump = dict[str, Any]
_JSON_FIELDS = ("data", "opts", "progress", "returnvalue", "parent")
_COUNTS = ("atm", "ats", "stc")
_INSTANTS = ("timestamp", "processedOn", "finishedOn")
_SAME_MS = 20_000
"""Instants that are this near are the same: what a test waits for is a multiple of a minute, a step takes far less."""


class Instant:
    """An instant, or a wait, that is compared as nearly as two hands can do the same thing at the same time."""

    def __init__(self, ms: int) -> None:
        self._ms = ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instant) and abs(self._ms - other._ms) < _SAME_MS

    def __hash__(self) -> int:
        return 0  # the same for what may be equal

    def __str__(self) -> str:
        return f"at {self._ms / 1000:.3f}"


def dump(server: Server, prefix: str, queue: str = "q") -> Dump:
    """The queue's keys by their suffix. One that holds nothing is as one that is not there."""
    base = f"{prefix}:{queue}:"
    found: Dump = {}
    for key in sorted(_text(each) for each in _list(server.ask("KEYS", f"{base}*"))):
        suffix = key.removeprefix(base)
        if suffix.startswith("wf:"):
            continue
        found[suffix] = _READERS[_text(server.ask("TYPE", key))](server, key, suffix)
    return found


def since(now: Dump, before: Dump) -> Dump:
    """A dump in which the events are only those that are new."""
    return {**now, "events": now.get("events", [])[len(before.get("events", [])) :]}


def differences(node: Dump, ours: Dump) -> list[str]:
    """One line for each place where the dumps differ."""
    return list(_compared("", node, ours))


def _compared(at: str, node: Any, ours: Any) -> Iterator[str]:
    if isinstance(node, dict) and isinstance(ours, dict):
        for name in sorted({*node, *ours}):
            yield from _compared(f"{at} {name}".strip(), node.get(name), ours.get(name))
    elif node != ours:
        yield f"{at}: node {json.dumps(node, default=str)}, ours {json.dumps(ours, default=str)}"


def _string(server: Server, key: str, suffix: str) -> Any:
    value = _text(server.ask("GET", key))
    kept = "expires" if int(str(server.ask("PTTL", key))) >= 0 else "stays"
    if suffix.endswith(":lock"):
        return f"a token, {kept}"
    return f"{value}, {kept}"


def _sorted_set(server: Server, key: str, suffix: str) -> Any:
    flat = [_text(each) for each in _list(server.ask("ZRANGE", key, 0, -1, "WITHSCORES"))]
    rows = list(zip(flat[::2], map(float, flat[1::2]), strict=True))
    if suffix == "delayed":
        return [[member, Instant(int(score) // 4096)] for member, score in rows]
    if suffix in ("completed", "failed", "waiting-children", "repeat"):
        return [[member, Instant(int(score))] for member, score in rows]
    if suffix == "prioritized":
        return [[member, int(score) // 2**32] for member, score in rows]  # the rest only gives their order
    if suffix == "marker":
        return {member: Instant(int(score)) if score else 0 for member, score in rows}
    return [[member, score] for member, score in rows]


def _hash(server: Server, key: str, suffix: str) -> Any:
    flat = [_text(each) for each in _list(server.ask("HGETALL", key))]
    fields: dict[str, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    for name in ("wf", "wfd"):
        fields.pop(name, None)
    for name in _JSON_FIELDS:
        if name in fields:
            fields[name] = json.loads(fields[name])
    for name in _INSTANTS:
        if name in fields:
            fields[name] = Instant(int(fields[name]))
    if "delay" in fields:
        fields["delay"] = Instant(int(fields["delay"]))
    if "returnvalue" in fields:
        fields.pop("failedReason", None)  # Node leaves that of a try before; we do not
    for name in _COUNTS:
        if fields.get(name) == "0":
            del fields[name]  # every reader takes none for 0
    if "stacktrace" in fields:
        # How a trace looks is each language's own.
        fields["stacktrace"] = [type(trace).__name__ for trace in json.loads(fields["stacktrace"])]
    return fields


def _stream(server: Server, key: str, suffix: str) -> Any:
    entries = []
    for _, flat in (_list(each) for each in _list(server.ask("XRANGE", key, "-", "+"))):
        texts = [_text(each) for each in _list(flat)]
        said: dict[str, Any] = dict(zip(texts[::2], texts[1::2], strict=True))
        if "delay" in said:
            said["delay"] = Instant(int(said["delay"]))
        entries.append(said)
    return entries


def _rows(server: Server, key: str, suffix: str) -> Any:
    return [_text(each) for each in _list(server.ask("LRANGE", key, 0, -1))]


def _set(server: Server, key: str, suffix: str) -> Any:
    return sorted(_text(each) for each in _list(server.ask("SMEMBERS", key)))


_READERS: dict[str, Callable[[Server, str, str], Any]] = {
    "string": _string, "zset": _sorted_set, "hash": _hash, "stream": _stream, "list": _rows, "set": _set,
}  # fmt: skip


def _text(value: object) -> str:
    assert isinstance(value, bytes | str | int | float), value
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _list(value: object) -> list[Any]:
    assert isinstance(value, list), value
    return value
