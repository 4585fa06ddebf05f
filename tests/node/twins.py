"""One course of things twice on one server, under `bull` by our store, under `twin` by Node's worker; what differs."""

from __future__ import annotations

import json
from typing import Any

import valkey

from tests.node.node import NodeRoom, Opened
from tests.node.ours import claim, finish, ok, raised
from tests.stores.redis.servers import Server
from workfleet.model.jobs import JobRecord
from workfleet.model.outcome import Ended
from workfleet.stores.redis.store import RedisStore

_TIMES = ("timestamp", "processedOn", "finishedOn", "pb", "wf", "wfd", "stacktrace", "opts")
_NOT_COMPARED = ("wf", "meta", "marker", "stalled", "stalled-check")
"""Ours alone, or what another test compares."""


Tree = dict[str, Any]


def node_of(
    job_id: str, *children: Tree, queue: str = "kids", name: str = "ok", data: object = None, **opts: Any
) -> Tree:
    """One job of a flow."""
    data = {"message": f"{job_id} broke"} if name == "fail" else data or job_id
    made: Tree = {"name": name, "queueName": queue, "data": data, "opts": {"jobId": job_id, **opts}}
    return {**made, "children": list(children)} if children else made


async def act(record: JobRecord) -> Ended:
    """What the behaviours of Node's worker do."""
    if record.doomed is not None:
        return Ended(kind="failed", failure=record.doomed)
    if record.name == "fail":
        return raised(json.loads(record.payload)["message"])
    return await ok(record)


async def work_off(store: RedisStore, queue: str) -> list[str]:
    """Run what is ready in a queue until nothing is. The ids, in their order."""
    ran = []
    while records := await claim(store, queue=queue):
        for record in records:
            await finish(store, record, await act(record))
            ran.append(record.id)
    return ran


def picture(server: Server, prefix: str, queues: tuple[str, ...]) -> dict[str, Any]:
    """Everything under a prefix but instants and what is ours alone, with the prefix left out."""
    found: dict[str, Any] = {}
    with valkey.Valkey.from_url(server.url, decode_responses=True) as client:
        for queue in queues:
            base = f"{prefix}:{queue}:"
            for key in client.scan_iter(match=f"{base}*", count=1_000):
                rest = key.removeprefix(base)
                if rest.split(":")[0] not in _NOT_COMPARED:
                    found[f"{queue}:{rest}"] = _value(client, key, rest)
    seen: dict[str, Any] = json.loads(json.dumps(found, sort_keys=True).replace(f"{prefix}:", "P:"))
    return seen


def _value(client: Any, key: str, rest: str) -> Any:
    kind = client.type(key)
    if rest == "events":
        said = [event for _, event in client.xrange(key) if event["event"] not in ("drained", "retries-exhausted")]
        return [{**event, "delay": "*"} if "delay" in event else event for event in said]
    if kind == "string":
        return [client.get(key), "for a time" if client.pttl(key) > 0 else "until told"]
    if kind == "hash":
        return {name: value for name, value in client.hgetall(key).items() if name not in _TIMES}
    if kind == "zset":
        # Whose score is an instant: two may have the same.
        members = client.zrange(key, 0, -1)
        return sorted(members) if rest in ("completed", "failed", "waiting-children") else members
    return sorted(client.smembers(key)) if kind == "set" else client.lrange(key, 0, -1)


class Both:
    """Both sides. Whatever Node's producers say, they say it to both."""

    def __init__(self, node: NodeRoom, store: RedisStore, server: Server) -> None:
        self.node, self.store, self.server = node, store, server

    async def flow(self, tree: dict[str, Any]) -> None:
        for prefix in ("bull", "twin"):
            flows = await self.node.flows(prefix=prefix)
            await flows.call("add", tree)
            await flows.close()

    async def run(self, queue: str) -> list[str]:
        """Work a queue off on both sides. The ids that ours ran."""
        ran = await work_off(self.store, queue)
        if ran:
            worker = await self.node.worker(queue, prefix="twin")
            await worker.until(lambda _: len(worker.ends()) >= len(ran), f"the ends of {ran}")
            assert [each.job for each in worker.ends()] == ran
            await worker.close()
        return ran

    async def queues(self, name: str) -> tuple[Opened, Opened]:
        """Node's queues: of our side, and of its own."""
        return await self.node.queue(name, prefix="bull"), await self.node.queue(name, prefix="twin")

    def same(self, *queues: str) -> None:
        ours, twins = picture(self.server, "bull", queues), picture(self.server, "twin", queues)
        differing = {key for key in {*ours, *twins} if ours.get(key) != twins.get(key)}
        assert not differing, [(key, ours.get(key), twins.get(key)) for key in sorted(differing)]
