"""What a Redis store left behind: keys that nobody owns and that never expire."""

from __future__ import annotations

from collections.abc import Iterator

import valkey

from tests.stores.redis.servers import Server

_STATES = ("wait", "active", "delayed", "prioritized", "completed", "failed", "waiting-children")
_OF_QUEUES = {*_STATES, "id", "meta", "marker", "events", "pc"}
_OF_JOBS = {"", ":lock", ":logs"}
_OF_APP = {"queues", "number", "schedules", "schedules_revision", "unique_from", "workers"}


def left_behind(server: Server, app: str = "shop") -> list[str]:
    """One line for each thing that has neither an owner nor an expiry."""
    with valkey.Valkey.from_url(server.url, decode_responses=True) as client:
        names = client.hkeys(f"wf:{app}:queues")
        found = [line for name in names for line in _of_queue(client, f"{app}:{name}:")]
        for key in client.scan_iter(count=1_000):
            if client.pttl(key) == -1 and key.startswith(f"wf:{app}:"):
                found += _of_app(client, key, app)
        return found


def _of_queue(client: valkey.Valkey, base: str) -> Iterator[str]:
    jobs = {job for state in _STATES for job in _members(client, base + state)}
    for key in client.scan_iter(match=f"{base}*", count=1_000):
        rest = key.removeprefix(base)
        if rest in _OF_QUEUES or client.pttl(key) != -1:
            continue
        if rest.startswith("wf:"):
            yield from _of_ours(client, key, rest.removeprefix("wf:"), jobs, base)
        elif rest.startswith("de:"):
            if client.get(key) not in jobs or client.hget(base + client.get(key), "finishedOn"):
                yield f"{key} stands for {client.get(key)}, which does not run"
        elif not any(rest == job + suffix for job in jobs for suffix in _OF_JOBS):
            yield f"{key} belongs to no job"


def _of_ours(client: valkey.Valkey, key: str, rest: str, jobs: set[str], base: str) -> Iterator[str]:
    if rest in ("queue:limits", "queue:said", "queue:turn"):
        return
    active = set(client.lrange(f"{base}active", 0, -1))
    members = set(_members(client, key))
    if rest == "queue:claims" and not members <= active:
        yield f"{key} has claims on {members - active}"
    elif rest == "queue:house" and not members <= jobs:
        yield f"{key} has {members - jobs}"
    elif rest == "queue:again" and not members <= set(client.zrange(f"{base}delayed", 0, -1)):
        yield f"{key} has {members}, not all of them delayed"
    elif rest.endswith(":starts") or rest == "queue:rated":
        yield f"{key} has starts that no window holds: {members}"
    elif rest.startswith("kept:") and not members <= jobs:
        yield f"{key} has {members - jobs}"
    elif rest.startswith("group:") and not {member[33 if member[0] == "0" else 40 :] for member in members} <= jobs:
        yield f"{key} has {members}"
    elif not rest.startswith(("group:", "kept:", "queue:")):
        yield f"{key} is unknown"


def _of_app(client: valkey.Valkey, key: str, app: str) -> Iterator[str]:
    kind, _, rest = key.removeprefix(f"wf:{app}:").partition(":")
    name = rest.removesuffix(":v")
    if kind in _OF_APP:
        return
    if kind == "key":
        for job, queue in client.hgetall(key).items():
            if client.hmget(f"{app}:{queue}:{job}", "timestamp", "finishedOn")[0] is None:
                yield f"{key} has {job}, which is gone"
            elif client.hget(f"{app}:{queue}:{job}", "finishedOn"):
                yield f"{key} has {job}, which has finished"
    elif kind == "hold":
        holder = client.get(key).partition("\n")[2]
        if not client.hexists(f"wf:{app}:key:{name}:v", holder):
            yield f"{key} is held by {holder}, which does not run"
    elif kind == "unique":
        for key in _members(client, f"wf:{app}:unique"):
            if not client.exists(f"wf:{app}:key:{key}:v"):
                yield f"{key} is noted as a unique key, and nobody has it"
    elif kind == "parked":
        for key in client.smembers(f"wf:{app}:parked"):
            if not client.exists(f"wf:{app}:key:{key}:v"):
                yield f"{key} has no jobs that could be parked"
    elif kind == "replaced":
        for newcomer, at in client.hgetall(key).items():
            queue, _, job = at.partition("\n")
            if not client.exists(f"{app}:{queue}:{job}"):
                yield f"{newcomer} is noted for {job}, which is gone"
    elif kind in ("locks", "lock_owners"):
        yield f"{key} has expired locks: {_members(client, key)}"
    elif kind in ("beats", "instructions", "pools", "orders"):
        if gone := set(_members(client, key)) - set(_members(client, f"wf:{app}:workers")):
            yield f"{key} has {gone}, who are gone"
    elif kind == "schedules_due":
        if gone := set(_members(client, key)) - set(_members(client, f"wf:{app}:schedules")):
            yield f"{key} has {gone}, which are gone"
    elif kind == "schedule":
        if rest.removesuffix(":s") not in _members(client, f"wf:{app}:schedules"):
            yield f"{key} is of a schedule that is gone"
    elif kind != "fence":
        yield f"{key} ({client.type(key)}) is unknown"


def _members(client: valkey.Valkey, key: str) -> list[str]:
    kind = client.type(key)
    if kind == "list":
        return list(client.lrange(key, 0, -1))
    if kind == "zset":
        return list(client.zrange(key, 0, -1))
    if kind == "set":
        return list(client.smembers(key))
    return list(client.hkeys(key)) if kind == "hash" else []
