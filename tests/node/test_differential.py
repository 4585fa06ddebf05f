"""The differential harness: the same operations through npm's BullMQ 6 and through ours, every key compared after each.

What is expected to differ is in ACCEPTED, with its reason; whatever else differs fails, in words."""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from tests.node.hands import SHORT_MS, NodesHand, OurHand
from tests.node.keydump import Dump, differences, dump, since
from tests.node.node import NodeRoom
from tests.stores.redis.servers import Server
from workfleet.clock import SystemClock
from workfleet.stores.redis.store import RedisStore

pytestmark = pytest.mark.full

ACCEPTED = {
    r"^\w+ opts attempts: node 0, ours null$": "Node writes 0 where nothing is said; each reads the other's so",
    r"^pc: ": "a counter that only gives the order; Node deletes it one fetch later",
    r"^marker 1: node null, ours": "a resume announces what is due next also where something is ready",
    r'^marker 1: node "at .*, ours "at ': "with Node one that was removed stays announced; we say what is due next",
    r"^\w+ pb: node \S+, ours null$": "a job that we retry has not been run by anybody yet",
    r"^\w+ progress: node .*, ours null$": "a job that we retry has made no progress yet",
    r"^events: node .*cleaned.* ours .*removed": "we say of each job that it is gone",
    r"^events: node .*waiting.*stalled.* ours .*stalled.*waiting": "taken over first, decided about then",
    r"^\w+ failedReason: node null, ours .gone.$": "we say of a crash how the worker ended",
    r"^\w+ stacktrace: node null, ours \[.str.\]$": "we say of a crash how the worker ended",
}
"""What may differ, as a pattern of the line that says so, and why."""

Step = tuple[str, Sequence[Any], dict[str, Any]]


def step(name: str, *args: Any, **said: Any) -> Step:
    return (name, args, said)


MINUTE = 60_000
FIXED = {"type": "fixed", "delay": 2 * MINUTE}
NONE = {"count": 0}
SCENARIOS: dict[str, list[Step]] = {
    "standard": [step("add", "a"), step("add", "b"), step("add", "a"), step("claim"), step("complete", "a", {"x": 1}),
                 step("claim"), step("complete", "b")],
    "delayed": [step("add", "a", delay=MINUTE), step("add", "b", delay=2 * MINUTE), step("promote", "b"),
                step("claim"), step("complete", "b"), step("promote", "a"), step("claim"), step("complete", "a")],
    "prioritised": [step("add", "a", priority=5), step("add", "b", priority=1), step("add", "c"),
                    step("add", "d", priority=5), step("add", "e", priority=5, delay=MINUTE), step("promote", "e"),
                    step("claim", 3), step("complete", "c"), step("complete", "b"), step("complete", "a"),
                    step("claim", 2), step("complete", "d"), step("complete", "e")],
    "lifo": [step("add", "a"), step("add", "b", lifo=True), step("add", "c", lifo=True), step("claim"),
             step("complete", "c"), step("claim", 2)],
    "said by a run": [step("add", "a"), step("claim"), step("progress", "a", 42), step("progress", "a", {"at": "x"}),
                      step("log", "a", "one"), step("log", "a", "two"), step("complete", "a", [1, "ä"]),
                      step("remove", "a")],
    "retried": [step("add", "a", attempts=3, backoff=FIXED), step("claim"), step("fail", "a"), step("promote", "a"),
                step("claim"), step("fail", "a", "again"), step("promote", "a"), step("claim"), step("fail", "a"),
                step("retry", "a"), step("claim"), step("complete", "a", 1)],
    "exponential": [step("add", "a", attempts=3, backoff={"type": "exponential", "delay": MINUTE}), step("claim"),
                    step("fail", "a"), step("promote", "a"), step("claim"), step("fail", "a")],
    "not kept": [step("add", "a", removeOnComplete=NONE), step("add", "b", removeOnComplete=NONE),
                 step("add", "c", removeOnComplete=NONE, priority=1), step("claim", 3), step("log", "a", "one"),
                 step("complete", "a", 1), step("complete", "b"), step("complete", "c")],
    "not kept where it fails": [step("add", "a", removeOnFail=NONE), step("add", "b", removeOnFail=NONE, attempts=2),
                                step("claim", 2), step("fail_for_good", "a"), step("fail_for_good", "b")],
    "failed for good": [step("add", "a", attempts=5), step("claim"), step("fail_for_good", "a"), step("remove", "a")],
    "put off": [step("add", "a"), step("claim"), step("delay", "a", 3 * MINUTE), step("promote", "a"), step("claim"),
                step("complete", "a")],
    "given back": [step("add", "a"), step("add", "b"), step("claim"), step("give_back", "a"), step("claim", 2),
                   step("complete", "a"), step("complete", "b")],
    "given back, prioritised": [step("add", "a", priority=3), step("add", "b", priority=3), step("claim"),
                                step("give_back", "a"), step("claim", 2)],
    "removed": [step("add", "a"), step("add", "b", delay=MINUTE), step("add", "c", priority=1), step("remove", "a"),
                step("remove", "b"), step("remove", "c")],
    "paused": [step("add", "a"), step("pause"), step("add", "b"), step("add", "c", delay=MINUTE),
               step("add", "d", priority=2), step("claim"), step("resume"), step("claim", 3), step("pause"),
               step("complete", "a"), step("resume")],
    "stalled": [step("add", "a"), step("claim", lease_ms=SHORT_MS), step("recover"), step("claim"),
                step("complete", "a")],
    "purged": [step("add", "a"), step("add", "b", delay=MINUTE), step("add", "c", priority=1), step("add", "d"),
               step("add", "e"), step("claim", 2), step("complete", "a"), step("fail_for_good", "d"),
               step("purge", "completed"), step("purge", "failed"), step("purge", "waiting"), step("purge", "delayed"),
               step("purge", "prioritized")],
    "paused with delayed ones": [step("add", "a", delay=MINUTE), step("pause"), step("promote", "a"),
                                 step("resume"), step("claim"), step("complete", "a")],
}  # fmt: skip


@pytest_asyncio.fixture
async def hands(node: NodeRoom, server: Server) -> AsyncIterator[tuple[NodesHand, OurHand]]:
    store = await RedisStore.open(server.url, app="shop", clock=SystemClock(), prefix="ours")
    yield await NodesHand.open(node, prefix="node"), OurHand(store)
    await store.close()


@pytest.mark.parametrize("name", SCENARIOS)
async def test_every_key_is_as_bullmq_leaves_it(name: str, server: Server, hands: tuple[NodesHand, OurHand]) -> None:
    harness = Harness(server, hands)
    for each in SCENARIOS[name]:
        await harness.do(each)
    assert not harness.said, harness.report()


@pytest.mark.parametrize("seed", range(6))
async def test_a_random_walk(seed: int, server: Server, hands: tuple[NodesHand, OurHand]) -> None:
    harness, draw = Harness(server, hands), random.Random(seed)
    await harness.do(step("add", "first"))
    for number in range(60):
        await harness.do(next_step(draw, number, harness.node))
        assert not harness.said, harness.report()


class Harness:
    """Does each step with both hands and notes where the keys differ after it."""

    def __init__(self, server: Server, hands: tuple[NodesHand, OurHand]) -> None:
        self._server, self._hands = server, hands
        self.node, self._ours = Dump(), Dump()
        self._known: set[str] = set()
        self._steps: list[str] = []
        self.said: list[str] = []

    async def do(self, each: Step) -> None:
        operation, args, options = each
        self._steps.append(f"{len(self._steps) + 1}. {operation} {' '.join(map(str, args))} {options or ''}")
        for hand in self._hands:
            await getattr(hand, operation)(*args, **options)
        node, ours = dump(self._server, "node"), dump(self._server, "ours")
        lines = differences(since(node, self.node), since(ours, self._ours))
        found = {line for line in lines if not accepted(line)}
        if new := sorted(found - self._known):
            self.said += [self._steps[-1], *(f"     {line}" for line in new)]
        self.node, self._ours, self._known = node, ours, found

    def report(self) -> str:
        """What differed, after all steps."""
        return "\n".join(["", *self._steps, "", "differs after:", *self.said])


def next_step(draw: random.Random, number: int, there: Dump) -> Step:
    """Something that can be done now. Each thing is told from the keys that Node has made."""
    active, delayed = there.get("active", []), [job for job, _ in there.get("delayed", [])]
    failed, completed = ([job for job, _ in there.get(state, [])] for state in ("failed", "completed"))
    can = [step("add", f"j{number}", **draw.choice(KINDS)) for _ in range(3)] + [step("claim")] * 3
    if active:
        job = draw.choice(active)
        can += [
            step("complete", job, number),
            step("fail", job),
            step("fail_for_good", job),
            step("progress", job, number),
        ]
        can += [step("delay", job, MINUTE), step("log", job, f"line {number}"), step("complete", job)]
    # Ours is last in, first out also when it is promoted; Node's is then first in, first out.
    first_in = [job for job in delayed if not there[job]["opts"].get("lifo")]
    for state, jobs in (
        ("promote", first_in),
        ("retry", failed),
        ("remove", delayed),
        ("remove", [*failed, *completed]),
    ):
        can += [step(state, draw.choice(jobs))] if jobs else []
    paused = there.get("meta", {}).get("paused")
    can += [step("resume")] * 3 if paused else [step("pause")]
    return draw.choice(can)


KINDS: list[dict[str, Any]] = [
    {}, {}, {"priority": 3}, {"priority": 9}, {"delay": 2 * MINUTE}, {"lifo": True}, {"attempts": 3, "backoff": FIXED},
    {"removeOnComplete": NONE, "removeOnFail": NONE},
    {"attempts": 2, "priority": 3, "backoff": {"type": "exponential", "delay": MINUTE}},
]  # fmt: skip


def accepted(line: str) -> bool:
    return any(re.search(pattern, line) for pattern in ACCEPTED)
