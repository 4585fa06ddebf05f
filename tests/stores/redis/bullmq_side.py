"""What programs with BullMQ would have written, for tests without Node. `tests/node` compares with the real ones."""

from __future__ import annotations

import json
from typing import Any

from tests.stores.redis.servers import Server


def fields(server: Server, key: str) -> dict[str, str]:
    """A hash."""
    flat = server.ask("HGETALL", key)
    assert isinstance(flat, list)
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}


def entries(server: Server, queue: str) -> list[dict[str, str]]:
    """The event stream of a queue."""
    rows = server.ask("XRANGE", f"bull:{queue}:events", "-", "+")
    assert isinstance(rows, list)
    return [
        {name.decode(): value.decode() for name, value in zip(row[1][::2], row[1][1::2], strict=True)} for row in rows
    ]


def texts(reply: object) -> list[str]:
    """A list of texts."""
    assert isinstance(reply, list)
    return [each.decode() for each in reply]


def add(server: Server, queue: str, job_id: str, now_ms: int, **said: Any) -> None:
    """A waiting job. `paused=True`: as v5 adds to a paused queue."""
    where = "paused" if said.pop("paused", False) else "wait"
    stored = {"name": "n", "data": "{}", "opts": "{}", "timestamp": now_ms, "delay": 0, "priority": 0, **said}
    server.ask("HSET", f"bull:{queue}:{job_id}", *(part for pair in stored.items() for part in pair))
    server.ask("LPUSH", f"bull:{queue}:{where}", job_id)


def schedule(server: Server, queue: str, scheduler: str, at_ms: int, repeat: dict[str, Any], **said: Any) -> str:
    """A job scheduler whose next job waits. `said`: more of that job's options. Returns the job's id."""
    job_id = f"repeat:{scheduler}:{at_ms}"
    kept = {name: str(value) for name, value in repeat.items() if name != "count"}
    server.ask("ZADD", f"bull:{queue}:repeat", at_ms, scheduler)
    hashed = {"name": scheduler, **kept, "data": '{"a":1}', "ic": "1"}
    server.ask("HSET", f"bull:{queue}:repeat:{scheduler}", *(part for pair in hashed.items() for part in pair))
    options = {"jobId": job_id, "repeatJobKey": scheduler, "repeat": {"count": 1, **repeat}, **said}
    add(server, queue, job_id, at_ms, rjk=scheduler, opts=json.dumps(options))
    return job_id
