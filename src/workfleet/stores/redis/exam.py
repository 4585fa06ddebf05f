"""What there is to say of a server: its version, memory, what a crash or a failover loses, its clock, and who else
works on the queues. Reads only, but for one key that `check` writes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from workfleet.clock import SystemClock
from workfleet.errors import StoreUnavailable
from workfleet.model.limits import GroupLimits
from workfleet.ports.exam import Finding

from .peers import QueuePeers
from .preflight import server_facts
from .queues import RedisQueues
from .session import Session

_APART_MS = 1_000
_NEARLY_FULL = 0.9
_DAMAGED = "Nobody can work on this queue: find out which program has written it, and rename or delete it"
_FAILOVER = "a failover forgets what was not copied yet: a job may run again, and a slot may fire again"

_TYPES = {
    "wait": "list", "paused": "list", "active": "list", "delayed": "zset", "prioritized": "zset", "completed": "zset",
    "failed": "zset", "waiting-children": "zset", "marker": "zset", "stalled": "set", "events": "stream",
    "meta": "hash", "id": "string", "pc": "string", "limiter": "string", "repeat": "zset", "metrics:completed": "hash",
    "metrics:completed:data": "list", "metrics:failed": "hash", "metrics:failed:data": "list",
    "wf:queue:claims": "hash", "wf:queue:groups": "zset", "wf:queue:turn": "hash", "wf:queue:limits": "string",
    "wf:queue:said": "hash", "wf:queue:starts": "zset", "wf:queue:rated": "set", "wf:queue:house": "set",
    "wf:queue:again": "set", "wf:queue:kept": "set",
}  # fmt: skip
"""Of the keys of a queue."""

AskPeers = Callable[[], Awaitable[list[QueuePeers]]]
Check = Callable[[], Awaitable[None]]


class RedisExam:
    """A `StoreExam`. `peers` and `check` are the store's."""

    def __init__(self, session: Session, queues: RedisQueues, peers: AskPeers, check: Check) -> None:
        self._session, self._queues, self._peers, self._check = session, queues, peers, check
        self._clock = SystemClock()

    async def findings(self) -> list[Finding]:
        facts = await server_facts(self._session.connection)
        config = {name: await self._config(name) for name in ("appendfsync", "save", "min-replicas-to-write")}
        await self._check()
        return [
            _version(facts),
            _memory(facts),
            *_persistence(facts, config),
            _replication(facts, config),
            Finding("writable", "ok", "a key was written"),
            await self._server_clock(),
            # Where a key is damaged, it cannot be asked who else is there.
            *(await self._damage() or await self.others()),
        ]

    async def strangers(self) -> dict[str, tuple[str, ...]]:
        return {each.queue: each.workers for each in await self._peers() if each.workers}

    async def _config(self, name: str) -> str | None:
        """A setting of the server, None where it does not tell (managed ones often refuse)."""
        try:
            said = await self._session.connection.command("CONFIG", "GET", name)
        except StoreUnavailable as error:
            if "NOPERM" in error.reason or "refused a command" in error.reason:
                return None
            raise
        return said[1].decode() if len(said) > 1 else None

    async def _server_clock(self) -> Finding:
        before = self._clock.now_ms()
        seconds, micros = await self._session.connection.command("TIME")
        after = self._clock.now_ms()
        apart = int(seconds) * 1000 + int(micros) // 1000 - (before + after) // 2
        said = f"the server's clock is {abs(apart)} ms {'ahead of' if apart >= 0 else 'behind'} this machine's"
        if abs(apart) <= _APART_MS + (after - before):
            return Finding("clock", "ok", said)
        advice = "Leases, delays and schedules go by the server's clock: let a time service set both"
        return Finding("clock", "warning", said, advice)

    async def _damage(self) -> list[Finding]:
        """Keys that another program has put in the place of a queue's."""
        command, layout = self._session.connection.command, self._session.layout
        queues = sorted(name.decode() for name in await command("HKEYS", layout.app("queues")))
        places = [(layout.queue(queue, part), kind) for queue in queues for part, kind in _TYPES.items()]
        found = await asyncio.gather(*(command("TYPE", key) for key, _ in places))
        return [
            Finding("keys", "problem", f"{key} is a {said.decode()} and should be a {kind}", _DAMAGED)
            for (key, kind), said in zip(places, found, strict=True)
            if said.decode() not in ("none", kind)
        ]

    async def others(self) -> list[Finding]:
        found, records = list[Finding](), await self._queues.all()
        for peers in await self._peers():
            if peers.warning is not None:
                found.append(Finding("BullMQ 5", "warning", peers.warning))
            record = records.get(peers.queue)
            if peers.workers and record is not None and (record.limits.groups or record.limits.group != GroupLimits()):
                advice = "Let only workfleet's workers listen to it, or drop these limits"
                found.append(Finding("group limits", "warning", _unseen(peers, "limits for groups", "keep"), advice))
            if peers.workers and peers.groups:
                advice = "Let workfleet's workers listen to it, or enqueue without a group"
                found.append(Finding("groups", "warning", _unseen(peers, "jobs of groups", "run"), advice))
        return found


def _unseen(peers: QueuePeers, what: str, do: str) -> str:
    """What a queue has that BullMQ's workers do not see."""
    workers = peers.workers or ()
    listening = "1 BullMQ worker listens" if len(workers) == 1 else f"{len(workers)} BullMQ workers listen"
    return (
        f"queue {peers.queue!r} has {what}, which only workfleet's workers {do}, and {listening} to it: "
        f"{', '.join(workers)}"
    )


def _version(facts: dict[str, str]) -> Finding:
    name = "Valkey" if "valkey_version" in facts else "Redis"
    version = facts.get("valkey_version") or facts.get("redis_version") or "of an unknown version"
    mode = facts.get("server_mode") or facts.get("redis_mode") or "standalone"
    return Finding("version", "ok", f"{name} {version}, {mode}")


def _memory(facts: dict[str, str]) -> Finding:
    policy, most = facts.get("maxmemory_policy"), int(facts.get("maxmemory", 0))
    used = int(facts.get("used_memory", 0))
    if policy is None:
        return Finding("memory", "warning", "the server does not tell its maxmemory-policy", "It must be noeviction")
    if policy != "noeviction":
        said = f"maxmemory-policy is {policy}: jobs are deleted when the memory is full"
        return Finding("memory", "problem", said, "Set maxmemory-policy to noeviction")
    share = f"{_megabytes(used)} used" + (f" of {_megabytes(most)}" if most else ", no limit")
    if most and used > most * _NEARLY_FULL:
        advice = "Give it more memory, or keep finished jobs for less long: a full server refuses every write"
        return Finding("memory", "warning", f"maxmemory-policy noeviction, {share}", advice)
    return Finding("memory", "ok", f"maxmemory-policy noeviction, {share}")


def _persistence(facts: dict[str, str], config: dict[str, str | None]) -> list[Finding]:
    found = [_window(facts, config)]
    for field, what in (("aof_last_write_status", "append-only file"), ("rdb_last_bgsave_status", "snapshot")):
        if facts.get(field, "ok") != "ok":
            said = f"the last write of the {what} failed"
            found.append(Finding("persistence", "problem", said, "Look at the server's log and disk"))
    return found


def _window(facts: dict[str, str], config: dict[str, str | None]) -> Finding:
    """What is lost when the server is killed."""
    advice = "Set appendonly to yes on the server"
    if "aof_enabled" not in facts:
        return Finding("persistence", "warning", "the server does not tell what it keeps", advice)
    if facts["aof_enabled"] == "1":
        fsync = config["appendfsync"]
        lost = {
            "always": "what was acknowledged is on the disk: a crash loses nothing",
            "everysec": "a crash of its machine loses up to 2 s",
            "no": "a crash of its machine loses what the system had not written yet, up to about 30 s",
        }
        said = lost.get(fsync or "", "what a crash loses depends on appendfsync, which it does not tell")
        return Finding("persistence", "warning" if fsync == "no" else "ok", f"append-only file, {said}")
    save = config["save"]
    if save == "":
        return Finding("persistence", "warning", "nothing is kept: a restart of the server loses every job", advice)
    if save is None:
        said = "no append-only file, and it does not tell whether it makes snapshots: a crash loses more than a moment"
        return Finding("persistence", "warning", said, advice)
    said = f"snapshots only ({save}: seconds and changes): a crash loses everything since the last one"
    return Finding("persistence", "warning", said, advice)


def _replication(facts: dict[str, str], config: dict[str, str | None]) -> Finding:
    role = facts.get("role", "master")
    if role != "master":
        return Finding("replication", "problem", "it is a read-only replica", "Use its primary, or redis+sentinel://")
    replicas = int(facts.get("connected_slaves", 0))
    if not replicas:
        return Finding("replication", "ok", "no replica: nobody takes over when it is gone")
    least = config["min-replicas-to-write"]
    kept = f", and writes only while {least} of them follow" if least not in (None, "0") else ""
    return Finding("replication", "ok", f"{replicas} replicas{kept}; copies lag: {_FAILOVER}")


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.1f} MB"
