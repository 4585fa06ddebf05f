"""`workfleet pools ls|scale|recycle`: the process pools of the fleet's workers, on all its machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from ..app.client import Client
from ..clock import SystemClock
from ..errors import NotFound, UsageError
from ..ids import new_id
from ..model.fleet import ChildReport, PoolOrder, PoolReport, PoolVerb
from .asking import agreed, asking_options
from .documents import pool_document
from .options import CONTEXT, Command, Where, app_option, json_option
from .output import count, mega, rough, write, write_json, write_listing, write_table
from .project import Target, target_of, with_client
from .worker_state import WorkerLife, lives_of

POOL_TITLES = ("STATE", ">SIZE", ">BUSY", ">QUEUED", ">CALLS", ">FAILED", ">RESTARTS", "CPU LIMIT", "NOTE")
_CHILD_TITLES = (
    "POOL", "WORKER", ">PLACE", ">PROCESS", "STATE", ">CALLS", ">MEMORY", ">CPU", ">AGE", ">RESTARTS", "METHOD",
    "LAST EXIT",
)  # fmt: skip


@dataclass(frozen=True)
class _Place:
    """A pool at a worker."""

    worker: WorkerLife
    pool: PoolReport

    @property
    def started(self) -> bool:
        return self.pool.state != "new"


@dataclass(frozen=True)
class _Order:
    """What workers are told about a pool, and how it is said: "3 workers …"."""

    verb: PoolVerb
    pool: str
    size: int | None
    said: str


@click.group("pools", context_settings=CONTEXT)
def pools() -> None:
    """List the process pools of the fleet's workers, and scale or recycle them.

    A worker hears of it, and says how its pools are, at its next sign of life: within WORKER_POLL (10 s).

    \b
    Examples:
      workfleet pools ls
      workfleet pools scale images 8
    """


@pools.command("ls")
@click.argument("pool", required=False)
@click.option("--worker", metavar="ID", help="Only this worker's.")
@json_option
@app_option
def ls(*, where: Where, pool: str | None, worker: str | None, as_json: bool) -> int:
    """Every pool of every worker with its children, as the workers saw them at their last sign of life.

    SIZE is how many children take calls or run one, of how many: spent ones wait for their replacement. PLACE is empty
    for a spare, which waits for one. STATE is new before the first call; failed when the pool has given up: NOTE says
    why. LAST EXIT is how the child before this one ended.

    \b
    Examples:
      workfleet pools ls
      workfleet pools ls images --json | jq -r '.children[] | select(.state == "busy") | .pid'
    """
    found = with_client(target_of(where), _places)
    if pool is not None or worker is not None:
        found = _those(found, pool, worker)
    write_listing(
        found,
        document=(lambda place: pool_document(place.worker.record, place.worker.state, place.pool))
        if as_json
        else None,
        table=lambda: _write(found),
        nothing="no pools: no worker of the fleet has said how its pools are",
    )
    return 0


def _options(command: Command) -> Command:
    worker = click.option("--worker", metavar="ID", help="Only at this worker. (at all of them)")
    return click.argument("pool")(worker(asking_options(json_option(app_option(command)))))


@pools.command("scale")
@_options
@click.argument("size", type=click.IntRange(1, 1024))
def scale(*, where: Where, pool: str, size: int, worker: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Give a pool SIZE children at each worker, until the worker is started anew. Children that go end their calls
    first. A pool that has failed tries anew.

    \b
    Examples:
      workfleet pools scale images 8
      workfleet pools scale images 2 --worker web-1-4711-0-5d1c --yes
    """
    target = target_of(where)
    there = [place for place in _those(with_client(target, _places), pool, worker) if place.started]
    if not there:
        raise UsageError(f"pool {pool} has not been used yet, so it has no children to scale. Its size is a setting")
    for place in there:
        least, most = place.pool.min_size, place.pool.max_size
        if least is not None and most is not None and not least <= size <= most:
            raise UsageError(f"pool {pool} scales itself between {least} and {most}: it cannot have {size} children")
    order = _Order("scale", pool, size, f"told to have {count(size, 'child', 'children')} in pool {pool}")
    if dry_run:
        return _would(there, order, as_json=as_json)
    fewer = [place for place in there if size < place.pool.size]
    sizes = ", ".join(sorted({str(place.pool.size) for place in fewer}))
    question = f"Scale pool {pool} from {sizes} to {size} at {count(len(fewer), 'worker')}?"
    if fewer and not agreed(question, yes=yes):
        return 1
    return _tell(target, there, order, as_json=as_json)


@pools.command("recycle")
@_options
def recycle(*, where: Where, pool: str, worker: str | None, dry_run: bool, yes: bool, as_json: bool) -> int:
    """Replace the children of a pool by new ones, each after its calls.

    \b
    Examples:
      workfleet pools recycle images --dry-run
      workfleet pools recycle images --yes
    """
    target = target_of(where)
    there = [place for place in _those(with_client(target, _places), pool, worker) if place.pool.children]
    order = _Order("recycle", pool, None, f"told to replace the children of pool {pool}")
    if not there:
        return _say(order, {}, f"pool {pool} has no children", dry_run=dry_run, as_json=as_json)
    if dry_run:
        return _would(there, order, as_json=as_json)
    children = sum(len(place.pool.children) + place.pool.unlisted for place in there)
    question = f"Replace {count(children, 'child', 'children')} of pool {pool} at {count(len(there), 'worker')}?"
    if not agreed(question, yes=yes):
        return 1
    return _tell(target, there, order, as_json=as_json)


def _those(found: Sequence[_Place], pool: str | None, worker: str | None) -> list[_Place]:
    """Raises `NotFound`, which lists what there is."""
    at = [place for place in found if worker in (None, place.worker.record.id)]
    if not at and worker is not None:
        known = ", ".join(sorted({place.worker.record.id for place in found})) or "none"
        raise NotFound(f"no pools are known of a worker {worker!r}. Workers with pools: {known}")
    there = [place for place in at if pool in (None, place.pool.name)]
    if not there and pool is not None:
        known = ", ".join(sorted({place.pool.name for place in at})) or "none: no worker has said how its pools are"
        raise NotFound(f"there is no pool {pool!r}. Pools: {known}")
    return there


def _would(there: Sequence[_Place], order: _Order, *, as_json: bool) -> int:
    ids = [place.worker.record.id for place in there]
    said = f"{count(len(ids), 'worker')} would be {order.said}: {', '.join(ids)}"
    return _say(order, dict.fromkeys(ids, False), said, dry_run=True, as_json=as_json)


def _tell(target: Target, there: Sequence[_Place], order: _Order, *, as_json: bool) -> int:
    now = SystemClock().now_ms()

    async def send(client: Client) -> dict[str, bool]:
        store = await client.session.store()
        return {
            (worker := place.worker.record.id): await store.fleet.order(
                worker, PoolOrder(id=new_id(now), pool=order.pool, verb=order.verb, size=order.size)
            )
            for place in there
        }

    done = with_client(target, send)
    _say(order, done, f"{count(sum(done.values()), 'worker')} {order.said}", dry_run=False, as_json=as_json)
    return 0 if all(done.values()) else 1


def _say(order: _Order, done: Mapping[str, bool], said: str, *, dry_run: bool, as_json: bool) -> int:
    """A document for each worker, with whether the store knew it still, or a line for all."""
    if not as_json:
        write(said)
        return 0
    for worker, heard in done.items():
        told = {"pool": order.pool, "worker": worker, "size": order.size, "done": heard}
        write_json({"action": order.verb, "dry_run": dry_run, **told})
    return 0


async def _places(client: Client) -> list[_Place]:
    """A worker that is gone has no pools any more."""
    store = await client.session.store()
    lives = lives_of(await store.fleet.workers(), await store.now_ms())
    found = [_Place(life, pool) for life in lives if life.state != "gone" for pool in life.record.pools]
    return sorted(found, key=lambda place: (place.pool.name, place.worker.record.id))


def _write(found: Sequence[_Place]) -> None:
    write_table(
        ("POOL", "WORKER", *POOL_TITLES),
        [[place.pool.name, str(place.worker), *pool_cells(place.pool)] for place in found],
    )
    children = [_child_row(place, child) for place in found for child in place.pool.children]
    if children:
        write()
        write_table(_CHILD_TITLES, children)
    unlisted = sum(place.pool.unlisted for place in found)
    if unlisted:
        write(f"and {unlisted} more")


def pool_cells(pool: PoolReport) -> list[str]:
    """A pool's row below `POOL_TITLES`."""
    kind = "" if pool.isolation == "process" else f"isolation: {pool.isolation}"
    return [
        pool.state,
        f"{pool.ready}/{pool.size}",
        str(pool.busy),
        str(pool.queued),
        str(pool.calls),
        str(pool.failures),
        str(pool.restarts),
        pool.cpu,
        "; ".join(filter(None, (kind, pool.reason))),
    ]


def _child_row(place: _Place, child: ChildReport) -> list[str]:
    return [
        place.pool.name,
        place.worker.record.id,
        "" if child.slot is None else str(child.slot),
        str(child.pid),
        child.state,
        str(child.calls),
        "" if child.memory_bytes is None else mega(child.memory_bytes),
        "" if child.cpu_percent is None else f"{child.cpu_percent:.0f}%",
        rough(child.age_ms),
        str(child.restarts),
        child.method or "",
        child.last_exit or "",
    ]
