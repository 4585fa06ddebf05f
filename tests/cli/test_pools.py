"""`pools ls|scale|recycle`: what workers have said of their pools, and what they are told, through the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from workfleet.model.fleet import ChildReport, PoolOrder, PoolReport, ProcessIdentity, WorkerRecord
from workfleet.ports.stores import Store
from workfleet.supervision.identity import boot_id, own_identity
from workfleet.testing.contracts.harness import pulse

from .conftest import Project, make_project

CHILDREN = (
    ChildReport(
        slot=0, pid=71, state="busy", calls=9, method="resize", memory_bytes=85_400_000, cpu_percent=93.7,
        age_ms=125_000, restarts=2, last_exit="signal SIGKILL: resize used 600 MB of 512 MB",
    ),
    ChildReport(slot=1, pid=72, state="ready", age_ms=500),
    ChildReport(pid=73, state="spare"),
)  # fmt: skip
IMAGES = PoolReport(
    name="images", state="running", size=2, ready=2, busy=1, queued=3, calls=9, failures=1, restarts=2,
    cpu="0.5 cores by cgroup", children=CHILDREN, min_size=1, max_size=900,
)  # fmt: skip
FAILED = PoolReport(name="images", state="failed", size=4, reason="12 children died and none completed a call")
THREADS = PoolReport(name="light", state="running", size=8, ready=8, isolation="thread", children=CHILDREN, unlisted=6)
NEW = PoolReport(name="cpu", state="new", size=0)


async def fill(store: Store) -> None:
    here = own_identity()
    gone = ProcessIdentity(here.host, boot_id(), here.pid, "0")
    far = ProcessIdentity("elsewhere", "boot", 1, "0")
    told = {"far": (far, (FAILED, THREADS)), "gone": (gone, (IMAGES,)), "here": (here, (IMAGES, NEW))}
    for worker, (identity, pools) in told.items():
        await store.fleet.register(WorkerRecord(id=worker, identity=identity))
        await pulse(store, worker=worker, pools=pools)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = make_project(tmp_path)
    project.in_store(fill)
    return project


def orders(project: Project) -> dict[str, list[tuple[str, str, int | None]]]:
    """What each worker was told, by its id."""

    async def look(store: Store) -> dict[str, list[tuple[str, str, int | None]]]:
        def said(order: PoolOrder) -> tuple[str, str, int | None]:
            return (order.verb, order.pool, order.size)

        return {worker.id: list(map(said, worker.orders)) for worker in await store.fleet.workers()}

    return project.in_store(look)


NOBODY: dict[str, list[tuple[str, str, int | None]]] = {"far": [], "gone": [], "here": []}


def test_pools_of_all_living_workers_with_their_children(project: Project) -> None:
    ran = project("pools", "ls")
    assert (ran.code, ran.err) == (0, "")
    pools, children = (table.splitlines() for table in ran.out.split("\n\n"))
    head = "POOL WORKER STATE SIZE BUSY QUEUED CALLS FAILED RESTARTS CPU LIMIT NOTE"
    assert [" ".join(line.split()) for line in pools] == [
        head,
        "cpu here new 0/0 0 0 0 0 0",
        "images far failed 0/4 0 0 0 0 0 12 children died and none completed a call",
        "images here running 2/2 1 3 9 1 2 0.5 cores by cgroup",
        "light far running 8/8 0 0 0 0 0 isolation: thread",
    ]
    busy = "0 71 busy 9 85 MB 94% 2m 2 resize signal SIGKILL: resize used 600 MB of 512 MB"
    assert [" ".join(line.split()) for line in children] == [
        "POOL WORKER PLACE PROCESS STATE CALLS MEMORY CPU AGE RESTARTS METHOD LAST EXIT",
        f"images here {busy}",
        "images here 1 72 ready 0 0s 0",
        "images here 73 spare 0 0s 0",
        f"light far {busy}",
        "light far 1 72 ready 0 0s 0",
        "light far 73 spare 0 0s 0",
        "and 6 more",
    ]


def test_each_pool_of_each_worker_is_a_document(project: Project) -> None:
    documents = project("pools", "ls", "--json").documents
    assert [(each["pool"], each["worker"]) for each in documents] == [
        ("cpu", "here"), ("images", "far"), ("images", "here"), ("light", "far"),
    ]  # fmt: skip
    images = documents[2]
    assert images.pop("seen").endswith("Z")
    first, second, spare = images.pop("children")
    assert images == {
        "pool": "images", "worker": "here", "host": own_identity().host, "worker_state": "on", "state": "running",
        "isolation": "process", "size": 2, "min_size": 1, "max_size": 900,
        "ready": 2, "busy": 1, "queued": 3, "calls": 9, "failures": 1, "restarts": 2,
        "cpu_limit": "0.5 cores by cgroup", "reason": None, "unlisted_children": 0, "orders": [],
    }  # fmt: skip
    assert first == {
        "slot": 0, "pid": 71, "state": "busy", "calls": 9, "method": "resize", "memory_bytes": 85_400_000,
        "cpu_percent": 93.7, "age_ms": 125_000, "restarts": 2,
        "last_exit": "signal SIGKILL: resize used 600 MB of 512 MB",
    }  # fmt: skip
    assert (second["state"], second["memory_bytes"], second["last_exit"]) == ("ready", None, None)
    assert (spare["state"], spare["slot"]) == ("spare", None)


def test_one_pool_and_one_worker(project: Project) -> None:
    def found(*arguments: str) -> list[tuple[str, str]]:
        return [(each["pool"], each["worker"]) for each in project("pools", "ls", *arguments, "--json").documents]

    assert found("images") == [("images", "far"), ("images", "here")]
    assert found("--worker", "far") == [("images", "far"), ("light", "far")]
    assert found("images", "--worker", "here") == [("images", "here")]


def test_nothing_is_known_before_a_worker_has_said_it(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    project.make_store("shop")
    assert project("pools", "ls") == (0, "no pools: no worker of the fleet has said how its pools are\n", "")
    ran = project("pools", "recycle", "cpu")
    assert (ran.code, ran.out) == (4, "")
    assert "there is no pool 'cpu'. Pools: none" in ran.err


@pytest.mark.parametrize("verb", [("ls", "image"), ("scale", "image", "3"), ("recycle", "image", "--yes")])
def test_a_pool_or_worker_that_is_not_there_lists_what_is(project: Project, verb: tuple[str, ...]) -> None:
    ran = project("pools", *verb)
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == "Error: there is no pool 'image'. Pools: cpu, images, light\n"
    ran = project("pools", *verb, "--worker", "nope")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err == "Error: no pools are known of a worker 'nope'. Workers with pools: far, here\n"
    assert orders(project) == NOBODY


def test_more_children_are_had_without_asking(project: Project) -> None:
    assert project("pools", "scale", "images", "4", "--dry-run").out == (
        "2 workers would be told to have 4 children in pool images: far, here\n"
    )
    assert orders(project) == NOBODY
    ran = project("pools", "scale", "images", "4")
    assert ran == (0, "2 workers told to have 4 children in pool images\n", "")
    assert orders(project) == {"far": [("scale", "images", 4)], "gone": [], "here": [("scale", "images", 4)]}
    (document,) = project("pools", "ls", "images", "--worker", "here", "--json").documents
    assert [(order["verb"], order["size"]) for order in document["orders"]] == [("scale", 4)]


def test_fewer_children_are_asked_for(project: Project) -> None:
    ran = project("pools", "scale", "images", "1")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Error: Scale pool images from 2, 4 to 1 at 2 workers? Nobody can be asked")
    assert project.typing("n\n", "pools", "scale", "images", "1").code == 1
    assert orders(project) == NOBODY
    ran = project.typing("y\n", "pools", "scale", "images", "1", "--worker", "here")
    assert (ran.code, ran.out) == (0, "1 worker told to have 1 child in pool images\n")
    assert orders(project) == {"far": [], "gone": [], "here": [("scale", "images", 1)]}
    assert project("pools", "scale", "images", "2", "--yes").code == 0
    assert orders(project) == {"far": [("scale", "images", 2)], "gone": [], "here": [("scale", "images", 2)]}


def test_recycling_is_asked_for(project: Project) -> None:
    assert project("pools", "recycle", "images", "--dry-run").out == (
        "1 worker would be told to replace the children of pool images: here\n"
    )
    ran = project("pools", "recycle", "light")
    assert ran.err.startswith("Error: Replace 9 children of pool light at 1 worker? Nobody can be asked")
    assert orders(project) == NOBODY
    assert project("pools", "recycle", "images", "--yes") == (
        0, "1 worker told to replace the children of pool images\n", "",
    )  # fmt: skip
    assert orders(project) == {"far": [], "gone": [], "here": [("recycle", "images", None)]}
    assert project("pools", "recycle", "cpu") == (0, "pool cpu has no children\n", "")


def test_what_pools_are_told_as_documents(project: Project) -> None:
    def told(action: str, size: int | None, *workers: str, dry_run: bool) -> list[dict[str, object]]:
        said = {"action": action, "dry_run": dry_run, "pool": "images", "size": size, "done": not dry_run}
        return [{**said, "worker": worker} for worker in workers]

    ran = project("pools", "scale", "images", "4", "--dry-run", "--json")
    assert ran.documents == told("scale", 4, "far", "here", dry_run=True)
    assert orders(project) == NOBODY
    assert project("pools", "scale", "images", "4", "--json").documents == told(
        "scale", 4, "far", "here", dry_run=False
    )
    ran = project("pools", "recycle", "images", "--yes", "--json")
    assert ran.documents == told("recycle", None, "here", dry_run=False)
    assert project("pools", "recycle", "cpu", "--json") == (0, "", "")


def test_a_pool_that_was_never_used_has_nothing_to_scale(project: Project) -> None:
    ran = project("pools", "scale", "cpu", "3")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Error: pool cpu has not been used yet, so it has no children to scale")


@pytest.mark.parametrize("size", ["0", "many", "1025"])
def test_a_size_that_no_pool_can_have(project: Project, size: str) -> None:
    assert project("pools", "scale", "images", size).code == 2
    assert orders(project) == NOBODY


def test_a_size_beyond_the_bounds_of_a_pool_that_scales_itself(project: Project) -> None:
    ran = project("pools", "scale", "images", "901", "--yes")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "Error: pool images scales itself between 1 and 900: it cannot have 901 children\n"
    assert orders(project) == NOBODY
    assert project("pools", "scale", "images", "900", "--yes").code == 0
