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
_ROUND_MS = 30_000
"""Instants and waits are compared to this: what a test waits for is a multiple of it, a step takes far less."""


def dump(server: Server, prefix: str, queue: str = "q") -> Dump:
    """The queue's keys by their suffix. One that holds nothing is as one that is not there."""
    seconds, micros = (int(part) for part in _list(server.ask("TIME")))
    now = seconds * 1000 + micros // 1000
    base = f"{prefix}:{queue}:"
    found: Dump = {}
    for key in sorted(_text(each) for each in _list(server.ask("KEYS", f"{base}*"))):
        suffix = key.removeprefix(base)
        if suffix.startswith("wf:"):
            continue
        found[suffix] = _READERS[_text(server.ask("TYPE", key))](server, key, suffix, now)
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
        yield f"{at}: node {json.dumps(node)}, ours {json.dumps(ours)}"


def _string(server: Server, key: str, suffix: str, now: int) -> Any:
    value = _text(server.ask("GET", key))
    kept = "expires" if int(str(server.ask("PTTL", key))) >= 0 else "stays"
    if suffix.endswith(":lock"):
        return f"a token, {kept}"
    return f"{value}, {kept}"


def _sorted_set(server: Server, key: str, suffix: str, now: int) -> Any:
    flat = [_text(each) for each in _list(server.ask("ZRANGE", key, 0, -1, "WITHSCORES"))]
    rows = list(zip(flat[::2], map(float, flat[1::2]), strict=True))
    if suffix == "delayed":
        return [[member, _instant(int(score) // 4096, now)] for member, score in rows]
    if suffix in ("completed", "failed", "waiting-children", "repeat"):
        return [[member, _instant(int(score), now)] for member, score in rows]
    if suffix == "prioritized":
        return [[member, int(score) // 2**32] for member, score in rows]  # the rest only gives their order
    if suffix == "marker":
        return {member: _instant(int(score), now) if score else 0 for member, score in rows}
    return [[member, score] for member, score in rows]


def _hash(server: Server, key: str, suffix: str, now: int) -> Any:
    flat = [_text(each) for each in _list(server.ask("HGETALL", key))]
    fields: dict[str, Any] = dict(zip(flat[::2], flat[1::2], strict=True))
    fields.pop("wf", None)
    for name in _JSON_FIELDS:
        if name in fields:
            fields[name] = json.loads(fields[name])
    for name in _INSTANTS:
        if name in fields:
            fields[name] = _instant(int(fields[name]), now)
    if "returnvalue" in fields:
        fields.pop("failedReason", None)  # Node leaves that of a try before; we do not
    for name in _COUNTS:
        if fields.get(name) == "0":
            del fields[name]  # every reader takes none for 0
    if "stacktrace" in fields:
        # How a trace looks is each language's own.
        fields["stacktrace"] = [type(trace).__name__ for trace in json.loads(fields["stacktrace"])]
    return fields


def _stream(server: Server, key: str, suffix: str, now: int) -> Any:
    entries = []
    for _, flat in (_list(each) for each in _list(server.ask("XRANGE", key, "-", "+"))):
        texts = [_text(each) for each in _list(flat)]
        said = dict(zip(texts[::2], texts[1::2], strict=True))
        if "delay" in said:
            said["delay"] = _instant(int(said["delay"]), now)
        entries.append(said)
    return entries


def _rows(server: Server, key: str, suffix: str, now: int) -> Any:
    return [_text(each) for each in _list(server.ask("LRANGE", key, 0, -1))]


def _set(server: Server, key: str, suffix: str, now: int) -> Any:
    return sorted(_text(each) for each in _list(server.ask("SMEMBERS", key)))


_READERS: dict[str, Callable[[Server, str, str, int], Any]] = {
    "string": _string, "zset": _sorted_set, "hash": _hash, "stream": _stream, "list": _rows, "set": _set,
}  # fmt: skip


def _instant(ms: int, now: int) -> str:
    rounded = round((ms - now) / _ROUND_MS) * _ROUND_MS // 1000
    return f"now{rounded:+d}s" if rounded else "now"


def _text(value: object) -> str:
    assert isinstance(value, bytes | str | int | float), value
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def _list(value: object) -> list[Any]:
    assert isinstance(value, list), value
    return value
